"""Reads about sessions: users' take their project, the relay's a session id that a signed key
vouches for.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import TypeVar

from django.db.models import Count, Model, Q, QuerySet, Value
from django.db.models.expressions import BaseExpression
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from console.errors import Conflict, InvalidRequest, NotFound
from console.live.selectors import last_measure
from console.sessions.listing import session_page
from console.sessions.models import Session
from console.sessions.states import ENDED
from console.users.keys import key_session_check
from console.users.models import ApiKey, Project
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.reading.facets import MetricBound
from tinkerscript.wire.sessions import Failure, SessionKind, SessionSort, SessionState

Row = TypeVar("Row", bound=Model)


def session_get(*, project: Project, session_id: str) -> Session:
    """One session of the project. Raises NotFound, for another project's as for none."""
    session = next(iter(Session.objects.filter(project=project, id=session_id)), None)
    if session is None:
        raise NotFound("There is no such session in this project.")
    return session


def held_check(*, checkpoint_ids: Collection[str]) -> None:
    """Raises Conflict while a session serves one of these checkpoints or began from it, and may
    start again: it would not find the files."""
    uses = Q(served_checkpoint_id__in=checkpoint_ids) | Q(start_state_id__in=checkpoint_ids)
    session = Session.objects.filter(uses).exclude(state__in=ENDED).first()
    if session is not None:
        is_state = session.start_state_id in checkpoint_ids
        used = session.start_state_id if is_state else session.served_checkpoint_id
        does = "serves" if session.kind == SessionKind.SERVING else "began from"
        raise Conflict(
            f"Session {session.id} {does} the checkpoint {used}, and needs it whenever its runtime "
            "starts.",
            hint="Stop that one first.",
            details={"session_id": session.id},
        )


def session_key_check(*, project: Project, session_id: str, key: ApiKey) -> None:
    """Whether a key may change the session. Raises NotFound; Forbidden where the key's models or
    cap leave it out.
    """
    if key.allowed_models is None and key.spend_cap_s is None:
        return
    session = session_get(project=project, session_id=session_id)
    key_session_check(key=key, base_model=session.base_model, started_by=session.key_id)


def session_list(
    *,
    project: Project,
    cursor: str | None = None,
    limit: int = 50,
    states: Collection[SessionState] = (),
    base_model: str | None = None,
    name: str | None = None,
    tags: Collection[str] = (),
    options: Collection[str] = (),
    pinned: bool | None = None,
    kinds: Collection[SessionKind] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    sort: SessionSort = SessionSort.NEWEST,
    reverse: bool = False,
    sort_by: str | None = None,
    bounds: Collection[MetricBound] = (),
) -> tuple[list[Session], str | None]:
    """One page, newest first if not sorted otherwise, and the cursor of the next page (None: this
    was the last).

    Only those in one of ``states``, of one of ``kinds``, of ``base_model``, with ``name`` in their
    name or id (any case), with all ``tags`` and ``options`` ("grpo_n=8"), that are or are not
    ``pinned``, created from ``since`` on and before ``until``, whose last step is within all
    ``bounds``, where given. ``sort_by`` names the measure of ``SessionSort.MEASURE``. Raises
    InvalidRequest for what is no cursor of this order, no option and no measure.
    """
    exact = {
        "state__in": states,
        "kind__in": kinds,
        "base_model": base_model,
        "pinned": pinned,
        "created_at__gte": since,
        "created_at__lt": until,
    }
    given = {name: value for name, value in exact.items() if value or value is False}
    sessions = Session.objects.filter(project=project, **given)
    if name:
        sessions = sessions.filter(Q(name__icontains=name) | Q(id__icontains=name))
    for tag in tags:
        # Not LIKE: SQLite has no regard for case there.
        sessions = sessions.filter(GreaterThan(StrIndex("tags", Value(tags_text([tag]))), 0))
    for option in options:
        sessions = sessions.filter(_option(option))
    sessions = within_bounds(sessions, bounds, last_measure)
    return session_page(
        sessions, project=project, sort=sort, reverse=reverse, sort_by=sort_by, cursor=cursor,
        limit=limit,
    )  # fmt: skip


def _option(text: str) -> Q:
    """The condition that a text such as "grpo_n=8" puts on a session's options."""
    name, sign, value = (part.strip() for part in text.partition("="))
    if not sign or name not in SessionConfig.model_fields:
        raise InvalidRequest(
            f"{text[:80]!r} names no option of a session.",
            hint="Write the option and its value: grpo_n=8.",
        )
    try:
        wanted = json.loads(value)
    except ValueError:
        wanted = value
    # databases keep no such text as JSON
    is_odd = isinstance(wanted, str) and not wanted.isprintable()
    if (
        isinstance(wanted, list | dict)
        or (isinstance(wanted, float) and not isfinite(wanted))
        or is_odd
    ):
        raise InvalidRequest(
            f"{name} is compared with one value: a number, a word, true, false or null."
        )
    has_it = Q(**{f"config__{name}": wanted})
    default = SessionConfig().model_dump(mode="json")[name]
    is_default = default == wanted and isinstance(default, bool) == isinstance(wanted, bool)
    # A session whose row has no such key runs with the default.
    return has_it | ~Q(config__has_key=name) if is_default else has_it


def within_bounds(
    rows: QuerySet[Row], bounds: Collection[MetricBound], measure: Callable[[str], BaseExpression]
) -> QuerySet[Row]:
    """Those of ``rows`` whose measures, by ``measure`` of a name, are within all bounds."""
    for at, bound in enumerate(bounds):
        name, side = f"measured_{at}", "gte" if bound.is_least else "lte"
        rows = rows.alias(**{name: measure(bound.name)}).filter(**{f"{name}__{side}": bound.value})
    return rows


def tags_text(tags: Iterable[str]) -> str:
    """What ``Session.tags`` has of these: each once, between bars."""
    return "".join(f"|{tag}|" for tag in dict.fromkeys(tags))


def tags_of(session: Session) -> list[str]:
    """The tags of a session, as they were given."""
    return [tag for tag in session.tags.split("|") if tag]


def session_counts(place: str | None = None) -> Counter[str]:
    """How many sessions are in each state, over all projects and places, or at one: for those who
    run the server.
    """
    counted = Session.objects.all() if place is None else Session.objects.filter(place=place)
    return Counter(dict(counted.order_by().values_list("state").annotate(Count("id"))))


@dataclass(frozen=True)
class Route:
    """Where a session's gateway is. ``address`` is host:port, empty while there is none.

    ``lease_sha256`` is that of the runtime there, which its relay key is made of.
    """

    session_id: str
    state: SessionState
    address: str
    failure: Failure | None
    lease_sha256: str


def route_of(session: Session) -> Route:
    """The route to a session that was read just now."""
    failure = Failure.model_validate(session.failure) if session.failure else None
    return Route(
        session.id, SessionState(session.state), session.address, failure, session.lease_sha256
    )
