"""Each task of an exported run as it was played nearest to two versions. The answer of the REST
API.
"""

from statistics import fmean

from tinkerscript.wire.reading.facets import (
    REACHES,
    NearestPlays,
    Play,
    is_within,
    nearest_plays,
    nine_digits,
)

from .lists import Asked, fate_of, number, one
from .run_folder import Json, RunFolder


def episodes_nearest(folder: RunFolder, asked: Asked) -> Json:
    """``GET .../episodes/nearest``."""
    held_out, newest = one(asked, "held_out") == "true", folder.run.session.policy_version
    of = (number(asked, "from_version", 0), number(asked, "to_version", newest))
    rewards: dict[tuple[str, int], list[float]] = {}
    for episode in folder.episodes:
        known = [episode["task"], episode["policy_version_last"], episode["reward"]]
        if (
            None not in known
            and episode["eval"] == held_out
            and fate_of(episode) == ("eval" if held_out else "trained")
        ):
            rewards.setdefault((known[0], known[1]), []).append(known[2])
    plays = [
        Play(*key, len(those), nine_digits(fmean(those)) or 0.0) for key, those in rewards.items()
    ]
    found = NearestPlays(items=[], tasks_in_all=0, reach=None)
    for reach in REACHES:
        found = nearest_plays(
            [play for play in plays if is_within(play.version, of, reach)], of, reach
        )
        if found.items:
            break
    plain: Json = found.model_dump(mode="json")
    return plain
