from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps
from django.db.models import OuterRef, Subquery


def persons_fill(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Who started the session of each span, by hand or by key: as far as its session or its key is still there."""
    unknown = apps.get_model("console", "RuntimeSpan").objects.filter(person=None)
    sessions = apps.get_model("console", "Session").objects.filter(id=OuterRef("session_id"))
    unknown.update(person_id=Subquery(sessions.values("person_id")[:1]))
    keys = apps.get_model("console", "ApiKey").objects.filter(id=OuterRef("key_id"))
    unknown.update(person_id=Subquery(keys.values("user_id")[:1]))


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0042_span_person'),
    ]

    operations = [migrations.RunPython(persons_fill, migrations.RunPython.noop)]
