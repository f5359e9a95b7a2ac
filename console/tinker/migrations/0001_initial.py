import django.db.models.deletion
from django.db import migrations, models

import console.tinker.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("training", "0001_initial"),
        ("users", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="TinkerSession",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=console.tinker.models.new_tinker_session_id,
                        editable=False,
                        max_length=40,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("display_name", models.CharField(blank=True, max_length=200)),
                ("sdk_version", models.CharField(blank=True, max_length=40)),
                ("tags", models.JSONField(default=list)),
                ("user_metadata", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("heartbeat_at", models.DateTimeField(auto_now_add=True)),
                ("is_of_endpoints", models.BooleanField(default=False)),
                ("clients_joined", models.PositiveIntegerField(default=0)),
                ("finished", models.JSONField(null=True)),
                ("early_telemetry", models.JSONField(default=list)),
                (
                    "key",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="users.apikey"
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tinker_sessions", to="users.project"
                    ),
                ),
            ],
            options={
                "db_table": "console_tinkersession",
            },
        ),
        migrations.CreateModel(
            name="TinkerSampler",
            fields=[
                ("id", models.CharField(editable=False, max_length=120, primary_key=True, serialize=False)),
                ("number", models.PositiveIntegerField()),
                ("base_model", models.CharField(max_length=400)),
                ("model_path", models.CharField(blank=True, max_length=400)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "checkpoint",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="training.checkpoint",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tinker_samplers",
                        to="training.session",
                    ),
                ),
                (
                    "tinker_session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="samplers", to="tinker.tinkersession"
                    ),
                ),
            ],
            options={
                "db_table": "console_tinkersampler",
            },
        ),
        migrations.CreateModel(
            name="TinkerRuntime",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("base_model", models.CharField(max_length=400)),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tinker_clients",
                        to="training.session",
                    ),
                ),
                (
                    "tinker_session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="runtimes", to="tinker.tinkersession"
                    ),
                ),
            ],
            options={
                "db_table": "console_tinkerruntime",
            },
        ),
        migrations.CreateModel(
            name="TinkerModel",
            fields=[
                ("id", models.CharField(editable=False, max_length=80, primary_key=True, serialize=False)),
                ("number", models.PositiveIntegerField()),
                ("base_model", models.CharField(max_length=400)),
                ("lora", models.JSONField()),
                ("source", models.JSONField(null=True)),
                ("user_metadata", models.JSONField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("last_request_at", models.DateTimeField(auto_now_add=True)),
                ("is_made", models.BooleanField(default=False)),
                ("steps", models.PositiveBigIntegerField(default=0)),
                ("calls_in_all", models.PositiveBigIntegerField(default=0)),
                ("learning_rate", models.FloatField(null=True)),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tinker_models", to="training.session"
                    ),
                ),
                (
                    "tinker_session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="models", to="tinker.tinkersession"
                    ),
                ),
            ],
            options={
                "db_table": "console_tinkermodel",
            },
        ),
        migrations.CreateModel(
            name="TinkerTokens",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour", models.DateTimeField()),
                ("training", models.PositiveBigIntegerField(default=0)),
                ("sampling_prefill", models.PositiveBigIntegerField(default=0)),
                ("sampling_prefill_cached", models.PositiveBigIntegerField(default=0)),
                ("sampling_sample", models.PositiveBigIntegerField(default=0)),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tinker_tokens", to="training.session"
                    ),
                ),
                (
                    "tinker_session",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tinker.tinkersession",
                    ),
                ),
            ],
            options={
                "db_table": "console_tinkertokens",
            },
        ),
        migrations.CreateModel(
            name="TinkerWork",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=80)),
                ("spans", models.JSONField()),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tinker_work", to="training.session"
                    ),
                ),
            ],
            options={
                "db_table": "console_tinkerwork",
            },
        ),
        migrations.CreateModel(
            name="TinkerCheckpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("segment", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=128)),
                ("seq_id", models.PositiveIntegerField()),
                ("lora", models.JSONField()),
                ("user_metadata", models.JSONField(default=dict)),
                ("public", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField(null=True)),
                (
                    "checkpoint",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tinker", to="training.checkpoint"
                    ),
                ),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="checkpoints", to="tinker.tinkermodel"
                    ),
                ),
            ],
            options={
                "db_table": "console_tinkercheckpoint",
                "indexes": [models.Index(fields=["model", "segment", "name"], name="tinker_checkpoint_name")],
            },
        ),
        migrations.CreateModel(
            name="TinkerCall",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq_id", models.PositiveBigIntegerField()),
                ("kind", models.CharField(max_length=20)),
                ("at", models.DateTimeField()),
                ("tokens", models.PositiveBigIntegerField()),
                ("measures", models.JSONField()),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="calls", to="tinker.tinkermodel"
                    ),
                ),
            ],
            options={
                "db_table": "console_tinkercall",
                "constraints": [models.UniqueConstraint(fields=("model", "seq_id"), name="tinker_call_once")],
            },
        ),
        migrations.AddIndex(
            model_name="tinkersession",
            index=models.Index(fields=["project", "-created_at"], name="tinker_session_list"),
        ),
        migrations.AddConstraint(
            model_name="tinkersampler",
            constraint=models.UniqueConstraint(fields=("tinker_session", "number"), name="tinker_sampler_once"),
        ),
        migrations.AddConstraint(
            model_name="tinkerruntime",
            constraint=models.UniqueConstraint(fields=("tinker_session", "session"), name="tinker_runtime_once"),
        ),
        migrations.AddConstraint(
            model_name="tinkermodel",
            constraint=models.UniqueConstraint(fields=("tinker_session", "number"), name="tinker_model_once"),
        ),
        migrations.AddConstraint(
            model_name="tinkertokens",
            constraint=models.UniqueConstraint(fields=("session", "tinker_session", "hour"), name="tinker_tokens_hour"),
        ),
        migrations.AddConstraint(
            model_name="tinkerwork",
            constraint=models.UniqueConstraint(fields=("session", "key"), name="tinker_work_once"),
        ),
    ]
