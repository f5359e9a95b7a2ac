from datetime import timedelta

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps
from django.db.models import F
from django.utils import timezone

READ_BY_IT = timedelta(days=8)  # usage of the last 7 days


def moments_fill(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Of the spans that usage of the last days still reads. They were added up some minutes after they were last seen."""
    recent = apps.get_model("console", "RuntimeSpan").objects.filter(seen_at__gt=timezone.now() - READ_BY_IT)
    recent.filter(summed=True).update(summed_at=F("seen_at"))


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0065_spans_that_heartbeats_leave_alone'),
    ]

    operations = [migrations.RunPython(moments_fill, migrations.RunPython.noop)]
