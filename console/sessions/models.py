"""Sessions and their checkpoints."""

from django.conf import settings
from django.db import models

from console.sessions.states import Desired
from console.users.models import ApiKey, Project, new_id
from tinkerscript.wire.sessions import SessionKind


def new_session_id() -> str:
    return new_id("ses")


def new_checkpoint_id() -> str:
    return new_id("ckp")


def new_task_id() -> str:
    return new_id("tsk")


class Session(models.Model):
    """One training session: what was asked, where it stands, who holds its lease. ``state`` moves
    only through ``transitions.session_move``; ``desired`` is what is wanted, and the reconciler
    brings the one to the other.
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_session_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="training_sessions")
    # by which
    key = models.ForeignKey(
        ApiKey, on_delete=models.SET_NULL, related_name="training_sessions", null=True
    )
    kind = models.CharField(max_length=8, default=SessionKind.EPISODES)
    # Who started it, by hand or by key: the queue is shared by people. None: not a user any more.
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", null=True
    )
    name = models.CharField(max_length=120, blank=True)
    base_model = models.CharField(max_length=400)
    # In the base model's place: what a session of kind serving serves, or the model that one began
    # from. The state that it began from is loaded over that. No foreign keys; ``started_from`` is
    # for the record: wire.sessions.StartedFrom.
    served_checkpoint_id = models.CharField(max_length=40, blank=True, default="")
    start_state_id = models.CharField(max_length=40, blank=True, default="")
    started_from = models.JSONField(null=True)
    config = models.JSONField(default=dict)
    priority = models.SmallIntegerField(default=0)  # among the project's own
    devices = models.PositiveSmallIntegerField(default=0)  # GPUs of its runtime
    place = models.CharField(max_length=40, default="here")  # of console/sessions/limits/places.py
    budget = models.JSONField(default=dict)  # tinkerscript.wire.sessions.Budget

    state = models.CharField(max_length=14, default="queued")
    desired = models.CharField(max_length=8, default=Desired.RUN)  # one of Desired
    phase = models.CharField(max_length=200, blank=True)
    failure = models.JSONField(null=True)
    # since its last step: it fails after too many
    restarts = models.PositiveIntegerField(default=0)
    # how often it lost its runtime and was queued again
    restarts_ever = models.PositiveIntegerField(default=0)
    tags = models.TextField(blank=True)  # each between bars: one can be looked for with |tag|
    notes = models.TextField(blank=True)
    pinned = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    state_since = models.DateTimeField(auto_now_add=True)
    # Lease: the hash of the token that the current runtime holds. A new launch replaces it, which
    # fences the old one.
    lease_sha256 = models.CharField(max_length=64, blank=True)
    lease_expires_at = models.DateTimeField(null=True)
    launcher = models.CharField(max_length=20, blank=True)
    launch_handle = models.JSONField(null=True)  # what the launcher needs to find the runtime again
    # host:port of the gateway; the host as its launcher says
    address = models.CharField(max_length=200, blank=True)
    # this and the next two as of the last heartbeat
    gateway_port = models.PositiveIntegerField(null=True)
    progress = models.BigIntegerField(default=0)
    progress_at = models.DateTimeField(null=True)
    last_activity_at = models.DateTimeField(null=True)
    policy_version = models.PositiveIntegerField(default=0)
    # the highest ever: a replayed step is no progress
    policy_version_high = models.PositiveIntegerField(default=0)
    reward_mean = models.FloatField(null=True)
    accounting = models.JSONField(default=dict)
    tokens_trained = models.PositiveBigIntegerField(default=0)
    # the copy of the runtime's: console/sessions/runtime/episode_reports.py
    journal = models.JSONField(null=True)
    journal_bytes = models.PositiveBigIntegerField(default=0)  # of all files of that copy
    # by age, long after its end: runtime/episode_expiry.py
    episodes_removed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "console_session"
        indexes = [
            models.Index(fields=["state", "state_since"], name="session_queue"),
            models.Index(fields=["project", "-created_at"], name="session_list"),
            models.Index(fields=["project", "updated_at"], name="session_changes"),
            models.Index(
                fields=["id"],
                name="session_launched",
                condition=models.Q(launch_handle__isnull=False),
            ),
            models.Index(
                fields=["state", "state_since"],
                name="session_expiring",
                condition=models.Q(episodes_removed_at=None),
            ),
        ]


class Checkpoint(models.Model):
    """A checkpoint. Rows are readable to users in every state; bytes only once committed."""

    id = models.CharField(
        primary_key=True, max_length=40, default=new_checkpoint_id, editable=False
    )
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="checkpoints")
    kind = models.CharField(max_length=8)
    state = models.CharField(max_length=10, default="requested")
    # by a user or a budget: every runtime is asked for it
    ordered = models.BooleanField(default=False)
    step = models.PositiveIntegerField(null=True)
    files = models.JSONField(default=list)  # [{"path", "size_bytes", "sha256"}]
    size_bytes = models.PositiveBigIntegerField(default=0)  # of all files
    # it has files that are hashed only after the commit
    unverified = models.BooleanField(default=False)
    pinned = models.BooleanField(default=False)  # kept until a user deletes it
    failure = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    committed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "console_checkpoint"
        indexes = [
            models.Index(
                fields=["id"], name="checkpoint_unverified", condition=models.Q(unverified=True)
            )
        ]


class ArchivePart(models.Model):
    """One Parquet file of ended episodes. ``number`` begins at 1; an episode is in one part
    alone.
    """

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="archive_parts")
    number = models.PositiveIntegerField()
    episodes = models.PositiveIntegerField()
    path = models.CharField(max_length=40)  # its name for those who download it
    size_bytes = models.PositiveBigIntegerField()
    sha256 = models.CharField(max_length=64)
    committed_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "console_archivepart"
        constraints = [
            models.UniqueConstraint(fields=["session", "number"], name="archive_part_once")
        ]


class EpisodePack(models.Model):
    """One object with the documents of several episodes, named by its SHA-256."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="episode_packs")
    sha256 = models.CharField(max_length=64)
    size_bytes = models.PositiveBigIntegerField()
    committed_at = models.DateTimeField(auto_now_add=True)
    # holds documents too of episodes whose rows name a later pack
    has_replaced = models.BooleanField(default=False)

    class Meta:
        db_table = "console_episodepack"
        constraints = [
            models.UniqueConstraint(fields=["session", "sha256"], name="episode_pack_once")
        ]


