from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Drain",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("since", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "db_table": "console_drain",
            },
        ),
        migrations.CreateModel(
            name="LeaderLease",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("holder", models.CharField(max_length=80)),
                ("expires_at", models.DateTimeField()),
                ("tick_s", models.FloatField(default=0.0)),
            ],
            options={
                "db_table": "console_leaderlease",
            },
        ),
        migrations.CreateModel(
            name="RestartCount",
            fields=[
                ("cause", models.CharField(max_length=20, primary_key=True, serialize=False)),
                ("total", models.PositiveBigIntegerField(default=0)),
            ],
            options={
                "db_table": "console_restartcount",
            },
        ),
        migrations.CreateModel(
            name="ServerInstance",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("secret", models.CharField(max_length=32)),
            ],
            options={
                "db_table": "console_serverinstance",
            },
        ),
        migrations.CreateModel(
            name="WarmRuntime",
            fields=[
                ("id", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("is_ready", models.BooleanField(default=False)),
                ("started_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "db_table": "console_warmruntime",
            },
        ),
    ]
