"""Each task of a session as it was played nearest to two versions of the policy."""

from django.db.models import Count, Q, Sum

from console.sessions.episodes.facets import divided, mean
from console.sessions.episodes.one_reading import SCALE
from console.sessions.models import EpisodeRecord
from console.sessions.selectors import session_get
from console.users.models import Project
from tinkerscript.wire.reading.facets import REACHES, NearestPlays, Play, nearest_plays
from tinkerscript.wire.reading.trajectories import EpisodeFate


def episodes_nearest(
    *, project: Project, session_id: str, held_out: bool, from_version: int, to_version: int | None
) -> NearestPlays:
    """The tasks that were played near both versions (None: the newest), held out or trained. Raises
    NotFound.

    Read are the episodes of the versions around the two, and more only where these have no task in
    common: what a comparison costs does not grow with the run, but where tasks come around after
    more than a few hundred steps.
    """
    session = session_get(project=project, session_id=session_id)
    fate = EpisodeFate.EVAL if held_out else EpisodeFate.TRAINED
    rows = EpisodeRecord.objects.filter(
        session=session,
        eval=held_out,
        fate=fate,
        task__isnull=False,
        reward__isnull=False,
        policy_version_last__isnull=False,
    )
    of = (from_version, session.policy_version if to_version is None else to_version)
    found = NearestPlays(items=[], tasks_in_all=0, reach=None)
    for reach in REACHES:
        near = rows if reach is None else rows.filter(_around(of[0], reach) | _around(of[1], reach))
        groups = (
            near.order_by()
            .values_list("task", "policy_version_last")
            .annotate(episodes=Count("*"), scaled=Sum(divided(SCALE)))
        )
        plays = [
            Play(task or "", version or 0, n, mean(scaled, n))
            for task, version, n, scaled in groups
        ]
        found = nearest_plays(plays, of, reach)
        if found.items:
            break
    return found


def _around(version: int, reach: int) -> Q:
    return Q(policy_version_last__range=(max(0, version - reach), version + reach))
