from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="EventRecord",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("session_id", models.CharField(max_length=40)),
                ("key", models.CharField(max_length=120, null=True)),
                ("kind", models.CharField(max_length=10)),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("data", models.JSONField()),
            ],
            options={
                "db_table": "console_eventrecord",
                "indexes": [models.Index(fields=["session_id", "id"], name="event_cursor")],
                "constraints": [models.UniqueConstraint(fields=("session_id", "key"), name="event_reported_once")],
            },
        ),
        migrations.CreateModel(
            name="LogChunk",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("session_id", models.CharField(max_length=40)),
                ("launch", models.CharField(max_length=150)),
                ("kept_at", models.DateTimeField(auto_now_add=True)),
                ("lines", models.BinaryField()),
            ],
            options={
                "db_table": "console_logchunk",
                "constraints": [models.UniqueConstraint(fields=("session_id", "launch"), name="log_chunk_once")],
            },
        ),
        migrations.CreateModel(
            name="ResourceChunk",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("session_id", models.CharField(max_length=40)),
                ("columns", models.JSONField()),
                ("latest", models.JSONField()),
            ],
            options={
                "db_table": "console_resourcechunk",
                "indexes": [models.Index(fields=["session_id", "id"], name="resource_chunks")],
            },
        ),
    ]
