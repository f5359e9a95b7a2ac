"""Which session of ours, with its runtime, serves a Tinker client's base model.

Clients of one project share the runtime of a base, each with models, samplers and an end of its
own; the runtime ends with the last of them. A client that trains all weights of a base has it to
itself: no other trains beside it, and others may sample.

Below are the messages that announce models and samplers to their runtime. The checkpoint that one
begins from may be deleted later: the message then has no files. A runtime keeps the first message
of a name; without one it records that the checkpoint could not be read.
"""

from collections.abc import Iterable

from django.db import transaction
from django.db.models import Case, IntegerField, QuerySet, When

from console.audit.services import audit_record
from console.catalogue.base_models import base_model_resolve
from console.errors import Conflict, InvalidRequest
from console.live.services import event_record
from console.sessions.dry_run import context_default_longest
from console.sessions.limits.devices import ranks_usual
from console.sessions.limits.usage import key_budget_check
from console.sessions.models import Checkpoint, Session
from console.sessions.services import session_create, session_stop
from console.sessions.states import ENDED, Desired
from console.tinker.checkpoints import checkpoint_files
from console.tinker.models import TinkerModel, TinkerRuntime, TinkerSampler, TinkerSession
from console.tinker.telemetry import telemetry_record
from console.users.keys import key_model_check
from console.users.models import ApiKey, Project, User
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import StoredFile
from tinkerscript.wire.sessions import SessionCreate, SessionKind, SessionState
from tinkerscript.wire.tinker.messages import (
    ClientsOver,
    ClientsServed,
    LoraOptions,
    ModelCreate,
    ModelSource,
    SamplerCreate,
)

# an engine that meets a larger adapter is loaded again, with room for it
LEAST_RANK = 32
GONE = "gone"  # in place of the id of a checkpoint whose row is no more


def context_length(base_model: str) -> int:
    """Prompt and answer of one request, in tokens. Raises UnknownBaseModel, InvalidRequest."""
    model = base_model_resolve(base_model)
    length = model.context_length or SessionConfig().max_context_length
    return min(length, context_default_longest(model, lora_rank=LEAST_RANK) or length)


def session_for_base_model(
    tinker_session: TinkerSession,
    key: ApiKey | None,
    base_model: str,
    *,
    person: User,
    rank: int,
    trains: bool,
) -> Session:
    """The session of ours for a base model: the client's, one that it joins, or a new one.

    ``person`` asks, with ``key`` or in the console. ``rank`` is that of the adapter, 0 for the base
    or all weights, which the client ``trains`` or only samples. Call it within a transaction.
    Raises InvalidRequest, Conflict, and what ``session_create`` raises.
    """
    if tinker_session.finished is not None:
        raise InvalidRequest("This session is finished.", hint="Make another ServiceClient.")
    # who leaves a runtime looks who else is there, and two first requests start one runtime
    Project.objects.select_for_update(no_key=True).get(id=tinker_session.project_id)
    own = [
        row.session
        for row in TinkerRuntime.objects.filter(
            tinker_session=tinker_session, base_model=base_model
        )
        .select_related("session")
        .order_by("-id")
    ]
    running = [session for session in own if session.state not in ENDED]
    if own and not running:
        raise Conflict(
            f"The runtime of {base_model} in this session has ended.",
            hint="Make another ServiceClient.",
        )
    found = _first_fit(running, tinker_session, rank=rank, trains=trains)
    if found is None:
        shared = sharable(project=tinker_session.project, key=key, base_model=base_model)
        others = shared.exclude(id__in=[session.id for session in own])
        found = _first_fit(others, tinker_session, rank=rank, trains=trains)
        if found is None:
            ranks = ranks_usual() if trains and not rank else 1  # an adapter is on one
            found = _start(tinker_session, key, person, base_model, rank, ranks)
        else:
            key_model_check(key=key, base_model=base_model)
            key_budget_check(key=key)
        _join(tinker_session, key, person, found, base_model)
    if rank > found.config["lora_rank"]:  # a later runtime begins with room for it
        found.config["lora_rank"] = rank
        found.save(update_fields=["config"])
    return found


def sharable(*, project: Project, key: ApiKey | None, base_model: str) -> QuerySet[Session]:
    """The project's sessions that serve Tinker clients on a base model and that ``key`` may use,
    None: a person; one that is ready first.

    A session counts against the cap of the key that started it, so that a key with a cap shares
    none.
    """
    live = TinkerRuntime.objects.filter(tinker_session__finished__isnull=True)
    sessions = Session.objects.filter(
        project=project,
        kind=SessionKind.TINKER,
        base_model=base_model,
        id__in=live.values("session_id"),
    )
    sessions = sessions.exclude(state__in=[*ENDED, SessionState.STOPPING])
    sessions = sessions.exclude(desired=Desired.STOP)
    if key is not None and key.spend_cap_s is not None:
        sessions = sessions.filter(key=key)
    else:
        sessions = sessions.exclude(key__spend_cap_s__isnull=False)
    return sessions.order_by(ready_first(), "-created_at", "-id")


