from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from console.audit.mac import entry_mac, head_mac

SQLITE = """
CREATE TRIGGER audit_append_only BEFORE UPDATE ON console_auditrecord
BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END
"""
POSTGRESQL = """
CREATE TRIGGER audit_append_only BEFORE UPDATE ON console_auditrecord
FOR EACH ROW EXECUTE FUNCTION audit_refuse()
"""


def trigger_drop(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    on = "" if schema_editor.connection.vendor == "sqlite" else " ON console_auditrecord"
    schema_editor.execute(f"DROP TRIGGER IF EXISTS audit_append_only{on}")


def codes_add(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Entries that were there before the key are taken as they are: nothing could tell whether they were altered."""
    for name, mac in (("AuditRecord", entry_mac), ("AuditHead", head_mac)):
        rows = apps.get_model("console", name).objects
        for row in rows.iterator():
            code = mac(project_id=row.project_id, number=row.number, sha256=row.sha256)
            rows.filter(pk=row.pk).update(mac=code)


def trigger_add(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    schema_editor.execute(SQLITE if schema_editor.connection.vendor == "sqlite" else POSTGRESQL)


class Migration(migrations.Migration):

    dependencies = [
        ("console", "0015_devices"),
    ]

    operations = [
        migrations.RunPython(trigger_drop),
        migrations.AddField("auditrecord", "mac", models.CharField(blank=True, default="", max_length=64)),
        migrations.AddField("audithead", "mac", models.CharField(blank=True, default="", max_length=64)),
        migrations.RunPython(codes_add),
        migrations.RunPython(trigger_add),
    ]
