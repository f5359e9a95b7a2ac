"""Sessions that serve a base model or a ``model`` checkpoint and train nothing, with keys of their
own.
"""

import math
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Case, IntegerField, Q, When
from django.utils import timezone

from console.catalogue.base_models import base_model_resolve
from console.errors import Conflict, InvalidRequest, NotFound
from console.sessions.models import Checkpoint, Session
from console.sessions.runtime.gateway_keys import episode_signing_keys
from console.sessions.selectors import session_get
from console.sessions.services import session_create
from console.sessions.starting_points import StartingPoint, committed_check
from console.sessions.states import ENDED
from console.users.models import ApiKey, Project, User
from tinkerscript.wire import episode_key
from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.dialects.table import PREFIX_OF_ALL
from tinkerscript.wire.serving import ServingCreate, ServingEndpoint
from tinkerscript.wire.sessions import SessionCreate, SessionKind, SessionState

FELT_BY_CALLS = ("max_context_length", "max_tokens", "temperature")


def serving_create(
    *, project: Project, body: ServingCreate, key: ApiKey | None = None, person: User | None = None
) -> Session:
    """A queued session that will serve ``body.model``.

    Raises NotFound and InvalidRequest for what is no model to serve, and what ``session_create``
    raises.
    """
    checkpoint = model_checkpoint(project=project, name=body.model)
    start = StartingPoint(checkpoint.session.base_model if checkpoint else body.model, checkpoint)
    wanted = SessionCreate(
        base_model=start.base_model,
        name=body.name,
        config=_config(body, base_model_resolve(start.base_model).context_length),
        priority=body.priority,
        budget=body.budget,
    )
    return session_create(
        project=project, body=wanted, key=key, person=person, kind=SessionKind.SERVING, start=start
    )


def serving_key_create(
    *, project: Project, session_id: str, caller_id: str, days: int
) -> ServingEndpoint:
    """A key for calls of the session's model, which ends with ``caller_id``, and where to send
    them.

    Raises NotFound, Conflict for a session that trains or has ended.
    """
    session = session_get(project=project, session_id=session_id)
    if session.kind != SessionKind.SERVING:
        raise Conflict(
            "This session trains: its calls belong to episodes, each with a key of its own.",
            hint="Begin an episode (eval=true for one that is not trained), or serve one of its "
            "checkpoints.",
        )
    if SessionState(session.state).is_terminal:
        raise Conflict(
            f"The session is {session.state}.", hint="Serve the model anew: POST /v1/serving."
        )
    expires_at = timezone.now() + timedelta(days=days)
    claim = episode_key.EpisodeClaim(
        session.id, episode_key.SERVING, math.ceil(expires_at.timestamp()), caller_id
    )
    return ServingEndpoint(
        session_id=session.id,
        base_url=f"{settings.PUBLIC_URL}{PREFIX_OF_ALL}/v1",
        anthropic_base_url=f"{settings.PUBLIC_URL}{PREFIX_OF_ALL}",
        api_key=episode_key.sign(episode_signing_keys(session_id=session.id)[0], claim),
        model=session.served_checkpoint_id or session.base_model,
        expires_at=datetime.fromtimestamp(claim.expires_at, expires_at.tzinfo),
    )


def serving_of_model(*, project: Project, key: ApiKey, name: str) -> Session | None:
    """The session that goes by this name, or one that serves the model of this name and that
    ``key`` may use.

    One that is ready first, and of the key's own person. Others' sessions only while they are ready
    and have the options of every session by default: no call waits for a start that another person
    wants, or is cut by their limits.
    """
    sessions = Session.objects.filter(project=project, kind=SessionKind.SERVING)
    sessions = sessions.exclude(state__in=[*ENDED, SessionState.STOPPING])
    if key.spend_cap_s is not None:  # a session counts against the cap of the key that started it
        sessions = sessions.filter(key=key)
    if name.startswith("ses_"):
        return sessions.filter(id=name).first()
    served = name if name.startswith("ckp_") else ""
    by_model = {"served_checkpoint_id": served} | ({} if served else {"base_model": name})
    is_ready = Case(When(state=SessionState.READY, then=0), default=1, output_field=IntegerField())
    is_own = Case(When(person=key.user, then=0), default=1, output_field=IntegerField())
    usable = sessions.filter(Q(person=key.user) | Q(state=SessionState.READY), **by_model)
    found = usable.order_by(is_ready, is_own, "-created_at", "-id")
    return next(
        (each for each in found if each.person_id == key.user_id or _has_usual_options(each)), None
    )


def model_checkpoint(*, project: Project, name: str) -> Checkpoint | None:
    """The checkpoint that ``name`` is the id of; None for any other name. Raises NotFound,
    InvalidRequest, Conflict."""
    if not name.startswith("ckp_"):
        return None
    found = (
        Checkpoint.objects.filter(session__project=project, id=name)
        .select_related("session")
        .first()
    )
    if found is None:
        raise NotFound("There is no such checkpoint in this project.")
    if found.kind != CheckpointKind.MODEL:
        raise InvalidRequest(
            f"{name} is a state to resume from.",
            hint="Order a checkpoint of kind model, and serve that one.",
        )
    committed_check(found)
    if found.session.kind != SessionKind.EPISODES:
        raise InvalidRequest(
            f"A Tinker client saved {name}, which may be an adapter alone.",
            hint="Name its path as the model of a call to /oai/api/v1: a runtime is started for it "
            "there.",
        )
    return found


def _config(body: ServingCreate, longest: int | None) -> SessionConfig:
    """The options of a session that mean something here; ``longest`` is what the model reads, if
    known.
    """
    usual = SessionConfig()
    length = body.max_context_length or min(
        usual.max_context_length, longest or usual.max_context_length
    )
    return SessionConfig(
        max_context_length=length,
        max_tokens=body.max_tokens or min(usual.max_tokens, length),
        temperature=body.temperature,
        model_names=body.model_names,
        idle_suspend_s=body.idle_suspend_s,
    )


def _has_usual_options(session: Session) -> bool:
    usual = _config(
        ServingCreate(model=session.base_model),
        base_model_resolve(session.base_model).context_length,
    )
    return all(session.config[option] == getattr(usual, option) for option in FELT_BY_CALLS)