def ready_first(of: str = "") -> Case:
    """An order in which sessions that are ready come first; ``of`` leads to the session."""
    ready = When(**{f"{of}state": SessionState.READY}, then=0)
    return Case(ready, default=1, output_field=IntegerField())


def clients_over(*, session: Session, body: ClientsServed) -> ClientsOver:
    """Which of the Tinker sessions that its runtime has something of are over, or are not its."""
    live = TinkerRuntime.objects.filter(
        session=session, tinker_session__in=body.clients, tinker_session__finished__isnull=True
    )
    kept = set(live.values_list("tinker_session_id", flat=True))
    return ClientsOver(over=[client for client in body.clients if client not in kept])


def runtimes_leave(*, tinker_session: TinkerSession, reason: str, detail: str) -> None:
    """Let a client that is finished leave its runtimes; those that serve no other end."""
    for runtime in tinker_session.runtimes.select_related("session__project"):
        session = runtime.session
        with transaction.atomic():
            Project.objects.select_for_update(no_key=True).get(id=session.project_id)
            others = TinkerRuntime.objects.filter(
                session=session, tinker_session__finished__isnull=True
            )
            data = {
                "name": "tinker_session_finished",
                "tinker_session_id": tinker_session.id,
                "reason": reason,
                "detail": detail,
                "clients_left": others.count(),
            }
            event_record(session_id=session.id, kind=EventKind.EVENT, data=data)
            if not data["clients_left"]:
                session_stop(project=session.project, session_id=session.id)


def _first_fit(
    sessions: Iterable[Session], tinker_session: TinkerSession, *, rank: int, trains: bool
) -> Session | None:
    """The first in which other clients train nothing that leaves no room for this."""
    for session in sessions:
        if not trains:
            return session
        others = TinkerModel.objects.filter(
            session=session, tinker_session__finished__isnull=True
        ).exclude(tinker_session=tinker_session)
        if not (others.filter(lora__rank=0) if rank else others).exists():
            return session
    return None


def _start(
    tinker_session: TinkerSession,
    key: ApiKey | None,
    person: User,
    base_model: str,
    rank: int,
    trainer_ranks: int,
) -> Session:
    length = context_length(base_model)
    config = SessionConfig(
        max_context_length=length,
        max_tokens=min(SessionConfig().max_tokens, length),
        lora_rank=max(rank, LEAST_RANK),
        trainer_ranks=trainer_ranks,
        kl_coef=0.0,  # a client's loss is its own
    )
    name = tinker_session.display_name[:100] or f"Tinker {tinker_session.id}"
    body = SessionCreate(base_model=base_model, name=name, config=config)
    session = session_create(
        project=tinker_session.project, body=body, key=key, person=person, kind=SessionKind.TINKER
    )
    _audit(tinker_session, key, person, session, "tinker_runtime_start")
    return session


def _join(
    tinker_session: TinkerSession,
    key: ApiKey | None,
    person: User,
    session: Session,
    base_model: str,
) -> None:
    is_first = not TinkerRuntime.objects.filter(session=session).exists()
    runtime = TinkerRuntime.objects.create(
        tinker_session=tinker_session, base_model=base_model, session=session
    )
    if not is_first:
        _audit(tinker_session, key, person, session, "tinker_runtime_join")
        data = {"name": "tinker_client_joined", "tinker_session_id": tinker_session.id}
        event_record(session_id=session.id, kind=EventKind.EVENT, data=data)
    early = TinkerSession.objects.values_list("early_telemetry", flat=True).get(
        id=tinker_session.id
    )
    if early:
        telemetry_record(runtime, early)
        TinkerSession.objects.filter(id=tinker_session.id).update(early_telemetry=[])


def _audit(
    tinker_session: TinkerSession, key: ApiKey | None, person: User, session: Session, action: str
) -> None:
    audit_record(
        project_id=tinker_session.project_id,
        actor=person.email,
        key_id=key.id if key else None,
        action=action,
        target={"id": session.id},
        details={"tinker_session_id": tinker_session.id, "base_model": session.base_model},
    )


def model_message(model: TinkerModel) -> ModelCreate:
    """The model's first operation."""
    source = None
    if model.source is not None:
        source = ModelSource(**model.source, files=_files(model.source["checkpoint_id"]))
    return ModelCreate(
        model_id=model.id,
        base_model=model.base_model,
        lora=LoraOptions.model_validate(model.lora),
        source=source,
        made_before=model.is_made,
        exact_seeds=model.tinker_session.has_exact_seeds,
    )


def sampler_message(sampler: TinkerSampler) -> SamplerCreate:
    """What a sampling session samples from."""
    message = SamplerCreate(
        sampling_session_id=sampler.id,
        base_model=sampler.base_model,
        exact_seeds=sampler.tinker_session.has_exact_seeds,
    )
    if not sampler.model_path:
        return message
    return message.model_copy(
        update={
            "model_path": sampler.model_path,
            # without one it would sample from the base model
            "checkpoint_id": sampler.checkpoint_id or GONE,
            "files": _files(sampler.checkpoint_id),
        }
    )


def _files(checkpoint_id: str | None) -> list[StoredFile]:
    found = Checkpoint.objects.filter(id=checkpoint_id).first()
    return checkpoint_files(found) if found else []
