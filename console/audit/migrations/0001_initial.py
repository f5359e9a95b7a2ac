from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

SQLITE = """
CREATE TRIGGER audit_append_only BEFORE UPDATE ON console_auditrecord
BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END
"""
POSTGRESQL = """
CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$;
CREATE TRIGGER audit_append_only BEFORE UPDATE ON console_auditrecord
FOR EACH ROW EXECUTE FUNCTION audit_refuse()
"""


def trigger_add(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Deletions are left to the chain of hashes: a trigger against them would keep tests from clearing a database."""
    schema_editor.execute(SQLITE if schema_editor.connection.vendor == "sqlite" else POSTGRESQL)


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                ("project_id", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("number", models.PositiveBigIntegerField(default=0)),
                ("sha256", models.CharField(blank=True, max_length=64)),
                ("mac", models.CharField(blank=True, default="", max_length=64)),
            ],
            options={
                "db_table": "console_audithead",
            },
        ),
        migrations.CreateModel(
            name="AuditRecord",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("project_id", models.CharField(max_length=40)),
                ("number", models.PositiveBigIntegerField()),
                ("content", models.TextField()),
                ("at", models.DateTimeField()),
                ("actor", models.CharField(max_length=400)),
                ("action", models.CharField(max_length=100)),
                ("target", models.TextField()),
                ("previous_sha256", models.CharField(blank=True, max_length=64)),
                ("sha256", models.CharField(max_length=64)),
                ("mac", models.CharField(blank=True, default="", max_length=64)),
            ],
            options={
                "db_table": "console_auditrecord",
                "constraints": [models.UniqueConstraint(fields=("project_id", "number"), name="audit_chain")],
            },
        ),
        migrations.RunPython(trigger_add, migrations.RunPython.noop),
    ]
