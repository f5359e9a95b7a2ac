"""Reads about sessions: users' take their project, the relay's a session id that a signed key vouches for."""

from collections import Counter
from dataclasses import dataclass

from django.db.models import Count, Q

from console.errors import InvalidRequest, NotFound
from console.sessions.models import Session
from console.sessions.moves import WITH_RUNTIME
from console.users.models import Project
from tinkerscript.wire.sessions import Failure, SessionState


def session_get(*, project: Project, session_id: str) -> Session:
    """One session of the project. Raises NotFound, for another project's as for none."""
    session = Session.objects.filter(project=project, id=session_id).first()
    if session is None:
        raise NotFound("There is no such session in this project.")
    return session


def session_list(*, project: Project, cursor: str | None = None, limit: int = 50) -> tuple[list[Session], str | None]:
    """One page, newest first, and the cursor of the next page (None: this was the last).

    A cursor is the id of the last session seen. Raises InvalidRequest for any other.
    """
    sessions = Session.objects.filter(project=project).order_by("-created_at", "-id")
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


def queue_list() -> list[Session]:
    """The queued sessions in the order in which they start.

    A session whose runtime died comes first: it had its turn and lost it through no fault of its own. Then projects
    take turns, each in the order in which its sessions came.
    """
    taken = Counter(Session.objects.filter(state__in=WITH_RUNTIME).values_list("project_id", flat=True))
    waiting = []
    for session in Session.objects.filter(state=SessionState.QUEUED).order_by("state_since", "id"):
        waiting.append((session.restarts == 0, taken[session.project_id], session.state_since, session.id, session))
        taken[session.project_id] += 1
    return [entry[-1] for entry in sorted(waiting, key=lambda entry: entry[:-1])]


def queue_position(*, session: Session) -> int | None:
    """1 is next; None for a session that is not queued."""
    if session.state != SessionState.QUEUED:
        return None
    ids = [queued.id for queued in queue_list()]
    return ids.index(session.id) + 1 if session.id in ids else None


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
