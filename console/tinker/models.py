"""What Tinker clients made: their sessions, models, samplers and named checkpoints."""

from django.db import models

from console.sessions.models import Checkpoint, Session
from console.users.models import ApiKey, Project, new_id

# In ``user_metadata`` of a ServiceClient: the wire's requests have no other place for it.
SEEDS, EXACT, MIXED = "sampling_seeds", "exact", "mixed"


def new_tinker_session_id() -> str:
    return new_id("tnk")


class TinkerSession(models.Model):
    """One ServiceClient. Each base model that it uses is served by a session of ours, with a
    runtime."""

    id = models.CharField(
        primary_key=True, max_length=40, default=new_tinker_session_id, editable=False
    )
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tinker_sessions")
    key = models.ForeignKey(ApiKey, on_delete=models.SET_NULL, null=True, related_name="+")
    display_name = models.CharField(max_length=200, blank=True)
    sdk_version = models.CharField(max_length=40, blank=True)
    tags = models.JSONField(default=list)
    user_metadata = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    heartbeat_at = models.DateTimeField(auto_now_add=True)
    # made for requests in other dialects: no Tinker client has it
    is_of_endpoints = models.BooleanField(default=False)
    # copies of its sampling clients, in other processes
    clients_joined = models.PositiveIntegerField(default=0)
    # {"type", "detail"}: how its client ended it, or that it vanished
    finished = models.JSONField(null=True)
    # what its client said before there was a record to put it on
    early_telemetry = models.JSONField(default=list)

    class Meta:
        db_table = "console_tinkersession"
        indexes = [models.Index(fields=["project", "-created_at"], name="tinker_session_list")]

    @property
    def has_exact_seeds(self) -> bool:
        """Whether its client asked for seeds as they are."""
        return self.user_metadata.get(SEEDS) == EXACT


class TinkerRuntime(models.Model):
    """A session of ours that serves a base model to a Tinker session; several of them share one."""

    tinker_session = models.ForeignKey(
        TinkerSession, on_delete=models.CASCADE, related_name="runtimes"
    )
    base_model = models.CharField(max_length=400)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="tinker_clients")

    class Meta:
        db_table = "console_tinkerruntime"
        constraints = [
            models.UniqueConstraint(
                fields=["tinker_session", "session"], name="tinker_runtime_once"
            )
        ]


class TinkerModel(models.Model):
    """A model that a client trains: a training run. Its id is ``{Tinker
    session}:train:{number}``.
    """

    id = models.CharField(primary_key=True, max_length=80, editable=False)
    tinker_session = models.ForeignKey(
        TinkerSession, on_delete=models.CASCADE, related_name="models"
    )
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="tinker_models")
    number = models.PositiveIntegerField()
    base_model = models.CharField(max_length=400)
    lora = models.JSONField()  # tinkerscript.wire.tinker.LoraOptions
    # {"path", "checkpoint_id", "optimizer"} where it began from a saved state
    source = models.JSONField(null=True)
    user_metadata = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_request_at = models.DateTimeField(auto_now_add=True)
    is_made = models.BooleanField(default=False)  # a runtime has written it in its journal
    # Of what its runtimes reported, also what is kept no more.
    steps = models.PositiveBigIntegerField(default=0)
    calls_in_all = models.PositiveBigIntegerField(default=0)
    learning_rate = models.FloatField(null=True)  # of the last optimizer step

    class Meta:
        db_table = "console_tinkermodel"
        constraints = [
            models.UniqueConstraint(fields=["tinker_session", "number"], name="tinker_model_once")
        ]


class TinkerSampler(models.Model):
    """A sampling session that a client made of a base model or a path. Those of unnamed saves the
    runtime has.
    """

    id = models.CharField(primary_key=True, max_length=120, editable=False)
    tinker_session = models.ForeignKey(
        TinkerSession, on_delete=models.CASCADE, related_name="samplers"
    )
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="tinker_samplers")
    number = models.PositiveIntegerField()
    base_model = models.CharField(max_length=400)
    model_path = models.CharField(max_length=400, blank=True)
    checkpoint = models.ForeignKey(
        Checkpoint, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "console_tinkersampler"
        constraints = [
            models.UniqueConstraint(fields=["tinker_session", "number"], name="tinker_sampler_once")
        ]


class TinkerCheckpoint(models.Model):
    """A checkpoint under the name that its client gave it: ``tinker://{model}/{segment}/{name}``.

    Of several with one name the newest committed one counts; what it replaced is removed soon
    after.
    """

    model = models.ForeignKey(TinkerModel, on_delete=models.CASCADE, related_name="checkpoints")
    checkpoint = models.OneToOneField(Checkpoint, on_delete=models.CASCADE, related_name="tinker")
    segment = models.CharField(max_length=16)
    name = models.CharField(max_length=128)
    seq_id = models.PositiveIntegerField()
    lora = models.JSONField()
    user_metadata = models.JSONField(default=dict)
    public = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "console_tinkercheckpoint"
        indexes = [models.Index(fields=["model", "segment", "name"], name="tinker_checkpoint_name")]

    @property
    def path(self) -> str:
        """Its address for clients."""
        return f"tinker://{self.model_id}/{self.segment}/{self.name}"


class TinkerWork(models.Model):
    """A runtime's report of what it did for Tinker clients: {"kind", "of", "began_at", "seconds",
    "count", "tokens"} each. The newest of a session are kept; their tokens are in TinkerTokens for
    good.
    """

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="tinker_work")
    key = models.CharField(max_length=80)
    spans = models.JSONField()

    class Meta:
        db_table = "console_tinkerwork"
        constraints = [models.UniqueConstraint(fields=["session", "key"], name="tinker_work_once")]


class TinkerCall(models.Model):
    """What a call of a model returned in numbers; the newest of each model are kept."""

    model = models.ForeignKey(TinkerModel, on_delete=models.CASCADE, related_name="calls")
    seq_id = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=20)  # tinkerscript.wire.tinker.messages.CallKind
    at = models.DateTimeField()
    tokens = models.PositiveBigIntegerField()
    measures = models.JSONField()

    class Meta:
        db_table = "console_tinkercall"
        constraints = [models.UniqueConstraint(fields=["model", "seq_id"], name="tinker_call_once")]


class TinkerTokens(models.Model):
    """The tokens of one hour that a session computed for a client, by the wire's names of usage."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="tinker_tokens")
    # null of none that is there: PostgreSQL alters no table that a migration has just filled
    tinker_session = models.ForeignKey(
        TinkerSession, on_delete=models.CASCADE, null=True, related_name="+"
    )
    hour = models.DateTimeField()
    training = models.PositiveBigIntegerField(default=0)
    sampling_prefill = models.PositiveBigIntegerField(default=0)
    sampling_prefill_cached = models.PositiveBigIntegerField(default=0)
    sampling_sample = models.PositiveBigIntegerField(default=0)

    class Meta:
        db_table = "console_tinkertokens"
        constraints = [
            models.UniqueConstraint(
                fields=["session", "tinker_session", "hour"], name="tinker_tokens_hour"
            )
        ]
