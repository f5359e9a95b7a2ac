"""Reads about sessions: users' take their project, the relay's a session id that a signed key vouches for."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Count, Q

from console.errors import InvalidRequest, NotFound
from console.sessions.models import Session
from console.users.keys import key_session_check
from console.users.models import ApiKey, Project
from tinkerscript.wire.sessions import Failure, SessionState


def session_get(*, project: Project, session_id: str) -> Session:
    """One session of the project. Raises NotFound, for another project's as for none."""
    session = Session.objects.filter(project=project, id=session_id).first()
    if session is None:
        raise NotFound("There is no such session in this project.")
    return session


def session_key_check(*, project: Project, session_id: str, key: ApiKey) -> None:
    """Whether a key may change the session. Raises NotFound; Forbidden where the key's models or cap leave it out."""
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
) -> tuple[list[Session], str | None]:
    """One page, newest first, and the cursor of the next page (None: this was the last).

    Only those in one of ``states``, of ``base_model``, with ``name`` in their name or id (any case), where given. A
    cursor is the id of the last session seen. Raises InvalidRequest for any other.
    """
    sessions = Session.objects.filter(project=project).order_by("-created_at", "-id")
    if states:
        sessions = sessions.filter(state__in=states)
    if base_model:
        sessions = sessions.filter(base_model=base_model)
    if name:
        sessions = sessions.filter(Q(name__icontains=name) | Q(id__icontains=name))
    if cursor:
        last = Session.objects.filter(project=project, id=cursor).first()
        if last is None:
            raise InvalidRequest("This cursor belongs to no page of this list.", hint="Start again without a cursor.")
        sessions = sessions.filter(Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, id__lt=last.id))
    page = list(sessions[: limit + 1])
    return page[:limit], page[limit - 1].id if len(page) > limit else None


def session_counts() -> Counter[str]:
    """How many sessions are in each state, over all projects: for those who run the server."""
    rows = Session.objects.order_by().values_list("state").annotate(Count("id"))
    return Counter(dict(rows))


@dataclass(frozen=True)
class Route:
    """Where a session's gateway is. ``address`` is host:port, empty while there is none."""

    session_id: str
    state: SessionState
    address: str
    failure: Failure | None


def session_route(*, session_id: str) -> Route:
    """The route to a session named by a verified episode key. Raises NotFound."""
    row = Session.objects.filter(id=session_id).values("state", "address", "failure").first()
    if row is None:
        raise NotFound("There is no such session.")
    failure = Failure.model_validate(row["failure"]) if row["failure"] else None
    return Route(session_id=session_id, state=SessionState(row["state"]), address=row["address"], failure=failure)
