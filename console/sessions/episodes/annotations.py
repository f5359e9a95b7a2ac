"""What people say of episodes: a thumb and a comment of each person."""

from collections import defaultdict
from collections.abc import Collection

from django.db import transaction

from console.live.services import event_record
from console.sessions.episodes.selectors import episode_get
from console.sessions.models import EpisodeAnnotation, Session
from console.users.models import Project, User
from tinkerscript.wire.episodes import EpisodeAnnotate
from tinkerscript.wire.events import EventKind

MAX_EXPORTED = 10_000


def episode_annotate(
    *, project: Project, session_id: str, episode_id: str, body: EpisodeAnnotate, person: User
) -> list[EpisodeAnnotation]:
    """Everybody's annotations of an episode, once this person's are these. Raises NotFound.

    The session's record says that there was one; the words, which can be taken back, stand here alone.
    """
    session = episode_get(project=project, session_id=session_id, episode_id=episode_id).session
    own = EpisodeAnnotation.objects.filter(session=session, episode_id=episode_id, person=person)
    with transaction.atomic():
        if body.thumb is None and not body.comment.strip():
            own.delete()
        else:
            said = {"thumb": body.thumb or "", "comment": body.comment.strip()}
            EpisodeAnnotation.objects.update_or_create(
                session=session, episode_id=episode_id, person=person, defaults=said
            )
        data = {"name": "episode_annotated", "episode_id": episode_id, "thumb": body.thumb}
        event_record(session_id=session.id, kind=EventKind.EVENT, data=data)
    return annotations_of(session=session, episode_ids=[episode_id])[episode_id]


def annotations_of(*, session: Session, episode_ids: Collection[str]) -> dict[str, list[EpisodeAnnotation]]:
    """Those of each of these episodes, oldest first. The caller has checked that the session is the reader's."""
    found: dict[str, list[EpisodeAnnotation]] = defaultdict(list)
    rows = EpisodeAnnotation.objects.filter(session=session, episode_id__in=episode_ids)
    for row in rows.select_related("person").order_by("at", "id"):
        found[row.episode_id].append(row)
    return found


def annotations_export(*, session: Session) -> list[EpisodeAnnotation]:
    """Those of every episode of a session, oldest first; the first ten thousand."""
    rows = EpisodeAnnotation.objects.filter(session=session).select_related("person")
    return list(rows.order_by("at", "id")[:MAX_EXPORTED])
