"""A table of this machine's devices, and how many each session has (none written down: a session of an older server)."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("console", "0014_server_instance")]

    operations = [
        migrations.AddField("session", "devices", models.PositiveSmallIntegerField(null=True)),
        migrations.CreateModel(
            name="Device",
            fields=[
                ("id", models.CharField(max_length=80, primary_key=True, serialize=False)),
                ("position", models.PositiveSmallIntegerField()),
                (
                    "session",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="devices_held",
                        to="console.session",
                    ),
                ),
            ],
        ),
    ]