class EpisodeRecord(models.Model):
    """An episode as its runtime last reported it, by the columns of ``EpisodeRow``
    (``wire.reading.trajectories``).

    ``agents`` has each label between lines, to look for ``|label|``. ``pack``: its calls and
    tokens, once stored.
    """

    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="episode_records", db_index=False
    )
    episode_id = models.CharField(max_length=64)
    seq = models.PositiveBigIntegerField()
    task = models.CharField(max_length=512, null=True)
    group_key = models.CharField(max_length=512, null=True)
    eval = models.BooleanField(default=False)
    fate = models.CharField(max_length=10)
    reason = models.TextField(blank=True)
    reward = models.FloatField(null=True)
    is_success = models.BooleanField(null=True)
    rewards_by_agent = models.JSONField(null=True)
    metrics = models.JSONField(default=dict)
    agents = models.TextField(blank=True)
    calls = models.PositiveIntegerField(default=0)
    sampled_tokens = models.PositiveBigIntegerField(default=0)
    timelines = models.PositiveIntegerField(null=True)
    drift = models.PositiveIntegerField(default=0)
    policy_version_first = models.PositiveIntegerField(null=True)
    policy_version_last = models.PositiveIntegerField(null=True)
    trained_step = models.PositiveIntegerField(null=True)
    advantage = models.FloatField(null=True)
    advantages = models.JSONField(null=True)
    logprob_mean = models.FloatField(null=True)
    ratio_counts = models.JSONField(null=True)
    prompt = models.TextField(blank=True)
    answer = models.TextField(blank=True)
    refused = models.JSONField(null=True)
    begun_at = models.FloatField()
    deadline_at = models.FloatField(null=True)
    ended_at = models.FloatField(null=True)
    pack = models.ForeignKey(
        EpisodePack, on_delete=models.SET_NULL, null=True, related_name="episodes"
    )
    pack_offset = models.PositiveBigIntegerField(default=0)
    pack_bytes = models.PositiveBigIntegerField(default=0)

    class Meta:
        db_table = "console_episoderecord"
        constraints = [
            models.UniqueConstraint(fields=["session", "episode_id"], name="episode_once")
        ]
        indexes = [
            models.Index(fields=["session", "seq"], name="episode_newest"),
            models.Index(fields=["session", "reward", "seq"], name="episode_reward"),
            models.Index(fields=["session", "sampled_tokens", "seq"], name="episode_tokens"),
            models.Index(fields=["session", "logprob_mean", "seq"], name="episode_surprise"),
            models.Index(fields=["session", "task", "seq"], name="episode_task"),
            models.Index(fields=["session", "fate", "seq"], name="episode_fate"),
            models.Index(fields=["session", "trained_step", "seq"], name="episode_step"),
            models.Index(fields=["session", "policy_version_last", "seq"], name="episode_version"),
            # all they read
            models.Index(
                fields=["session", "task", "fate", "eval", "reward"], name="episode_facets"
            ),
        ]


