"""What Tinker clients do with sessions, models and samplers. Every read takes the caller's
project.
"""

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from console.audit.services import audit_record
from console.catalogue.base_models import base_model_resolve
from console.errors import Conflict, InvalidRequest, NotFound
from console.live.services import event_record
from console.sessions.dry_run import context_default_longest
from console.sessions.models import Session
from console.sessions.services import session_create, session_stop
from console.sessions.states import ENDED
from console.tinker.checkpoints import checkpoint_find
from console.tinker.models import (
    TinkerCheckpoint,
    TinkerModel,
    TinkerRuntime,
    TinkerSampler,
    TinkerSession,
)
from console.tinker.telemetry import telemetry_record
from console.users.keys import key_cap_check, key_model_check
from console.users.models import ApiKey, Project
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionCreate, SessionKind
from tinkerscript.wire.tinker.ids import ModelId, SamplerId
from tinkerscript.wire.tinker.messages import MAX_RANK, LoraOptions

# of what is sampled and trained; a base model's own length where that is less
MAX_CONTEXT_LENGTH = 8192
# a runtime's engine has room for adapters of one rank at most, which is set when it starts
LEAST_RANK = 32
VANISHED_S = 600.0  # without a heartbeat, which a client sends every 10 s


def tinker_session_create(
    *,
    project: Project,
    key: ApiKey,
    display_name: str,
    sdk_version: str,
    tags: list[str],
    user_metadata: dict[str, Any],
) -> TinkerSession:
    """A Tinker session; its runtimes are started as its base models are named."""
    return TinkerSession.objects.create(
        project=project,
        key=key,
        display_name=display_name,
        sdk_version=sdk_version,
        tags=tags,
        user_metadata=user_metadata,
    )


def tinker_session_get(*, project: Project, tinker_session_id: str) -> TinkerSession:
    """Raises NotFound, for another project's as for none."""
    found = TinkerSession.objects.filter(project=project, id=tinker_session_id).first()
    if found is None:
        raise NotFound("There is no such session.")
    return found


def tinker_session_of_key(*, key: ApiKey, tinker_session_id: str) -> TinkerSession:
    """A session that ``key`` may change. Raises NotFound; Forbidden where the key's models or cap
    leave it out.
    """
    found = tinker_session_get(project=key.project, tinker_session_id=tinker_session_id)
    key_cap_check(key=key, started_by=found.key_id)
    if key.allowed_models is not None:
        for base_model in found.runtimes.values_list("base_model", flat=True):
            key_model_check(key=key, base_model=base_model)
    return found


def tinker_session_beat(*, tinker_session: TinkerSession) -> bool:
    """Its client lives. False when the session is over."""
    if tinker_session.finished is not None:
        return False
    TinkerSession.objects.filter(id=tinker_session.id).update(heartbeat_at=timezone.now())
    return True


def tinker_session_finish(*, tinker_session: TinkerSession, reason: str, detail: str) -> None:
    """End it and its runtimes; the first reason stands, and checkpoints stay."""
    ended = TinkerSession.objects.filter(id=tinker_session.id, finished__isnull=True).update(
        finished={"type": reason, "detail": detail[:2000], "at": timezone.now().isoformat()}
    )
    if not ended:
        return
    for runtime in tinker_session.runtimes.select_related("session__project"):
        data = {"name": "tinker_session_finished", "reason": reason, "detail": detail[:2000]}
        event_record(session_id=runtime.session_id, kind=EventKind.EVENT, data=data)
        session_stop(project=runtime.session.project, session_id=runtime.session_id)


def tinker_sessions_vanished_finish() -> None:
    """End the sessions whose clients have sent no heartbeat for VANISHED_S."""
    before = timezone.now() - timedelta(seconds=VANISHED_S)
    for tinker_session in TinkerSession.objects.filter(
        finished__isnull=True, heartbeat_at__lt=before
    ):
        detail = f"no heartbeat for {VANISHED_S:g} s"
        tinker_session_finish(tinker_session=tinker_session, reason="vanished", detail=detail)


def context_length(base_model: str) -> int:
    """Prompt and answer of one request, in tokens. Raises UnknownBaseModel, InvalidRequest."""
    model = base_model_resolve(base_model)
    length = min(model.context_length or SessionConfig().max_context_length, MAX_CONTEXT_LENGTH)
    return min(length, context_default_longest(model) or length)


def model_create(
    *,
    tinker_session: TinkerSession,
    key: ApiKey,
    number: int,
    base_model: str,
    lora: LoraOptions,
    user_metadata: dict[str, Any] | None,
    source: dict[str, Any] | None = None,
) -> TinkerModel:
    """A model of a Tinker session, the same for the same number.

    Raises InvalidRequest for another model under the number, and what ``session_create`` raises.
    """
    if lora.rank > MAX_RANK:
        raise InvalidRequest(
            f"lora_config.rank is {lora.rank}; at most {MAX_RANK} is trained here."
        )
    with transaction.atomic():
        TinkerSession.objects.select_for_update(no_key=True).get(id=tinker_session.id)
        known = TinkerModel.objects.filter(tinker_session=tinker_session, number=number).first()
        if known is not None:
            if (known.base_model, known.lora, known.source) != (
                base_model,
                lora.model_dump(),
                source,
            ):
                raise InvalidRequest(f"Number {number} of this session was used for another model.")
            return known
        session = session_for_base_model(tinker_session, key, base_model, rank=lora.rank)
        most = session.config["lora_rank"]
        if lora.rank > most:
            raise InvalidRequest(
                f"lora_config.rank is {lora.rank}, and the runtime of this session was started for "
                f"ranks up to {most}.",
                hint="Make the model with the largest rank first, or use another ServiceClient for "
                "it.",
            )
        return TinkerModel.objects.create(
            id=str(ModelId(tinker_session.id, number)),
            tinker_session=tinker_session,
            session=session,
            number=number,
            base_model=base_model,
            lora=lora.model_dump(),
            source=source,
            user_metadata=user_metadata,
        )


