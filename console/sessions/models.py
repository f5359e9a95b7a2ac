"""Sessions and their checkpoints."""

from django.db import models

from console.users.models import ApiKey, Project, new_id


def new_session_id() -> str:
    return new_id("ses")


def new_checkpoint_id() -> str:
    return new_id("ckp")


class Session(models.Model):
    """One training session: what was asked, where it stands, who holds its lease.

    ``state`` moves only through ``moves.session_move``; ``desired`` is what the user or a budget wants
    ("run", "stop" or "suspend") and the reconciler brings the one to the other.
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_session_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="training_sessions")
    # Which key started it; a person in the console has none.
    key = models.ForeignKey(ApiKey, on_delete=models.SET_NULL, related_name="training_sessions", null=True)
    name = models.CharField(max_length=120, blank=True)
    base_model = models.CharField(max_length=400)
    config = models.JSONField(default=dict)
    priority = models.SmallIntegerField(default=0)  # among the project's own
    budget = models.JSONField(default=dict)  # tinkerscript.wire.sessions.Budget

    state = models.CharField(max_length=14, default="queued")
    desired = models.CharField(max_length=8, default="run")
    phase = models.CharField(max_length=200, blank=True)
    failure = models.JSONField(null=True)
    restarts = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    state_since = models.DateTimeField(auto_now_add=True)

    # Lease: the hash of the token that the current runtime holds. A new launch replaces it, which fences the old one.
    lease_sha256 = models.CharField(max_length=64, blank=True)
    lease_expires_at = models.DateTimeField(null=True)
    launcher = models.CharField(max_length=20, blank=True)
    launch_handle = models.JSONField(null=True)  # what the launcher needs to find the runtime again

    # As of the last heartbeat.
    address = models.CharField(max_length=200, blank=True)
    progress = models.BigIntegerField(default=0)
    progress_at = models.DateTimeField(null=True)
    last_activity_at = models.DateTimeField(null=True)
    policy_version = models.PositiveIntegerField(default=0)
    policy_version_high = models.PositiveIntegerField(default=0)  # the highest ever: a replayed step is no progress
    reward_mean = models.FloatField(null=True)
    accounting = models.JSONField(default=dict)

    # The last copy of the runtime's journal: {"path", "size_bytes", "sha256"}.
    journal = models.JSONField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["state", "state_since"], name="session_queue"),
            models.Index(fields=["project", "-created_at"], name="session_list"),
        ]


class Checkpoint(models.Model):
    """A checkpoint. Rows are readable to users in every state; bytes only once committed."""

    id = models.CharField(primary_key=True, max_length=40, default=new_checkpoint_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="checkpoints")
    kind = models.CharField(max_length=8)
    state = models.CharField(max_length=10, default="requested")
    ordered = models.BooleanField(default=False)  # somebody asked for it: it is asked of each runtime until it is there
    step = models.PositiveIntegerField(null=True)
    files = models.JSONField(default=list)  # [{"path", "size_bytes", "sha256"}]
    size_bytes = models.PositiveBigIntegerField(default=0)  # of all files
    pinned = models.BooleanField(default=False)  # kept until somebody deletes it
    failure = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    committed_at = models.DateTimeField(null=True)


class ArchivePart(models.Model):
    """One Parquet file of ended episodes. ``number`` begins at 1; an episode is in one part alone."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="archive_parts")
    number = models.PositiveIntegerField()
    episodes = models.PositiveIntegerField()
    path = models.CharField(max_length=40)  # its name for those who download it
    size_bytes = models.PositiveBigIntegerField()
    sha256 = models.CharField(max_length=64)
    committed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "number"], name="archive_part_once")]


class Removal(models.Model):
    """Objects of the store that were deleted and are still to go: all whose key begins with ``prefix``."""

    prefix = models.CharField(primary_key=True, max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)


class Upload(models.Model):
    """An upload in flight: the plan that a runtime was given, so that its commit can be checked against it."""

    id = models.CharField(primary_key=True, max_length=40, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="uploads")
    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.CASCADE, null=True)
    archive = models.JSONField(null=True)  # {"part", "episodes"}; with neither it is a copy of the journal
    files = models.JSONField()  # [{"path", "size_bytes", "sha256", "key", "upload_id"}]
    created_at = models.DateTimeField(auto_now_add=True)


class RuntimeSpan(models.Model):
    """The time in which one runtime held a session: from its lease to its last heartbeat. Usage is the sum of these.

    ``session_id`` and ``key_id`` are no foreign keys: what was used stays used.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    session_id = models.CharField(max_length=40)
    key_id = models.CharField(max_length=40, null=True)
    lease_sha256 = models.CharField(max_length=64, unique=True)
    gpus = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["session_id"], name="span_session"),
            models.Index(fields=["key_id"], name="span_key"),
        ]
