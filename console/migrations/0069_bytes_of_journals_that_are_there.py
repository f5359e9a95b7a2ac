from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

AT_ONCE = 500


def bytes_fill(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Of the copies that earlier versions committed: a list of files, or one file alone."""
    sessions = apps.get_model("console", "Session").objects
    for id_, journal in sessions.filter(journal__isnull=False).values_list("id", "journal").iterator(AT_ONCE):
        if journal:
            files = journal.get("files", [journal])
            sessions.filter(id=id_).update(journal_bytes=sum(file.get("size_bytes", 0) for file in files))


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0068_bytes_of_journals'),
    ]

    operations = [migrations.RunPython(bytes_fill, migrations.RunPython.noop)]
