from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

CLIPPED = ("grpo", "dr_grpo", "dapo", "ppo", "gspo", "cispo")


def clips_forget(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """clip_low and clip_high were 0.2 beside losses that have no clip; those are read as None from here on."""
    sessions = apps.get_model("console", "Session").objects
    for session in sessions.only("id", "config").iterator():
        config = session.config
        if config.get("loss", "grpo") in CLIPPED and config.get("tis_cap") is None:
            continue  # what it has trained with, it goes on with
        if config.get("clip_low") is not None or config.get("clip_high") is not None:
            sessions.filter(pk=session.pk).update(config=config | {"clip_low": None, "clip_high": None})


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0018_unverified'),
    ]

    operations = [migrations.RunPython(clips_forget, migrations.RunPython.noop)]
