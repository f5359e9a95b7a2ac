"""Models by the names that clients of OpenAI's and Anthropic's dialects give them, and the runtimes
that sample them.

A name is a base model, a ``tinker://`` path of a sampler or a training state, both as
``base;path``, or the id of a checkpoint: one that a Tinker client saved, or a ``model`` of a
session that trained on episodes. What is sampled goes to a runtime of that base model which serves
a Tinker client of the project already; where there is none, to one that is started for these
endpoints and ends VANISHED_S after the last request.
"""

import math
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from console.errors import Conflict, InvalidRequest, NotFound
from console.sessions.checkpoints.checkpoints import checkpoint_get
from console.sessions.models import Checkpoint, Session
from console.sessions.runtime.gateway_keys import episode_signing_keys
from console.sessions.states import ENDED
from console.tinker.checkpoints import checkpoint_find, checkpoints_of
from console.tinker.models import TinkerCheckpoint, TinkerRuntime, TinkerSampler, TinkerSession
from console.tinker.runtimes import ready_first, session_for_base_model, sharable
from console.tinker.services import Stored, sampler_add
from console.users.keys import key_model_check, person_get
from console.users.models import ApiKey, Project, User
from tinkerscript.wire import episode_key
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState
from tinkerscript.wire.dialects.table import ANTHROPIC, OPENAI
from tinkerscript.wire.serving import ServingEndpoint
from tinkerscript.wire.sessions import SessionKind, SessionState

# of samplers that no Tinker client made: clients count from 0, to less than this
FIRST_NUMBER = 10**9
BEAT_EVERY_S = 30.0
NAME = "OpenAI and Anthropic endpoints"


def sampler_of_model(
    *, project: Project, person: User, key: ApiKey | None, name: str
) -> TinkerSampler:
    """The sampler of a model by its name, on a runtime that serves it or is on its way up.

    ``person`` asks, with ``key`` or in the console.
    Raises InvalidRequest for what is no model to sample from, NotFound for another project's as for
    none, Forbidden, and what ``session_create`` raises.
    """
    stored, base_model = _named(project, name)
    key_model_check(key=key, base_model=base_model)
    rank = stored.rank if stored else 0
    tinker_session = _session_serving(project, key, base_model)
    if (
        tinker_session is not None
        and (known := _sampler(tinker_session, base_model, stored)) is not None
    ):
        return known
    with transaction.atomic():
        # two first requests start one runtime
        Project.objects.select_for_update(no_key=True).get(id=project.id)
        tinker_session = _session_serving(project, key, base_model) or _own_session(project, key)
        session = session_for_base_model(
            tinker_session, key, base_model, person=person, rank=rank, trains=False
        )
        if (known := _sampler(tinker_session, base_model, stored)) is not None:
            return known
        last = TinkerSampler.objects.filter(tinker_session=tinker_session).aggregate(Max("number"))[
            "number__max"
        ]
        number = max(FIRST_NUMBER, (last or 0) + 1)
        return sampler_add(tinker_session, session, number, base_model, stored)


def sampler_is_ready(*, project: Project, key: ApiKey, name: str) -> bool:
    """Whether a runtime is up that ``sampler_of_model`` would sample the model on; raises what that
    does for a name.
    """
    _, base_model = _named(project, name)
    runtimes = _runtimes(project, key, base_model)
    return runtimes.filter(session__state=SessionState.READY).exists()


def checkpoint_key_create(
    *, project: Project, session_id: str, checkpoint_id: str, caller_id: str, days: int
) -> ServingEndpoint:
    """A key for calls of what a Tinker client saved, which ends with ``caller_id``, and where to
    send them. No runtime can make one: it is signed with the checkpoint's id, no session's.

    Raises NotFound, Conflict for a checkpoint that is not served by its path.
    """
    checkpoint = checkpoint_get(project=project, session_id=session_id, checkpoint_id=checkpoint_id)
    stored = checkpoints_of(project=project).filter(checkpoint=checkpoint).first()
    if stored is None:
        raise Conflict(
            f"{checkpoint_id} is no committed checkpoint of a Tinker client.",
            hint="Wait until it is committed. What was trained on episodes is served by POST "
            "/v1/serving.",
        )
    expires_at = timezone.now() + timedelta(days=days)
    claim = episode_key.EpisodeClaim(
        checkpoint.id, episode_key.SERVING, math.ceil(expires_at.timestamp()), caller_id
    )
    return ServingEndpoint(
        session_id=session_id,
        base_url=f"{settings.PUBLIC_URL}{OPENAI.prefix}/v1",
        anthropic_base_url=f"{settings.PUBLIC_URL}{ANTHROPIC.prefix}",
        api_key=episode_key.sign(episode_signing_keys(session_id=checkpoint.id)[0], claim),
        model=stored.path,
        expires_at=datetime.fromtimestamp(claim.expires_at, expires_at.tzinfo),
    )


