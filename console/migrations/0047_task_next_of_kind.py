from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0046_judged_tasks"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="queuedtask", name="task_next"),
        migrations.AddIndex(
            model_name="queuedtask",
            index=models.Index(fields=["session", "judged", "state", "id"], name="task_next_of_kind"),
        ),
    ]
