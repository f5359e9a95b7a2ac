"""Every table of the control plane, and the trigger that keeps the audit log from being altered."""

import django.contrib.auth.models
import django.contrib.auth.validators
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

import console.sessions.alerts.models
import console.sessions.models
import console.sessions.saved_views.models
import console.sessions.sharing.models
import console.sessions.states
import console.tinker.models
import console.users.models
import console.webhooks.models
import tinkerscript.wire.sessions

SQLITE = """
CREATE TRIGGER audit_append_only BEFORE UPDATE ON console_auditrecord
BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END
"""
POSTGRESQL = """
CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$;
CREATE TRIGGER audit_append_only BEFORE UPDATE ON console_auditrecord
FOR EACH ROW EXECUTE FUNCTION audit_refuse()
"""


def trigger_add(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Deletions are left to the chain of hashes: a trigger against them would keep tests from clearing a database."""
    schema_editor.execute(SQLITE if schema_editor.connection.vendor == "sqlite" else POSTGRESQL)


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditRecord",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("project_id", models.CharField(max_length=40)),
                ("number", models.PositiveBigIntegerField()),
                ("content", models.TextField()),
                ("previous_sha256", models.CharField(blank=True, max_length=64)),
                ("sha256", models.CharField(max_length=64)),
                ("mac", models.CharField(blank=True, default="", max_length=64)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("project_id", "number"), name="audit_chain")],
            },
        ),
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                ("project_id", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("number", models.PositiveBigIntegerField(default=0)),
                ("sha256", models.CharField(blank=True, max_length=64)),
                ("mac", models.CharField(blank=True, default="", max_length=64)),
            ],
        ),
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
                "indexes": [models.Index(fields=["session_id", "id"], name="event_cursor")],
                "constraints": [models.UniqueConstraint(fields=("session_id", "key"), name="event_reported_once")],
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
                "indexes": [models.Index(fields=["session_id", "id"], name="resource_chunks")],
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
                "constraints": [models.UniqueConstraint(fields=("session_id", "launch"), name="log_chunk_once")],
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
        ),
        migrations.CreateModel(
            name="ServerInstance",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("secret", models.CharField(max_length=32)),
            ],
        ),
        migrations.CreateModel(
            name="Drain",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("since", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="WarmRuntime",
            fields=[
                ("id", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("is_ready", models.BooleanField(default=False)),
                ("started_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="RestartCount",
            fields=[
                ("cause", models.CharField(max_length=20, primary_key=True, serialize=False)),
                ("total", models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="User",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "username",
                    models.CharField(
                        error_messages={"unique": "A user with that username already exists."},
                        help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                        max_length=150,
                        unique=True,
                        validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                        verbose_name="username",
                    ),
                ),
                ("first_name", models.CharField(blank=True, max_length=150, verbose_name="first name")),
                ("last_name", models.CharField(blank=True, max_length=150, verbose_name="last name")),
                (
                    "is_staff",
                    models.BooleanField(
                        default=False,
                        help_text="Designates whether the user can log into this admin site.",
                        verbose_name="staff status",
                    ),
                ),
                (
                    "is_active",
                    models.BooleanField(
                        default=True,
                        help_text="Designates whether this user should be treated as active."
                        " Unselect this instead of deleting accounts.",
                        verbose_name="active",
                    ),
                ),
                ("date_joined", models.DateTimeField(default=django.utils.timezone.now, verbose_name="date joined")),
                ("email", models.EmailField(max_length=254, unique=True)),
                ("slot_freed_at", models.DateTimeField(null=True)),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to."
                        " A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={
                "verbose_name": "user",
                "verbose_name_plural": "users",
                "abstract": False,
            },
            managers=[
                ("objects", django.contrib.auth.models.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name="Project",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=console.users.models.new_project_id,
                        editable=False,
                        max_length=40,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("name", models.CharField(max_length=120)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("device_quota", models.PositiveIntegerField(null=True)),
                ("session_quota", models.PositiveIntegerField(null=True)),
                ("storage_quota_bytes", models.PositiveBigIntegerField(null=True)),
                ("slot_freed_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "member_id",
                    models.CharField(
                        default=console.users.models.new_member_id, editable=False, max_length=40, unique=True
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="memberships", to="console.project"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("email", models.EmailField(blank=True, max_length=254)),
                ("role", models.CharField(max_length=10)),
                ("alerts_read", models.BigIntegerField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("project", "user"), name="one_role_per_member"),
                    models.UniqueConstraint(
                        condition=models.Q(("email", ""), _negated=True),
                        fields=("project", "email"),
                        name="one_invitation_per_address",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=console.users.models.new_key_id,
                        editable=False,
                        max_length=40,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="keys", to="console.project"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="keys", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("name", models.CharField(blank=True, max_length=120)),
                ("prefix", models.CharField(max_length=16)),
                ("sha256", models.CharField(max_length=64, unique=True)),
                ("scopes", models.JSONField(default=list)),
                ("allowed_models", models.JSONField(null=True)),
                ("spend_cap_s", models.PositiveBigIntegerField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("last_used_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="console.project"
                    ),
                ),
                ("key", models.CharField(max_length=200)),
                ("request", models.CharField(max_length=300)),
                ("body_sha256", models.CharField(max_length=64)),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("body", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "indexes": [models.Index(fields=["project", "created_at"], name="answer_age")],
                "constraints": [
                    models.UniqueConstraint(fields=("project", "key"), name="one_answer_per_idempotency_key")
                ],
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
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="metric_rules", to="console.project"
                    ),
                ),
                ("name", models.CharField(max_length=60)),
                ("metric", models.CharField(max_length=40)),
                ("above", models.BooleanField()),
                ("value", models.FloatField()),
                ("steps", models.PositiveSmallIntegerField()),
                ("runs", models.CharField(blank=True, max_length=120)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
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
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="training_sessions",
                        to="console.project",
                    ),
                ),
                (
                    "key",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="training_sessions",
                        to="console.apikey",
                    ),
                ),
                ("kind", models.CharField(default=tinkerscript.wire.sessions.SessionKind["EPISODES"], max_length=8)),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
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
            ],
            options={
                "indexes": [
                    models.Index(fields=["state", "state_since"], name="session_queue"),
                    models.Index(fields=["project", "-created_at"], name="session_list"),
                    models.Index(fields=["project", "updated_at"], name="session_changes"),
                    models.Index(
                        condition=models.Q(("launch_handle__isnull", False)), fields=["id"], name="session_launched"
                    ),
                    models.Index(
                        condition=models.Q(("episodes_removed_at", None)),
                        fields=["state", "state_since"],
                        name="session_expiring",
                    ),
                ],
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
                        to="console.session",
                    ),
                ),
            ],
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
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="checkpoints", to="console.session"
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
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("unverified", True)), fields=["id"], name="checkpoint_unverified")
                ],
            },
        ),
        migrations.CreateModel(
            name="ArchivePart",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="archive_parts", to="console.session"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("episodes", models.PositiveIntegerField()),
                ("path", models.CharField(max_length=40)),
                ("size_bytes", models.PositiveBigIntegerField()),
                ("sha256", models.CharField(max_length=64)),
                ("committed_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("session", "number"), name="archive_part_once")],
            },
        ),
        migrations.CreateModel(
            name="EpisodePack",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="episode_packs", to="console.session"
                    ),
                ),
                ("sha256", models.CharField(max_length=64)),
                ("size_bytes", models.PositiveBigIntegerField()),
                ("committed_at", models.DateTimeField(auto_now_add=True)),
                ("has_replaced", models.BooleanField(default=False)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("session", "sha256"), name="episode_pack_once")],
            },
        ),
        migrations.CreateModel(
            name="EpisodeRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="episode_records",
                        to="console.session",
                    ),
                ),
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
                (
                    "pack",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="episodes",
                        to="console.episodepack",
                    ),
                ),
                ("pack_offset", models.PositiveBigIntegerField(default=0)),
                ("pack_bytes", models.PositiveBigIntegerField(default=0)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["session", "seq"], name="episode_newest"),
                    models.Index(fields=["session", "reward", "seq"], name="episode_reward"),
                    models.Index(fields=["session", "sampled_tokens", "seq"], name="episode_tokens"),
                    models.Index(fields=["session", "logprob_mean", "seq"], name="episode_surprise"),
                    models.Index(fields=["session", "task", "seq"], name="episode_task"),
                    models.Index(fields=["session", "fate", "seq"], name="episode_fate"),
                    models.Index(fields=["session", "trained_step", "seq"], name="episode_step"),
                    models.Index(fields=["session", "policy_version_last", "seq"], name="episode_version"),
                    models.Index(fields=["session", "task", "fate", "eval", "reward"], name="episode_facets"),
                ],
                "constraints": [models.UniqueConstraint(fields=("session", "episode_id"), name="episode_once")],
            },
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alerts",
                        to="console.session",
                    ),
                ),
                ("rule", models.CharField(max_length=20)),
                ("subject", models.CharField(blank=True, max_length=40)),
                ("text", models.CharField(max_length=400)),
                ("step", models.PositiveIntegerField(null=True)),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("over_at", models.DateTimeField(null=True)),
                ("mailed_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["session", "rule", "over_at"], name="alert_standing"),
                    models.Index(fields=["mailed_at", "at"], name="alert_to_mail"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Removal",
            fields=[
                ("prefix", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("due_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Upload",
            fields=[
                ("id", models.CharField(editable=False, max_length=40, primary_key=True, serialize=False)),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="uploads", to="console.session"
                    ),
                ),
                (
                    "checkpoint",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to="console.checkpoint"),
                ),
                ("archive", models.JSONField(null=True)),
                ("packed", models.JSONField(null=True)),
                ("external", models.JSONField(null=True)),
                ("files", models.JSONField()),
                ("pending_bytes", models.BigIntegerField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="RuntimeSpan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="console.project"
                    ),
                ),
                ("session_id", models.CharField(max_length=40)),
                ("key_id", models.CharField(max_length=40, null=True)),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("lease_sha256", models.CharField(max_length=64, unique=True)),
                ("gpus", models.PositiveIntegerField(default=0)),
                ("started_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
                ("summed", models.BooleanField(default=False)),
                ("summed_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["session_id"], name="span_session"),
                    models.Index(fields=["key_id"], name="span_key"),
                    models.Index(fields=["project", "summed_at"], name="span_recent"),
                    models.Index(condition=models.Q(("summed", False)), fields=["project", "id"], name="span_unsummed"),
                ],
            },
        ),
        migrations.CreateModel(
            name="UsageSum",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="console.project"
                    ),
                ),
                ("session_id", models.CharField(max_length=40)),
                ("key_id", models.CharField(max_length=40, null=True)),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("gpus", models.PositiveIntegerField(default=0)),
                ("seconds", models.FloatField(default=0)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["session_id"], name="usage_sum_session"),
                    models.Index(fields=["key_id"], name="usage_sum_key"),
                ],
            },
        ),
        migrations.CreateModel(
            name="EpisodeTextBlock",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="console.session",
                    ),
                ),
                ("number", models.PositiveBigIntegerField()),
                ("bitmap", models.BinaryField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("session", "number"), name="episode_text_block_once")],
            },
        ),
        migrations.CreateModel(
            name="EpisodeAnnotation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="annotations",
                        to="console.session",
                    ),
                ),
                ("episode_id", models.CharField(max_length=64)),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("thumb", models.CharField(blank=True, max_length=4)),
                ("comment", models.TextField(blank=True)),
                ("at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("session", "episode_id", "person"), name="annotation_once")
                ],
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
                        to="console.session",
                    ),
                ),
                ("holder", models.CharField(max_length=32)),
                ("expires_at", models.DateTimeField()),
            ],
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
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_views",
                        to="console.project",
                    ),
                ),
                ("name", models.CharField(max_length=60)),
                ("address", models.CharField(blank=True, max_length=400)),
                ("pinned", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("project", "name"), name="saved_view_name_once")],
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
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="share_links", to="console.session"
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
                    "key",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="console.apikey"
                    ),
                ),
                ("sha256", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
            ],
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
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="queued_tasks",
                        to="console.session",
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
            ],
            options={
                "indexes": [
                    models.Index(fields=["session", "judged", "state", "id"], name="task_next_of_kind"),
                    models.Index(fields=["session", "name", "state"], name="task_name"),
                ],
            },
        ),
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
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tinker_sessions",
                        to="console.project",
                    ),
                ),
                (
                    "key",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="console.apikey"
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
            ],
            options={
                "indexes": [models.Index(fields=["project", "-created_at"], name="tinker_session_list")],
            },
        ),
        migrations.CreateModel(
            name="TinkerRuntime",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "tinker_session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="runtimes", to="console.tinkersession"
                    ),
                ),
                ("base_model", models.CharField(max_length=400)),
                (
                    "session",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tinker", to="console.session"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tinker_session", "base_model"), name="tinker_runtime_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="TinkerModel",
            fields=[
                ("id", models.CharField(editable=False, max_length=80, primary_key=True, serialize=False)),
                (
                    "tinker_session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="models", to="console.tinkersession"
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tinker_models", to="console.session"
                    ),
                ),
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
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("tinker_session", "number"), name="tinker_model_once")],
            },
        ),
        migrations.CreateModel(
            name="TinkerSampler",
            fields=[
                ("id", models.CharField(editable=False, max_length=120, primary_key=True, serialize=False)),
                (
                    "tinker_session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="samplers", to="console.tinkersession"
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tinker_samplers",
                        to="console.session",
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("base_model", models.CharField(max_length=400)),
                ("model_path", models.CharField(blank=True, max_length=400)),
                (
                    "checkpoint",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="console.checkpoint",
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tinker_session", "number"), name="tinker_sampler_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="TinkerCheckpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="checkpoints",
                        to="console.tinkermodel",
                    ),
                ),
                (
                    "checkpoint",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tinker", to="console.checkpoint"
                    ),
                ),
                ("segment", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=128)),
                ("seq_id", models.PositiveIntegerField()),
                ("lora", models.JSONField()),
                ("user_metadata", models.JSONField(default=dict)),
                ("public", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["model", "segment", "name"], name="tinker_checkpoint_name")],
            },
        ),
        migrations.CreateModel(
            name="TinkerWork",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tinker_work", to="console.session"
                    ),
                ),
                ("key", models.CharField(max_length=80)),
                ("spans", models.JSONField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("session", "key"), name="tinker_work_once")],
            },
        ),
        migrations.CreateModel(
            name="TinkerCall",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="calls", to="console.tinkermodel"
                    ),
                ),
                ("seq_id", models.PositiveBigIntegerField()),
                ("kind", models.CharField(max_length=20)),
                ("at", models.DateTimeField()),
                ("tokens", models.PositiveBigIntegerField()),
                ("measures", models.JSONField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("model", "seq_id"), name="tinker_call_once")],
            },
        ),
        migrations.CreateModel(
            name="TinkerTokens",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tinker_tokens", to="console.session"
                    ),
                ),
                ("hour", models.DateTimeField()),
                ("training", models.PositiveBigIntegerField(default=0)),
                ("sampling_prefill", models.PositiveBigIntegerField(default=0)),
                ("sampling_prefill_cached", models.PositiveBigIntegerField(default=0)),
                ("sampling_sample", models.PositiveBigIntegerField(default=0)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("session", "hour"), name="tinker_tokens_hour")],
            },
        ),
        migrations.CreateModel(
            name="Webhook",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=console.webhooks.models.new_webhook_id,
                        editable=False,
                        max_length=40,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="webhooks", to="console.project"
                    ),
                ),
                ("url", models.CharField(max_length=2000)),
                ("topics", models.JSONField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=console.webhooks.models.new_delivery_id,
                        editable=False,
                        max_length=40,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "webhook",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="console.webhook"
                    ),
                ),
                ("topic", models.CharField(max_length=40)),
                ("body", models.TextField()),
                ("state", models.CharField(default="pending", max_length=10)),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("error", models.CharField(blank=True, max_length=200)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("next_at", models.DateTimeField(null=True)),
                ("delivered_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("next_at__isnull", False)), fields=["next_at"], name="delivery_due"
                    ),
                    models.Index(fields=["webhook", "-created_at"], name="delivery_list"),
                ],
            },
        ),
        migrations.RunPython(trigger_add, migrations.RunPython.noop),
    ]
