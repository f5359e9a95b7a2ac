import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("console", "0004_members_and_keys"),
    ]

    operations = [
        migrations.AddField(
            model_name="session",
            name="key",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="training_sessions",
                to="console.apikey",
            ),
        ),
        migrations.CreateModel(
            name="RuntimeSpan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("session_id", models.CharField(max_length=40)),
                ("key_id", models.CharField(max_length=40, null=True)),
                ("lease_sha256", models.CharField(max_length=64, unique=True)),
                ("gpus", models.PositiveIntegerField(default=0)),
                ("started_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="console.project"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["session_id"], name="span_session"),
                    models.Index(fields=["key_id"], name="span_key"),
                ],
            },
        ),
    ]
