from typing import Any

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import OuterRef, Subquery


def fill(apps: Any, schema_editor: Any) -> None:
    """Tokens of sessions that served one client each."""
    database = schema_editor.connection.alias
    runtime = apps.get_model("tinker", "TinkerRuntime").objects.filter(
        session_id=OuterRef("session_id")
    )
    tokens = apps.get_model("tinker", "TinkerTokens").objects.using(database)
    tokens.update(tinker_session_id=Subquery(runtime.values("tinker_session_id")[:1]))


class Migration(migrations.Migration):
    dependencies = [("tinker", "0001_initial")]

    operations = [
        migrations.RemoveConstraint("tinkerruntime", "tinker_runtime_once"),
        migrations.AlterField(
            "tinkerruntime",
            "session",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="tinker_clients",
                to="training.session",
            ),
        ),
        migrations.AddConstraint(
            "tinkerruntime",
            models.UniqueConstraint(
                fields=["tinker_session", "session"], name="tinker_runtime_once"
            ),
        ),
        migrations.RemoveConstraint("tinkertokens", "tinker_tokens_hour"),
        migrations.AddField(
            "tinkertokens",
            "tinker_session",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="tinker.tinkersession",
            ),
        ),
        migrations.AddConstraint(
            "tinkertokens",
            models.UniqueConstraint(
                fields=["session", "tinker_session", "hour"], name="tinker_tokens_hour"
            ),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
