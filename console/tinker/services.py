"""What Tinker clients do with sessions, models and samplers. Every read takes the caller's
project.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from console.errors import InvalidRequest, NotFound
from console.sessions.models import Checkpoint, Session
from console.tinker.checkpoints import checkpoint_find
from console.tinker.models import (
    EXACT,
    MIXED,
    SEEDS,
    TinkerModel,
    TinkerRuntime,
    TinkerSampler,
    TinkerSession,
)
from console.tinker.runtimes import runtimes_leave, session_for_base_model
from console.users.keys import key_cap_check, key_model_check
from console.users.models import ApiKey, Project
from tinkerscript.wire.tinker.ids import ModelId, SamplerId
from tinkerscript.wire.tinker.messages import MAX_RANK, LoraOptions

VANISHED_S = 600.0  # without a heartbeat, which a client sends every 10 s


@dataclass(frozen=True)
class Stored:
    """A checkpoint, by the name that leads to it; ``rank`` of its adapter, 0 for all weights."""

    checkpoint: Checkpoint
    path: str
    rank: int


def tinker_session_create(
    *,
    project: Project,
    key: ApiKey,
    display_name: str,
    sdk_version: str,
    tags: list[str],
    user_metadata: dict[str, Any],
) -> TinkerSession:
    """A Tinker session; its runtimes are started as its base models are named. Raises
    InvalidRequest for seeds that are taken in no such way.
    """
    if (seeds := user_metadata.get(SEEDS, MIXED)) not in (EXACT, MIXED):
        raise InvalidRequest(
            f"user_metadata: {SEEDS} is {seeds!r}; it is {EXACT!r} or {MIXED!r}.",
            hint=f"{EXACT!r} takes each seed as it is, so that equal requests get equal answers.",
        )
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
    """End it, and the runtimes that no other client shares; the first reason stands, and
    checkpoints stay.
    """
    ended = TinkerSession.objects.filter(id=tinker_session.id, finished__isnull=True).update(
        finished={"type": reason, "detail": detail[:2000], "at": timezone.now().isoformat()}
    )
    if not ended:
        return
    runtimes_leave(tinker_session=tinker_session, reason=reason, detail=detail[:2000])


def tinker_sessions_vanished_finish() -> None:
    """End the sessions whose clients have sent no heartbeat for VANISHED_S."""
    before = timezone.now() - timedelta(seconds=VANISHED_S)
    for tinker_session in TinkerSession.objects.filter(
        finished__isnull=True, heartbeat_at__lt=before
    ):
        detail = f"no heartbeat for {VANISHED_S:g} s"
        tinker_session_finish(tinker_session=tinker_session, reason="vanished", detail=detail)


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
        session = session_for_base_model(
            tinker_session, key, base_model, person=key.user, rank=lora.rank, trains=True
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
    stored: Stored | None = None
    if model_path is not None:
        found = checkpoint_find(project=tinker_session.project, path=model_path)
        if found.segment == "external_weights":
            raise InvalidRequest(
                f"{model_path} is files for other programs, which this server does not sample "
                "from.",
                hint="Save it with save_weights_for_sampler, and use the path that this returns.",
            )
        base_model = found.model.base_model
        stored = Stored(found.checkpoint, model_path, found.lora["rank"])
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
        rank = stored.rank if stored else 0
        session = session_for_base_model(
            tinker_session, key, base_model, person=key.user, rank=rank, trains=False
        )
        return sampler_add(tinker_session, session, number, base_model, stored)


def sampler_add(
    tinker_session: TinkerSession,
    session: Session,
    number: int,
    base_model: str,
    stored: Stored | None,
) -> TinkerSampler:
    """A sampling session of a base model, or of what is ``stored`` of it, on a session of ours."""
    return TinkerSampler.objects.create(
        id=str(SamplerId(tinker_session.id, number, session.id)),
        tinker_session=tinker_session,
        session=session,
        number=number,
        base_model=base_model,
        model_path=stored.path if stored else "",
        checkpoint=stored.checkpoint if stored else None,
    )
