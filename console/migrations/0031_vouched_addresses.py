from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def addresses_confirm(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Every sign-up makes a row of its address: who has none was made by the operator, who vouches for the address."""
    addresses = apps.get_model("account", "EmailAddress").objects
    for user in apps.get_model("console", "User").objects.exclude(id__in=addresses.values("user_id")).iterator():
        if user.email and not addresses.filter(email=user.email, verified=True).exists():
            addresses.create(user_id=user.pk, email=user.email, verified=True, primary=True)


class Migration(migrations.Migration):

    dependencies = [
        ('account', '0009_emailaddress_unique_primary_email'),
        ('console', '0030_alerts'),
    ]

    operations = [migrations.RunPython(addresses_confirm, migrations.RunPython.noop)]