def model_get(*, project: Project, model_id: str) -> TinkerModel:
    """Raises NotFound, for another project's as for none."""
    found = (
        TinkerModel.objects.filter(tinker_session__project=project, id=model_id)
        .select_related("session")
        .first()
    )
    if found is None:
        raise NotFound("There is no such training run.")
    return found


def models_of(*, project: Project) -> QuerySet[TinkerModel]:
    """The project's training runs, newest first."""
    rows = TinkerModel.objects.filter(tinker_session__project=project).select_related(
        "tinker_session__key__user"
    )
    return rows.order_by("-created_at", "-id")


def tinker_sessions_of(*, project: Project) -> QuerySet[TinkerSession]:
    """The project's Tinker sessions, newest first."""
    return TinkerSession.objects.filter(project=project).order_by("-created_at", "-id")


def sampler_get(*, project: Project, sampler_id: str) -> TinkerSampler:
    """Raises NotFound, for another project's as for none."""
    found = TinkerSampler.objects.filter(tinker_session__project=project, id=sampler_id).first()
    if found is None:
        raise NotFound("There is no such sampling session.")
    return found


def sampling_client_join(*, key: ApiKey, sampler_id: str) -> int:
    """A number for a copy of a sampling client, from 1 on, that no other copy has. Raises NotFound,
    Forbidden.
    """
    named = SamplerId.parse(sampler_id)
    if named is None:
        raise NotFound("There is no such sampling session.")
    of = TinkerRuntime.objects.filter(
        tinker_session__project=key.project,
        tinker_session_id=named.tinker_session,
        session_id=named.session_id,
    )
    with transaction.atomic():
        runtime = of.first()
        if runtime is None:
            raise NotFound("There is no such sampling session.")
        tinker_session_of_key(key=key, tinker_session_id=runtime.tinker_session_id)
        row = TinkerSession.objects.select_for_update(no_key=True).get(id=runtime.tinker_session_id)
        row.clients_joined += 1
        row.save(update_fields=["clients_joined"])
    return row.clients_joined


def sampler_create(
    *,
    tinker_session: TinkerSession,
    key: ApiKey,
    number: int,
    base_model: str | None,
    model_path: str | None,
) -> TinkerSampler:
    """A sampling session of a base model, or of a saved sampler or training state, the same for the
    same number.

    Raises InvalidRequest, NotFound, and what ``session_create`` raises.
    """
    stored: TinkerCheckpoint | None = None
    if model_path is not None:
        stored = checkpoint_find(project=tinker_session.project, path=model_path)
        if stored.segment == "external_weights":
            raise InvalidRequest(
                f"{model_path} is files for other programs, which this server does not sample "
                "from.",
                hint="Save it with save_weights_for_sampler, and use the path that this returns.",
            )
        base_model = stored.model.base_model
    if not base_model:
        raise InvalidRequest("Give base_model or model_path.")
    with transaction.atomic():
        TinkerSession.objects.select_for_update(no_key=True).get(id=tinker_session.id)
        known = TinkerSampler.objects.filter(tinker_session=tinker_session, number=number).first()
        if known is not None:
            if (known.base_model, known.model_path) != (base_model, model_path or ""):
                raise InvalidRequest(
                    f"Number {number} of this session was used for another sampling session."
                )
            return known
        session = session_for_base_model(
            tinker_session, key, base_model, rank=stored.lora["rank"] if stored else 0
        )
        return TinkerSampler.objects.create(
            id=str(SamplerId(tinker_session.id, number, session.id)),
            tinker_session=tinker_session,
            session=session,
            number=number,
            base_model=base_model,
            model_path=model_path or "",
            checkpoint=stored.checkpoint if stored else None,
        )


def session_for_base_model(
    tinker_session: TinkerSession, key: ApiKey, base_model: str, *, rank: int
) -> Session:
    """The session of ours for a base model, made if there is none. Call it with the Tinker
    session's row held.
    """
    if tinker_session.finished is not None:
        raise InvalidRequest("This session is finished.", hint="Make another ServiceClient.")
    known = TinkerRuntime.objects.filter(
        tinker_session=tinker_session, base_model=base_model
    ).first()
    if known is not None:
        if known.session.state in ENDED:
            raise Conflict(
                f"The runtime of {base_model} in this session has ended.",
                hint="Make another ServiceClient.",
            )
        return known.session
    length = context_length(base_model)
    config = SessionConfig(
        max_context_length=length,
        max_tokens=min(SessionConfig().max_tokens, length),
        lora_rank=max(rank, LEAST_RANK),
    )
    name = tinker_session.display_name[:100] or f"Tinker {tinker_session.id}"
    body = SessionCreate(base_model=base_model, name=name, config=config)
    session = session_create(
        project=tinker_session.project, body=body, key=key, person=key.user, kind=SessionKind.TINKER
    )
    audit_record(
        project_id=tinker_session.project_id,
        actor=key.user.email,
        key_id=key.id,
        action="tinker_runtime_start",
        target={"id": session.id},
        details={"tinker_session_id": tinker_session.id, "base_model": base_model},
    )
    runtime = TinkerRuntime.objects.create(
        tinker_session=tinker_session, base_model=base_model, session=session
    )
    early = TinkerSession.objects.values_list("early_telemetry", flat=True).get(
        id=tinker_session.id
    )
    if early:
        telemetry_record(runtime, early)
        TinkerSession.objects.filter(id=tinker_session.id).update(early_telemetry=[])
    return session
