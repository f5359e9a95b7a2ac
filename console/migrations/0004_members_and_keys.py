import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

import console.users.models


def members_name(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for membership in apps.get_model("console", "Membership").objects.all():
        membership.member_id = console.users.models.new_member_id()
        membership.save(update_fields=["member_id"])


class Migration(migrations.Migration):

    dependencies = [
        ("console", "0003_leader_tick"),
    ]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="allowed_models",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="apikey",
            name="spend_cap_s",
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="membership",
            name="member_id",
            field=models.CharField(default="", editable=False, max_length=40),
        ),
        migrations.AddField(
            model_name="membership",
            name="email",
            field=models.EmailField(blank=True, default="", max_length=254),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="membership",
            name="created_at",
            field=models.DateTimeField(auto_now_add=True, default=django.utils.timezone.now),
            preserve_default=False,
        ),
        migrations.RunPython(members_name, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="membership",
            name="member_id",
            field=models.CharField(
                default=console.users.models.new_member_id, editable=False, max_length=40, unique=True
            ),
        ),
        migrations.AlterField(
            model_name="membership",
            name="user",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="memberships",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.UniqueConstraint(
                condition=models.Q(("email", ""), _negated=True),
                fields=("project", "email"),
                name="one_invitation_per_address",
            ),
        ),
    ]