class Alert(models.Model):
    """Something that a person should look at. ``over_at`` is None while it is so: meanwhile it is
    not raised again.
    """

    id = models.BigAutoField(primary_key=True)
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="alerts", db_index=False
    )
    rule = models.CharField(max_length=20)
    # what of the rule's: which share of which budget
    subject = models.CharField(max_length=40, blank=True)
    text = models.CharField(max_length=400)
    hint = models.CharField(max_length=400, blank=True, default="")  # what to do
    step = models.PositiveIntegerField(null=True)
    at = models.DateTimeField(auto_now_add=True)
    over_at = models.DateTimeField(null=True)
    mailed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "console_alert"
        indexes = [
            models.Index(fields=["session", "rule", "over_at"], name="alert_standing"),
            models.Index(fields=["mailed_at", "at"], name="alert_to_mail"),
        ]


class Removal(models.Model):
    """Objects of the store that were deleted and are still to go: all whose key begins with
    ``prefix``.

    With ``due_at`` they are being written: they go then, unless a row is made of them before.
    """

    prefix = models.CharField(primary_key=True, max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    due_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "console_removal"


class Upload(models.Model):
    """An upload in flight: the plan that a runtime was given, so that its commit can be checked
    against it.
    """

    id = models.CharField(primary_key=True, max_length=40, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="uploads")
    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.CASCADE, null=True)
    archive = models.JSONField(null=True)  # {"part", "episodes"}
    # [{"episode_id", "offset", "size_bytes"}]; with none of them: the journal
    packed = models.JSONField(null=True)
    external = models.JSONField(null=True)  # {"lora"}: by a Tinker client, not by a runtime
    files = models.JSONField()  # [{"path", "size_bytes", "sha256", "key", "upload_id"}]
    # Under way, and counted by no other row: a checkpoint's are its own, those of other kinds are
    # nothing's until then.
    pending_bytes = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "console_upload"


class RuntimeSpan(models.Model):
    """The time in which one runtime held a session: from its registration, before which it may wait
    in the queue of a cluster, to its last heartbeat. Usage is the sum of these. ``session_id``,
    ``key_id`` and ``base_model`` are no foreign keys: what was used stays used, by whom and of what
    too.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    session_id = models.CharField(max_length=40)
    key_id = models.CharField(max_length=40, null=True)
    # Who started the session, by hand or by key. None: not a user any more.
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", null=True
    )
    base_model = models.CharField(max_length=400, blank=True, default="")
    lease_sha256 = models.CharField(max_length=64, unique=True)
    gpus = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    # it is part of a UsageSum, and does not change any more
    summed = models.BooleanField(default=False)
    summed_at = models.DateTimeField(null=True)  # which is after it was last seen

    class Meta:
        db_table = "console_runtimespan"
        # none has what a heartbeat writes: PostgreSQL would write all of them anew with each
        indexes = [
            models.Index(fields=["session_id"], name="span_session"),
            models.Index(fields=["key_id"], name="span_key"),
            models.Index(fields=["project", "summed_at"], name="span_recent"),
            models.Index(
                fields=["project", "id"], condition=models.Q(summed=False), name="span_unsummed"
            ),
        ]


class UsageSum(models.Model):
    """The seconds of all ``summed`` spans of one session, key, person and number of GPUs: usage is
    read from few rows. A person who is removed leaves rows without one, so several may be of the
    same payer.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    session_id = models.CharField(max_length=40)
    key_id = models.CharField(max_length=40, null=True)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", null=True
    )
    gpus = models.PositiveIntegerField(default=0)
    seconds = models.FloatField(default=0)

    class Meta:
        db_table = "console_usagesum"
        indexes = [
            models.Index(fields=["session_id"], name="usage_sum_session"),
            models.Index(fields=["key_id"], name="usage_sum_key"),
        ]
