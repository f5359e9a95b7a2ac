import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0047_task_next_of_kind"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        # What is there already is None, and is added up while the server runs; what is new begins with 0.
        migrations.AddField("session", "tokens_trained", models.PositiveBigIntegerField(null=True)),
        migrations.AlterField("session", "tokens_trained", models.PositiveBigIntegerField(default=0, null=True)),
        migrations.AddField("runtimespan", "summed", models.BooleanField(default=False)),
        migrations.AddIndex("runtimespan", models.Index(fields=["project", "seen_at"], name="span_recent")),
        migrations.AddIndex(
            "runtimespan",
            models.Index(condition=models.Q(("summed", False)), fields=["project"], name="span_unsummed"),
        ),
        migrations.CreateModel(
            name="UsageSum",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("session_id", models.CharField(max_length=40)),
                ("key_id", models.CharField(max_length=40, null=True)),
                ("gpus", models.PositiveIntegerField(default=0)),
                ("seconds", models.FloatField(default=0)),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="console.project"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["session_id"], name="usage_sum_session"),
                    models.Index(fields=["key_id"], name="usage_sum_key"),
                ]
            },
        ),
    ]
