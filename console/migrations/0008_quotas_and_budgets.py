from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0007_webhooks"),
    ]

    operations = [
        migrations.CreateModel(
            name="Removal",
            fields=[
                ("prefix", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.AddField(
            model_name="project",
            name="device_quota",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="project",
            name="session_quota",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="session",
            name="budget",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="session",
            name="priority",
            field=models.SmallIntegerField(default=0),
        ),
    ]
