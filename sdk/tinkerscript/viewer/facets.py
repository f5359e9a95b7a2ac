"""What a list of an exported run's episodes holds, counted. The answer of the REST API."""

from collections import Counter
from statistics import fmean

from tinkerscript.wire.reading.facets import (
    MAX_TASKS,
    EpisodeFacets,
    TaskCount,
    nine_digits,
    reward_buckets,
)
from tinkerscript.wire.reading.trajectories import EpisodeFate

from .lists import Asked, episodes_matching, fate_of
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
