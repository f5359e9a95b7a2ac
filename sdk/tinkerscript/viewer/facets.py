"""What a list of an exported run's episodes holds, counted, and its tasks as they were played
nearest to two versions of the policy. The answers of the REST API.
"""

from collections import Counter
from statistics import fmean

from tinkerscript.wire.reading.facets import (
    MAX_TASKS,
    REACHES,
    EpisodeFacets,
    NearestPlays,
    Play,
    TaskCount,
    is_within,
    nearest_plays,
    nine_digits,
    reward_buckets,
)
from tinkerscript.wire.reading.trajectories import EpisodeFate

from .lists import Asked, episodes_matching, fate_of, number, one
from .run_folder import Json, RunFolder


def episode_facets(folder: RunFolder, asked: Asked) -> Json:
    """``GET .../episodes/facets``."""
    matching = episodes_matching(folder, asked)
    of_any_fate = episodes_matching(
        folder, {name: value for name, value in asked.items() if name != "fate"}
    )
    of_any_task = episodes_matching(
        folder, {name: value for name, value in asked.items() if name != "task"}
    )
    tasks = Counter(episode["task"] for episode in of_any_task if episode["task"] is not None)
    rewards = [episode["reward"] for episode in matching if episode["reward"] is not None]
    return EpisodeFacets(
        episodes=len(matching),
        rewards=reward_buckets(Counter(rewards)),
        reward_mean=nine_digits(fmean(rewards)) if rewards else None,
        fates=Counter(EpisodeFate(fate_of(episode)) for episode in of_any_fate),
        evaluation=sum(episode["eval"] for episode in matching),
        tasks=[
            TaskCount(task=task, count=count)
            for task, count in sorted(tasks.items(), key=lambda each: (-each[1], each[0]))[
                :MAX_TASKS
            ]
        ],
        tasks_in_all=len(tasks),
    ).model_dump(mode="json")


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
