"""What was changed of the rewards of waiting episodes, in their session's record."""

from console.live.services import event_record
from console.sessions.selectors import session_get
from console.users.models import Membership, Project, User
from tinkerscript.wire.episodes import EpisodesRescored
from tinkerscript.wire.events import EventKind


def rewards_changed(
    *, project: Project, session_id: str, person: User, key_id: str | None, done: EpisodesRescored
) -> None:
    """Record each change once, however often the request comes. ``person`` stands there by the id of a member."""
    if not done.changes:
        return
    session = session_get(project=project, session_id=session_id)
    member = Membership.objects.filter(project=project, user=person).values_list("member_id", flat=True).first()
    numbers = sorted(change.seq for change in done.changes)
    event_record(
        session_id=session.id,
        kind=EventKind.EVENT,
        key=f"rescored {numbers[0]} {numbers[-1]} {len(numbers)}",
        data={
            "name": "episodes_rescored",
            "member_id": member,
            "key_id": key_id,
            "rewards": {one.episode_id: {"was": one.was, "reward": one.reward} for one in done.changes},
        },
    )
