"""Where the weights of a new session begin: at a base model, or at a checkpoint of its project.

A ``model`` checkpoint stands in the base model's place, with its tokenizer and template; the
optimizer begins anew. A ``state`` is loaded over the base of its own session, with the optimizer's
moments. Steps, versions and the schedule of the learning rate begin at 0 again. Sizes, limits and
what a key may use are those of the base model at the beginning.
"""

from dataclasses import dataclass

from pydantic import ValidationError

from console.errors import Conflict, InvalidRequest
from console.sessions.models import Checkpoint, Session
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import SessionKind, StartedFrom

# What the files of a state depend on. What a request leaves open is as the state has it; other
# values are refused.
FORM = (
    "lora_rank",
    "lora_alpha",
    "lora_targets",
    "router",
    "zero_stage",
    "dtype",
    "offload_optimizer",
)
OF_ADAPTERS = {"lora_alpha", "lora_targets"}  # which mean nothing where all weights are trained


@dataclass(frozen=True)
class StartingPoint:
    """``base_model`` is a name of the catalogue. ``model`` stands in its place, ``state`` is loaded
    over either."""

    base_model: str
    model: Checkpoint | None = None
    state: Checkpoint | None = None
    started_from: StartedFrom | None = None

    @property
    def held(self) -> list[str]:
        """The checkpoints that a start of the session needs."""
        return [each.id for each in (self.model, self.state) if each is not None]

    def config_complete(self, config: SessionConfig) -> SessionConfig:
        """``config``, its options of FORM that were left open as the state has them. Raises
        InvalidRequest."""
        if self.state is None:
            return config
        saved = SessionConfig.model_validate(self.state.session.config)
        given = [name for name in FORM if name in config.model_fields_set]
        for name in given if saved.lora_rank or config.lora_rank else set(given) - OF_ADAPTERS:
            if name != "dtype":
                self._form_check(name, getattr(saved, name), getattr(config, name))
        left_open = {name: getattr(saved, name) for name in FORM if name not in given}
        try:
            return SessionConfig.model_validate(config.model_dump(exclude_unset=True) | left_open)
        except ValidationError as clash:
            said = "; ".join(
                f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in clash.errors()
            )
            raise InvalidRequest(
                f"These options do not go with the state {self.state.id}: {said}."
            ) from None

    def dtype_check(self, config: SessionConfig, *, devices: int) -> None:
        """Raises InvalidRequest where the state's weights are of another type; auto depends on
        where a session runs."""
        if self.state is not None:
            session = self.state.session
            saved = _dtype(SessionConfig.model_validate(session.config), devices=session.devices)
            self._form_check("dtype", saved, _dtype(config, devices=devices))

    def _form_check(self, name: str, saved: object, given: object) -> None:
        if saved == given:
            return
        assert self.state is not None, "asked of states alone"
        problem = (
            f"The state {self.state.id} was saved with {_words(name, saved)}, not with "
            f"{_words(name, given)}."
        )
        raise InvalidRequest.of_field(
            f"config.{name}",
            problem,
            hint="Leave the option out, which keeps the state's, or begin from a checkpoint of "
            "kind model: it has the"
            " weights alone, and goes with any options.",
        )


def starting_point_of(checkpoint: Checkpoint, *, tinker_path: str | None = None) -> StartingPoint:
    """Where a session begins that starts from ``checkpoint``. Raises Conflict, InvalidRequest."""
    session = checkpoint.session
    committed_check(checkpoint)
    if session.kind == SessionKind.SERVING:
        raise InvalidRequest(f"{checkpoint.id} is of a session that trains nothing.")
    assert checkpoint.step is not None or session.kind == SessionKind.TINKER, (
        "every committed checkpoint has a step"
    )
    record = StartedFrom(
        checkpoint_id=checkpoint.id,
        session_id=session.id,
        kind=CheckpointKind(checkpoint.kind),
        step=checkpoint.step or 0,
        tinker_path=tinker_path,
    )
    # A Tinker client's state has the weights of its own trainer's form, and the moments of one
    # adapter: a runtime adds the weights to the base model, and the moments are left.
    if checkpoint.kind == CheckpointKind.MODEL or session.kind == SessionKind.TINKER:
        return StartingPoint(session.base_model, checkpoint, None, record)
    return StartingPoint(session.base_model, _model_under(checkpoint), checkpoint, record)


def committed_check(checkpoint: Checkpoint) -> None:
    """Raises Conflict for one that cannot be read, or not yet."""
    if checkpoint.state == CheckpointState.COMMITTED:
        return
    is_failed = checkpoint.state == CheckpointState.FAILED
    why = f": {checkpoint.failure}" if checkpoint.failure else "."
    raise Conflict(
        f"The checkpoint {checkpoint.id} is {checkpoint.state}{why}",
        hint="Choose another checkpoint." if is_failed else "Wait until it is committed.",
        details={"state": checkpoint.state},
    )


def start_check(session: Session) -> None:
    """Raises InvalidRequest where a checkpoint that each start of the session needs is gone or was
    taken back."""
    for checkpoint_id in filter(None, (session.served_checkpoint_id, session.start_state_id)):
        start_checkpoint(session, checkpoint_id)


def start_checkpoint(session: Session, checkpoint_id: str) -> Checkpoint:
    """One that the session needs at each start. Raises InvalidRequest where it is gone or was taken
    back."""
    does = "serves" if session.kind == SessionKind.SERVING else "began from"
    found = Checkpoint.objects.filter(id=checkpoint_id, session__project_id=session.project_id)
    checkpoint = found.select_related("session").first()
    if checkpoint is None:
        raise InvalidRequest(
            f"The checkpoint {checkpoint_id}, which this session {does}, was deleted."
        )
    # its files were not what was announced: verification.py
    if checkpoint.state != CheckpointState.COMMITTED:
        raise InvalidRequest(
            f"The checkpoint {checkpoint.id}, which this session {does}, is {checkpoint.state}: "
            f"{checkpoint.failure}"
        )
    return checkpoint


def _model_under(state: Checkpoint) -> Checkpoint | None:
    """What stood in the base model's place when ``state`` was trained. Raises InvalidRequest where
    that is gone."""
    session = state.session
    if not session.served_checkpoint_id:
        return None
    model = Checkpoint.objects.filter(
        id=session.served_checkpoint_id,
        session__project_id=session.project_id,
        state=CheckpointState.COMMITTED,
    )
    found = model.select_related("session").first()
    if found is None:
        raise InvalidRequest(
            f"{state.id} was trained from the model {session.served_checkpoint_id}, which is "
            "deleted: its tokenizer and"
            " the weights under an adapter were there.",
            hint=f"Begin from a checkpoint of kind model of session {session.id}.",
        )
    return found


def _dtype(config: SessionConfig, *, devices: int) -> str:
    """Of the trainer's weights (gpu_runtime/placement.py)."""
    return ("bfloat16" if devices else "float32") if config.dtype == "auto" else config.dtype


def _words(name: str, value: object) -> str:
    if name == "lora_rank":
        return (
            f"LoRA adapters (lora_rank={value})" if value else "all weights trained (lora_rank=0)"
        )
    return f"{name}={value}"