def checkpoint_key_sampler(*, caller_id: str, checkpoint_id: str, name: str) -> TinkerSampler:
    """The sampler for a call with a key of ``checkpoint_key_create``. Raises Unauthenticated,
    NotFound for every other model, and what ``sampler_of_model`` raises.
    """
    project, person = person_get(caller_id=caller_id)
    stored, _ = _named(project, checkpoint_id)
    if stored is None or name not in (stored.path, checkpoint_id):
        raise NotFound(
            f"There is no model {name} for this key.", hint="It is for one checkpoint alone."
        )
    return sampler_of_model(project=project, person=person, key=None, name=checkpoint_id)


def own_loop_check(*, key: ApiKey, name: str) -> None:
    """Raises InvalidRequest while a session that ``key`` started trains the base model ``name`` on
    episodes.

    For the address of episodes: an agent that was given this key instead of an episode's would be
    answered by the base model, and train nothing, without a word.
    """
    loops = Session.objects.filter(
        project=key.project, key=key, kind=SessionKind.EPISODES, base_model=name
    )
    loop = loops.exclude(state__in=[*ENDED, SessionState.STOPPING]).order_by("-id").first()
    if loop is not None:
        raise InvalidRequest(
            f"This is the API key that session {loop.id} trains {name} with, not the key of an "
            "episode: the call would"
            " belong to no episode and train nothing.",
            hint="Give the agent the api_key that begin_episode() returned. To sample the base "
            "model itself, use the"
            " base_url that ends in /oai/api/v1 (Anthropic's clients: /anthropic/api).",
        )


def sampler_paths_of(*, project: Project, limit: int) -> list[TinkerCheckpoint]:
    """The project's saved samplers, newest first: what these endpoints can be asked for beside base
    models.
    """
    return list(checkpoints_of(project=project).filter(segment="sampler_weights")[:limit])


def _named(project: Project, name: str) -> tuple[Stored | None, str]:
    """The checkpoint, if the name is of one, and its base model."""
    base_model, separator, path = name.rpartition(";")
    if path.startswith("tinker://"):
        stored = checkpoint_find(project=project, path=path)
        if separator and base_model != stored.model.base_model:
            raise InvalidRequest(
                f"model says {base_model!r}; {path} is of {stored.model.base_model!r}."
            )
    elif name.startswith("ckp_"):
        found = checkpoints_of(project=project).filter(checkpoint_id=name).first()
        if found is None:
            return _of_episodes(project, name)
        stored = found
    else:
        return None, name
    if stored.segment == "external_weights":
        raise InvalidRequest(
            f"{stored.path} is files for other programs, which this server does not sample from.",
            hint="Save it with save_weights_for_sampler, and name the path that this returns.",
        )
    return Stored(stored.checkpoint, stored.path, stored.lora["rank"]), stored.model.base_model


def _of_episodes(project: Project, checkpoint_id: str) -> tuple[Stored, str]:
    """A model that a session trained on episodes. Raises InvalidRequest, NotFound."""
    committed = Checkpoint.objects.filter(
        session__project=project,
        session__kind=SessionKind.EPISODES,
        state=CheckpointState.COMMITTED,
    )
    found = committed.filter(id=checkpoint_id).select_related("session").first()
    if found is None:
        raise NotFound(f"There is no model {checkpoint_id}.")
    if found.kind != CheckpointKind.MODEL:
        raise InvalidRequest(
            f"{checkpoint_id} is a state to resume from.",
            hint="Order a checkpoint of kind model, and name that.",
        )
    return Stored(found, found.id, rank=0), found.session.base_model


def _runtimes(project: Project, key: ApiKey | None, base_model: str) -> QuerySet[TinkerRuntime]:
    """Those that the model can be sampled on, and that ``key`` may use."""
    sessions = sharable(project=project, key=key, base_model=base_model)
    return TinkerRuntime.objects.filter(
        tinker_session__finished__isnull=True,
        session__in=sessions.order_by().values("id"),
    )


def _session_serving(project: Project, key: ApiKey | None, base_model: str) -> TinkerSession | None:
    """The Tinker session whose runtime can sample this at once, or the soonest."""
    runtimes = _runtimes(project, key, base_model).select_related("tinker_session")
    found = runtimes.order_by(ready_first("session__"), "-id").first()
    if found is None:
        return None
    if found.tinker_session.is_of_endpoints:
        _beat(found.tinker_session)
    return found.tinker_session


def _sampler(
    tinker_session: TinkerSession, base_model: str, stored: Stored | None
) -> TinkerSampler | None:
    """The sampler that an earlier request for this model made there; a path that was saved anew is
    another model.
    """
    made = TinkerSampler.objects.filter(
        tinker_session=tinker_session, number__gte=FIRST_NUMBER, base_model=base_model
    )
    if stored is None:
        return made.filter(model_path="").first()
    return made.filter(model_path=stored.path, checkpoint=stored.checkpoint).first()


def _own_session(project: Project, key: ApiKey | None) -> TinkerSession:
    """A session that no Tinker client has: its requests are its heartbeats."""
    return TinkerSession.objects.create(
        project=project, key=key, display_name=NAME, is_of_endpoints=True
    )


def _beat(tinker_session: TinkerSession) -> None:
    if tinker_session.heartbeat_at < timezone.now() - timedelta(seconds=BEAT_EVERY_S):
        TinkerSession.objects.filter(id=tinker_session.id).update(heartbeat_at=timezone.now())
