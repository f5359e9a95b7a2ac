"""What people say of episodes: a thumb and a comment of each person."""

from collections import defaultdict
from collections.abc import Collection

from django.db import transaction
from django.db.models import Window
from django.db.models.functions import RowNumber

from console.live.services import event_note
from console.sessions.episodes.models import EpisodeAnnotation
from console.sessions.episodes.selectors import episode_get
from console.sessions.models import Session
from console.users.models import Project, User
from tinkerscript.wire.episodes import EpisodeAnnotate

MAX_LISTED = 20  # of each episode of a list
EXPORT_PAGE = 500


def episode_annotate(
    *, project: Project, session_id: str, episode_id: str, body: EpisodeAnnotate, person: User
) -> list[EpisodeAnnotation]:
    """Everybody's annotations of an episode, once this person's are these. Raises NotFound.

    The session's record says where one changed; the words, which can be taken back, stand here
    alone.
    """
    session = episode_get(project=project, session_id=session_id, episode_id=episode_id).session
    own = EpisodeAnnotation.objects.filter(session=session, episode_id=episode_id, person=person)
    said = {"thumb": body.thumb or "", "comment": body.comment.strip()}
    with transaction.atomic():
        before = own.select_for_update().values(*said).first()
        if said != (before or dict.fromkeys(said, "")):
            if any(said.values()):
                EpisodeAnnotation.objects.update_or_create(
                    session=session, episode_id=episode_id, person=person, defaults=said
                )
            else:
                own.delete()
            data = {"episode_id": episode_id, "thumb": body.thumb}
            event_note(session.id, "episode_annotated", **data)
    return annotations_of(session=session, episode_ids=[episode_id])[episode_id]


def annotations_of(
    *, session: Session, episode_ids: Collection[str], most: int | None = None
) -> dict[str, list[EpisodeAnnotation]]:
    """Those of each of these episodes, or the newest ``most`` of each, oldest first.

    The caller has checked that the session is the reader's.
    """
    found: dict[str, list[EpisodeAnnotation]] = defaultdict(list)
    rows = EpisodeAnnotation.objects.filter(session=session, episode_id__in=episode_ids)
    if most is not None:
        newest = Window(RowNumber(), partition_by="episode_id", order_by=["-at", "-id"])
        rows = rows.annotate(place=newest).filter(place__lte=most)
    for row in rows.select_related("person").order_by("at", "id"):
        found[row.episode_id].append(row)
    return found


def annotations_export(
    *, session: Session, after: int
) -> tuple[list[EpisodeAnnotation], int | None]:
    """One page of those of a session, oldest first, and the cursor of the next page; None after the
    last.
    """
    rows = (
        EpisodeAnnotation.objects.filter(session=session, id__gt=after)
        .select_related("person")
        .order_by("id")
    )
    page = list(rows[: EXPORT_PAGE + 1])
    return page[:EXPORT_PAGE], page[EXPORT_PAGE - 1].pk if len(page) > EXPORT_PAGE else None
