from typing import Any

from django.db import migrations, models
from django.db.models import F, OuterRef, Subquery


def fill(apps: Any, schema_editor: Any) -> None:
    """Restarts that are known, and the models of spans whose session is still there."""
    database = schema_editor.connection.alias
    sessions, spans = (
        apps.get_model("training", name).objects.using(database)
        for name in ("Session", "RuntimeSpan")
    )
    sessions.update(restarts_ever=F("restarts"))
    model = sessions.filter(id=OuterRef("session_id")).values("base_model")[:1]
    kept = spans.filter(session_id__in=sessions.values("id"))
    kept.update(base_model=Subquery(model))


class Migration(migrations.Migration):
    dependencies = [("training", "0001_initial")]

    operations = [
        migrations.AddField(
            "alert", "hint", models.CharField(blank=True, default="", max_length=400)
        ),
        migrations.AddField("session", "restarts_ever", models.PositiveIntegerField(default=0)),
        migrations.AddField(
            "runtimespan", "base_model", models.CharField(blank=True, default="", max_length=400)
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
