"""What was changed of the rewards of waiting episodes, in their session's record."""

from console.live.services import events_record
from console.sessions.selectors import session_get
from console.users.models import Membership, Project, User
from tinkerscript.wire.episodes import EpisodesRescored
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import ReportEntry


def rewards_changed(
    *, project: Project, session_id: str, person: User, key_id: str | None, done: EpisodesRescored
) -> None:
    """Record each change once, by the request that came first. ``person`` stands there by the id of
    a member.
    """
    if not done.changes:
        return
    session = session_get(project=project, session_id=session_id)
    member = (
        Membership.objects.filter(project=project, user=person)
        .values_list("member_id", flat=True)
        .first()
    )
    events_record(
        session_id=session.id,
        entries=[
            ReportEntry(
                # Of each by itself: a request that is sent again may have it beside others.
                key=f"rescored {change.seq}",
                kind=EventKind.EVENT,
                data={
                    "name": "episodes_rescored",
                    "member_id": member,
                    "key_id": key_id,
                    "rewards": {change.episode_id: {"was": change.was, "reward": change.reward}},
                },
            )
            for change in done.changes
        ],
    )
