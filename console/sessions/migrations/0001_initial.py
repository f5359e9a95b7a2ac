import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import console.sessions.alerts.models
import console.sessions.models
import console.sessions.saved_views.models
import console.sessions.sharing.models
import console.sessions.states
import tinkerscript.wire.sessions


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("users", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="EpisodePack",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sha256", models.CharField(max_length=64)),
                ("size_bytes", models.PositiveBigIntegerField()),
                ("committed_at", models.DateTimeField(auto_now_add=True)),
                ("has_replaced", models.BooleanField(default=False)),
            ],
            options={
                "db_table": "console_episodepack",
            },
        ),
        migrations.CreateModel(
            name="Removal",
            fields=[
                ("prefix", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("due_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "console_removal",
            },
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=console.sessions.models.new_session_id,
                        editable=False,
                        max_length=40,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("kind", models.CharField(default=tinkerscript.wire.sessions.SessionKind["EPISODES"], max_length=8)),
                ("name", models.CharField(blank=True, max_length=120)),
                ("base_model", models.CharField(max_length=400)),
                ("served_checkpoint_id", models.CharField(blank=True, default="", max_length=40)),
                ("start_state_id", models.CharField(blank=True, default="", max_length=40)),
                ("started_from", models.JSONField(null=True)),
                ("config", models.JSONField(default=dict)),
                ("priority", models.SmallIntegerField(default=0)),
                ("devices", models.PositiveSmallIntegerField(default=0)),
                ("place", models.CharField(default="here", max_length=40)),
                ("budget", models.JSONField(default=dict)),
                ("state", models.CharField(default="queued", max_length=14)),
                ("desired", models.CharField(default=console.sessions.states.Desired["RUN"], max_length=8)),
                ("phase", models.CharField(blank=True, max_length=200)),
                ("failure", models.JSONField(null=True)),
                ("restarts", models.PositiveIntegerField(default=0)),
                ("restarts_ever", models.PositiveIntegerField(default=0)),
                ("tags", models.TextField(blank=True)),
                ("notes", models.TextField(blank=True)),
                ("pinned", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("state_since", models.DateTimeField(auto_now_add=True)),
                ("lease_sha256", models.CharField(blank=True, max_length=64)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                ("launcher", models.CharField(blank=True, max_length=20)),
                ("launch_handle", models.JSONField(null=True)),
                ("address", models.CharField(blank=True, max_length=200)),
                ("gateway_port", models.PositiveIntegerField(null=True)),
                ("progress", models.BigIntegerField(default=0)),
                ("progress_at", models.DateTimeField(null=True)),
                ("last_activity_at", models.DateTimeField(null=True)),
                ("policy_version", models.PositiveIntegerField(default=0)),
                ("policy_version_high", models.PositiveIntegerField(default=0)),
                ("reward_mean", models.FloatField(null=True)),
                ("accounting", models.JSONField(default=dict)),
                ("tokens_trained", models.PositiveBigIntegerField(default=0)),
                ("journal", models.JSONField(null=True)),
                ("journal_bytes", models.PositiveBigIntegerField(default=0)),
                ("episodes_removed_at", models.DateTimeField(null=True)),
                (
                    "key",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="training_sessions",
                        to="users.apikey",
                    ),
                ),
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
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="training_sessions",
                        to="users.project",
                    ),
                ),
            ],
            options={
                "db_table": "console_session",
            },
        ),
        migrations.CreateModel(
            name="MetricRule",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=console.sessions.alerts.models.new_rule_id,
                        editable=False,
                        max_length=40,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("name", models.CharField(max_length=60)),
                ("metric", models.CharField(max_length=220)),
                ("above", models.BooleanField()),
                ("value", models.FloatField()),
                ("steps", models.PositiveSmallIntegerField()),
                ("runs", models.CharField(blank=True, max_length=120)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="metric_rules", to="users.project"
                    ),
                ),
            ],
            options={
                "db_table": "console_metricrule",
            },
        ),
        migrations.CreateModel(
            name="SessionTurn",
            fields=[
                (
                    "session",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="training.session",
                    ),
                ),
                ("holder", models.CharField(max_length=32)),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "db_table": "console_sessionturn",
            },
        ),
        migrations.CreateModel(
            name="QueuedTask",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "task_id",
                    models.CharField(
                        default=console.sessions.models.new_task_id, editable=False, max_length=40, unique=True
                    ),
                ),
                ("name", models.CharField(max_length=512)),
                ("row", models.JSONField(null=True)),
                ("size_bytes", models.PositiveIntegerField(default=0)),
                ("eval", models.BooleanField(default=False)),
                ("state", models.CharField(default="waiting", max_length=8)),
                ("try_number", models.PositiveSmallIntegerField(default=0)),
                ("tries", models.PositiveSmallIntegerField()),
                ("lease", models.CharField(blank=True, max_length=64)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                ("worker", models.CharField(blank=True, max_length=120)),
                ("episode_id", models.CharField(max_length=64, null=True)),
                ("error", models.CharField(blank=True, max_length=500)),
                ("ended_at", models.DateTimeField(null=True)),
                ("judged", models.BooleanField(default=False)),
                ("attempts", models.PositiveSmallIntegerField(default=1)),
                ("episode_ids", models.JSONField(default=list)),
                ("outputs", models.JSONField(null=True)),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="queued_tasks",
                        to="training.session",
                    ),
                ),
            ],
            options={
                "db_table": "console_queuedtask",
            },
        ),
        migrations.CreateModel(
            name="EpisodeTextBlock",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveBigIntegerField()),
                ("bitmap", models.BinaryField()),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="training.session",
                    ),
                ),
            ],
            options={
                "db_table": "console_episodetextblock",
            },
        ),
        migrations.CreateModel(
            name="EpisodeRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("episode_id", models.CharField(max_length=64)),
                ("seq", models.PositiveBigIntegerField()),
                ("task", models.CharField(max_length=512, null=True)),
                ("group_key", models.CharField(max_length=512, null=True)),
                ("eval", models.BooleanField(default=False)),
                ("fate", models.CharField(max_length=10)),
                ("reason", models.TextField(blank=True)),
                ("reward", models.FloatField(null=True)),
                ("is_success", models.BooleanField(null=True)),
                ("rewards_by_agent", models.JSONField(null=True)),
                ("metrics", models.JSONField(default=dict)),
                ("agents", models.TextField(blank=True)),
                ("calls", models.PositiveIntegerField(default=0)),
                ("sampled_tokens", models.PositiveBigIntegerField(default=0)),
                ("timelines", models.PositiveIntegerField(null=True)),
                ("drift", models.PositiveIntegerField(default=0)),
                ("policy_version_first", models.PositiveIntegerField(null=True)),
                ("policy_version_last", models.PositiveIntegerField(null=True)),
                ("trained_step", models.PositiveIntegerField(null=True)),
                ("advantage", models.FloatField(null=True)),
                ("advantages", models.JSONField(null=True)),
                ("logprob_mean", models.FloatField(null=True)),
                ("ratio_counts", models.JSONField(null=True)),
                ("prompt", models.TextField(blank=True)),
                ("answer", models.TextField(blank=True)),
                ("refused", models.JSONField(null=True)),
                ("begun_at", models.FloatField()),
                ("deadline_at", models.FloatField(null=True)),
                ("ended_at", models.FloatField(null=True)),
                ("pack_offset", models.PositiveBigIntegerField(default=0)),
                ("pack_bytes", models.PositiveBigIntegerField(default=0)),
                (
                    "pack",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="episodes",
                        to="training.episodepack",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="episode_records",
                        to="training.session",
                    ),
                ),
            ],
            options={
                "db_table": "console_episoderecord",
            },
        ),
        migrations.AddField(
            model_name="episodepack",
            name="session",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="episode_packs", to="training.session"
            ),
        ),
        migrations.CreateModel(
            name="EpisodeAnnotation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("episode_id", models.CharField(max_length=64)),
                ("thumb", models.CharField(blank=True, max_length=4)),
                ("comment", models.TextField(blank=True)),
                ("at", models.DateTimeField(auto_now=True)),
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
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="annotations",
                        to="training.session",
                    ),
                ),
            ],
            options={
                "db_table": "console_episodeannotation",
            },
        ),
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
                        to="training.session",
                    ),
                ),
            ],
            options={
                "db_table": "console_device",
            },
        ),
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=console.sessions.models.new_checkpoint_id,
                        editable=False,
                        max_length=40,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("kind", models.CharField(max_length=8)),
                ("state", models.CharField(default="requested", max_length=10)),
                ("ordered", models.BooleanField(default=False)),
                ("step", models.PositiveIntegerField(null=True)),
                ("files", models.JSONField(default=list)),
                ("size_bytes", models.PositiveBigIntegerField(default=0)),
                ("unverified", models.BooleanField(default=False)),
                ("pinned", models.BooleanField(default=False)),
                ("failure", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("committed_at", models.DateTimeField(null=True)),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="checkpoints", to="training.session"
                    ),
                ),
            ],
            options={
                "db_table": "console_checkpoint",
            },
        ),
        migrations.CreateModel(
            name="ArchivePart",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("episodes", models.PositiveIntegerField()),
                ("path", models.CharField(max_length=40)),
                ("size_bytes", models.PositiveBigIntegerField()),
                ("sha256", models.CharField(max_length=64)),
                ("committed_at", models.DateTimeField(auto_now=True)),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="archive_parts", to="training.session"
                    ),
                ),
            ],
            options={
                "db_table": "console_archivepart",
            },
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("rule", models.CharField(max_length=20)),
                ("subject", models.CharField(blank=True, max_length=40)),
                ("text", models.CharField(max_length=400)),
                ("hint", models.CharField(blank=True, default="", max_length=400)),
                ("step", models.PositiveIntegerField(null=True)),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("over_at", models.DateTimeField(null=True)),
                ("mailed_at", models.DateTimeField(null=True)),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alerts",
                        to="training.session",
                    ),
                ),
            ],
            options={
                "db_table": "console_alert",
            },
        ),
        migrations.CreateModel(
            name="ShareLink",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=console.sessions.sharing.models.new_share_id,
                        editable=False,
                        max_length=40,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("sha256", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                (
                    "key",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="users.apikey"
                    ),
                ),
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
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="share_links", to="training.session"
                    ),
                ),
            ],
            options={
                "db_table": "console_sharelink",
            },
        ),
        migrations.CreateModel(
            name="Upload",
            fields=[
                ("id", models.CharField(editable=False, max_length=40, primary_key=True, serialize=False)),
                ("archive", models.JSONField(null=True)),
                ("packed", models.JSONField(null=True)),
                ("external", models.JSONField(null=True)),
                ("files", models.JSONField()),
                ("pending_bytes", models.BigIntegerField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "checkpoint",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to="training.checkpoint"),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="uploads", to="training.session"
                    ),
                ),
            ],
            options={
                "db_table": "console_upload",
            },
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
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="users.project"
                    ),
                ),
            ],
            options={
                "db_table": "console_usagesum",
            },
        ),
        migrations.CreateModel(
            name="RuntimeSpan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("session_id", models.CharField(max_length=40)),
                ("key_id", models.CharField(max_length=40, null=True)),
                ("base_model", models.CharField(blank=True, default="", max_length=400)),
                ("lease_sha256", models.CharField(max_length=64, unique=True)),
                ("gpus", models.PositiveIntegerField(default=0)),
                ("started_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
                ("summed", models.BooleanField(default=False)),
                ("summed_at", models.DateTimeField(null=True)),
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
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="users.project"
                    ),
                ),
            ],
            options={
                "db_table": "console_runtimespan",
                "indexes": [
                    models.Index(fields=["session_id"], name="span_session"),
                    models.Index(fields=["key_id"], name="span_key"),
                    models.Index(fields=["project", "summed_at"], name="span_recent"),
                    models.Index(condition=models.Q(("summed", False)), fields=["project", "id"], name="span_unsummed"),
                ],
            },
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=console.sessions.saved_views.models.new_view_id,
                        editable=False,
                        max_length=40,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("name", models.CharField(max_length=60)),
                ("address", models.CharField(blank=True, max_length=400)),
                ("pinned", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_views",
                        to="users.project",
                    ),
                ),
            ],
            options={
                "db_table": "console_savedview",
                "constraints": [models.UniqueConstraint(fields=("project", "name"), name="saved_view_name_once")],
            },
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["state", "state_since"], name="session_queue"),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["project", "-created_at"], name="session_list"),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["project", "updated_at"], name="session_changes"),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                condition=models.Q(("launch_handle__isnull", False)), fields=["id"], name="session_launched"
            ),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                condition=models.Q(("episodes_removed_at", None)),
                fields=["state", "state_since"],
                name="session_expiring",
            ),
        ),
        migrations.AddIndex(
            model_name="queuedtask",
            index=models.Index(fields=["session", "judged", "state", "id"], name="task_next_of_kind"),
        ),
        migrations.AddIndex(
            model_name="queuedtask",
            index=models.Index(fields=["session", "name", "state"], name="task_name"),
        ),
        migrations.AddConstraint(
            model_name="episodetextblock",
            constraint=models.UniqueConstraint(fields=("session", "number"), name="episode_text_block_once"),
        ),
        migrations.AddIndex(
            model_name="episoderecord",
            index=models.Index(fields=["session", "seq"], name="episode_newest"),
        ),
        migrations.AddIndex(
            model_name="episoderecord",
            index=models.Index(fields=["session", "reward", "seq"], name="episode_reward"),
        ),
        migrations.AddIndex(
            model_name="episoderecord",
            index=models.Index(fields=["session", "sampled_tokens", "seq"], name="episode_tokens"),
        ),
        migrations.AddIndex(
            model_name="episoderecord",
            index=models.Index(fields=["session", "logprob_mean", "seq"], name="episode_surprise"),
        ),
        migrations.AddIndex(
            model_name="episoderecord",
            index=models.Index(fields=["session", "task", "seq"], name="episode_task"),
        ),
        migrations.AddIndex(
            model_name="episoderecord",
            index=models.Index(fields=["session", "fate", "seq"], name="episode_fate"),
        ),
        migrations.AddIndex(
            model_name="episoderecord",
            index=models.Index(fields=["session", "trained_step", "seq"], name="episode_step"),
        ),
        migrations.AddIndex(
            model_name="episoderecord",
            index=models.Index(fields=["session", "policy_version_last", "seq"], name="episode_version"),
        ),
        migrations.AddIndex(
            model_name="episoderecord",
            index=models.Index(fields=["session", "task", "fate", "eval", "reward"], name="episode_facets"),
        ),
        migrations.AddConstraint(
            model_name="episoderecord",
            constraint=models.UniqueConstraint(fields=("session", "episode_id"), name="episode_once"),
        ),
        migrations.AddConstraint(
            model_name="episodepack",
            constraint=models.UniqueConstraint(fields=("session", "sha256"), name="episode_pack_once"),
        ),
        migrations.AddConstraint(
            model_name="episodeannotation",
            constraint=models.UniqueConstraint(fields=("session", "episode_id", "person"), name="annotation_once"),
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(condition=models.Q(("unverified", True)), fields=["id"], name="checkpoint_unverified"),
        ),
        migrations.AddConstraint(
            model_name="archivepart",
            constraint=models.UniqueConstraint(fields=("session", "number"), name="archive_part_once"),
        ),
        migrations.AddIndex(
            model_name="alert",
            index=models.Index(fields=["session", "rule", "over_at"], name="alert_standing"),
        ),
        migrations.AddIndex(
            model_name="alert",
            index=models.Index(fields=["mailed_at", "at"], name="alert_to_mail"),
        ),
        migrations.AddIndex(
            model_name="usagesum",
            index=models.Index(fields=["session_id"], name="usage_sum_session"),
        ),
        migrations.AddIndex(
            model_name="usagesum",
            index=models.Index(fields=["key_id"], name="usage_sum_key"),
        ),
    ]
