from typing import Any

from django.db import migrations, models
from django.db.models import F, OuterRef, Subquery


def fill(apps: Any, schema_editor: Any) -> None:
    """Restarts that are known, and the models of spans whose session is still there."""
    session, span = apps.get_model("training", "Session"), apps.get_model("training", "RuntimeSpan")
    session.objects.update(restarts_ever=F("restarts"))
    model = session.objects.filter(id=OuterRef("session_id")).values("base_model")[:1]
    kept = span.objects.filter(session_id__in=session.objects.values("id"))
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
