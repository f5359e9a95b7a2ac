"""Lists of an exported run: episodes with filters, steps as columns, the record. The answers of the
REST API.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from statistics import fmean, pstdev
from typing import Any

from tinkerscript.errors import InvalidRequest, NotFound
from tinkerscript.wire.reading.facets import BY_AGENT, bound_of
from tinkerscript.wire.reading.points import (
    MetricAxis,
    columns_make,
    is_mark,
    marks_thin,
    measures_unknown,
)

from .run_folder import Json, RunFolder

# What a list is sorted by, and whether it grows.
ORDERS: dict[str, tuple[str | None, bool]] = {
    "newest": (None, False), "oldest": (None, True), "best": ("reward", False), "worst": ("reward", True),
    "longest": ("sampled_tokens", False), "surprising": ("logprob_mean", True),
}  # fmt: skip
Asked = dict[str, list[str]]  # a query string


def one(asked: Asked, name: str, default: str = "") -> str:
    """The last value of a parameter."""
    return asked.get(name, [default])[-1]


def number(asked: Asked, name: str, default: int, *, least: int = 0, most: int = 2**53 - 1) -> int:
    """A whole number of the query string. Raises InvalidRequest."""
    text = one(asked, name, str(default))
    if not (text.isascii() and text.isdigit() and least <= int(text[:20]) <= most):
        raise InvalidRequest(f"{name} must be a whole number from {least} to {most}.")
    return int(text)


def episode_page(folder: RunFolder, asked: Asked) -> Json:
    """``GET .../episodes``. Cursors are the number of entries before."""
    limit, start = number(asked, "limit", 50, least=1, most=200), number(asked, "cursor", 0)
    found = _sorted(folder, asked)
    page = found[start : start + limit]
    return {
        "items": page,
        "next_cursor": str(start + limit) if start + limit < len(found) else None,
    }


def episode_neighbours(folder: RunFolder, asked: Asked, episode_id: str) -> Json:
    """``GET .../episodes/{id}/neighbours``: those of the list around the place that the episode has
    in the order, even where the filter leaves it out. Raises NotFound.
    """
    if episode_id not in folder.by_id:
        raise NotFound("There is no such episode in this session.")
    order = [episode["episode_id"] for episode in _in_order(folder.episodes, asked)]
    if episode_id not in order:
        return {"previous": None, "next": None}
    at = order.index(episode_id)
    listed = {episode["episode_id"] for episode in episodes_matching(folder, asked)}
    return {
        "previous": next((each for each in reversed(order[:at]) if each in listed), None),
        "next": next((each for each in order[at + 1 :] if each in listed), None),
    }


def _sorted(folder: RunFolder, asked: Asked) -> list[Json]:
    return _in_order(episodes_matching(folder, asked), asked)


def _in_order(episodes: Iterable[Json], asked: Asked) -> list[Json]:
    """Those of the episodes, given the oldest first, that have a place in the order asked for."""
    by, grows = ORDERS.get(one(asked, "sort", "newest"), (None, False))
    found = list(episodes)
    if by is not None:
        found = sorted((each for each in found if each[by] is not None), key=lambda each: each[by])
    if not grows:
        found.reverse()
    return found


def episodes_matching(folder: RunFolder, asked: Asked) -> list[Json]:
    """All that the filter leaves, the oldest first."""
    return [episode for episode in folder.episodes if _matches(episode, asked)]


def _matches(episode: Json, asked: Asked) -> bool:
    return all(
        test(episode, values)
        for name, values in asked.items()
        if (test := FILTERS.get(name)) and any(values)
    )


def _says(episode: Json, text: str) -> bool:
    return any(
        text.lower() in (episode[name] or "").lower() for name in ("task", "prompt", "answer")
    )


def _sampled_by(episode: Json, version: int) -> bool:
    first, last = episode["policy_version_first"], episode["policy_version_last"]
    return first is not None and first <= version <= last


def _is_within(episode: Json, text: str) -> bool:
    name, is_least, bound = bound_of(text)
    agent = name.removeprefix(BY_AGENT)
    measured = episode["metrics"] if agent == name else episode["rewards_by_agent"] or {}
    value = measured.get(agent)
    return value is not None and (value >= bound if is_least else value <= bound)


FILTERS: dict[str, Callable[[Json, list[str]], bool]] = {
    "task": lambda episode, asked: episode["task"] == asked[-1],
    "fate": lambda episode, asked: fate_of(episode) in asked,
    "eval": lambda episode, asked: episode["eval"] == (asked[-1] == "true"),
    "reward_min": lambda episode, asked: (
        episode["reward"] is not None and episode["reward"] >= float(asked[-1])
    ),
    "reward_max": lambda episode, asked: (
        episode["reward"] is not None and episode["reward"] <= float(asked[-1])
    ),
    "version": lambda episode, asked: _sampled_by(episode, int(asked[-1])),
    "step": lambda episode, asked: episode["trained_step"] == int(asked[-1]),
    "agent": lambda episode, asked: asked[-1] in episode["agents"],
    "q": lambda episode, asked: _says(episode, asked[-1]),
    "metric": lambda episode, asked: all(_is_within(episode, each) for each in asked),
    "thumb": lambda episode, asked: any(
        said["thumb"] == asked[-1] for said in episode["annotations"]
    ),
    "commented": lambda episode, asked: (
        any(said["comment"] for said in episode["annotations"]) == (asked[-1] == "true")
    ),
}


def fate_of(episode: Json) -> str:
    """Where an episode is in the accounting, in one word (EpisodeFate)."""
    if episode["state"] != "completed":
        return str(episode["state"])
    return "waiting" if episode["fate"] in (None, "accepted") else str(episode["fate"])


def event_page(folder: RunFolder, asked: Asked) -> Json:
    """``GET .../events``."""
    after, limit = number(asked, "after", 0), number(asked, "limit", 200, least=1, most=1000)
    kinds = set(asked.get("kind", []))
    found = [
        each
        for each in folder.events
        if each["cursor"] > after and (not kinds or each["kind"] in kinds)
    ]
    if one(asked, "marks") == "true":
        found = [each for each in found if is_mark(each["kind"], each["data"])]
    page = found[-limit:] if one(asked, "newest") == "true" else found[:limit]
    left_out = 0
    if one(asked, "spread") == "true":
        kept = set(
            marks_thin(
                [(each["cursor"], each["data"].get("name", each["kind"])) for each in found], limit
            )
        )
        page, left_out = [each for each in found if each["cursor"] in kept], len(found) - len(kept)
    return {
        "items": page,
        "next_cursor": max([after, *(each["cursor"] for each in page)]),
        "left_out": left_out,
    }


def metric_columns(folder: RunFolder, asked: Asked) -> Json:
    """``GET .../metrics``."""
    names = [name for name in one(asked, "names").split(",") if name]
    if unknown := measures_unknown(names):
        raise InvalidRequest(f"Unknown measures: {', '.join(unknown)}.")
    axis = one(asked, "x", "step")
    if axis not in list(MetricAxis):
        raise InvalidRequest(f"x must be one of {', '.join(MetricAxis)}.")
    after, points = number(asked, "after", 0), number(asked, "points", 1000, least=1, most=5000)
    extremes = one(asked, "extremes", "true") == "true"
    return columns_make(
        _steps(folder),
        cursor=max((event["cursor"] for event in folder.events), default=0),
        axis=MetricAxis(axis),
        names=names,
        after=after,
        x_from=_place(asked, "x_from"),
        x_to=_place(asked, "x_to"),
        points=points,
        extremes=extremes,
    ).model_dump(mode="json")


def _place(asked: Asked, name: str) -> float | None:
    value = one(asked, name)
    try:
        return float(value) if value else None
    except ValueError:
        raise InvalidRequest(f"{name} must be a number.") from None


def _steps(folder: RunFolder) -> list[Json]:
    """Every step as it was last recorded, with ``id``, its cursor, and ``at``, seconds since the
    session began.
    """
    created_at = folder.run.session.created_at
    by_step: dict[int, Json] = {}
    for event in folder.events:
        if event["kind"] == "metric":
            at = (datetime.fromisoformat(event["at"]) - created_at).total_seconds()
            by_step[event["data"]["step"]] = event["data"] | {"id": event["cursor"], "at": at}
    return [by_step[step] for step in sorted(by_step)]


def step_view(folder: RunFolder, step: int) -> Json:
    """``GET .../steps/{step}``. Raises NotFound where nothing of it is recorded."""
    metrics = {
        each["data"]["step"]: each for each in reversed(folder.events) if each["kind"] == "metric"
    }
    refused = [
        each for each in folder.events
        if each["kind"] == "event" and each["data"].get("name") == "step_refused" and each["data"].get("step") == step
    ]  # fmt: skip
    groups: dict[str, list[Json]] = {}
    for episode in folder.episodes:
        if episode["trained_step"] == step:
            groups.setdefault(episode["group_key"] or "", []).append(episode)
    metric = metrics.get(step)
    if metric is None and not refused and not groups:
        raise NotFound(f"There is no step {step} in this session.")
    return {
        "step": step,
        "metrics": metric and metric["data"],
        "at": metric and datetime.fromisoformat(metric["at"]).isoformat(),
        "refused": refused,
        "groups": [_group(folder, key, step, episodes) for key, episodes in groups.items()],
        "previous": step - 1 if step - 1 in metrics else None,
        "next": step + 1 if step + 1 in metrics else None,
    }


def _group(folder: RunFolder, key: str, step: int, episodes: Sequence[Json]) -> Json:
    rewards = [episode["reward"] for episode in episodes if episode["reward"] is not None]
    by_call: list[Any] = [folder.documents.get(episode["episode_id"]) for episode in episodes]
    return {
        "group_key": key,
        "task": episodes[0]["task"],
        "step": step,
        "count": len(episodes),
        "reward_mean": fmean(rewards) if rewards else None,
        "reward_std": pstdev(rewards) if rewards else None,
        "has_signal": len(set(rewards)) > 1 or any(one and one.advantages for one in by_call),
        "episodes": [episode | {"annotations": []} for episode in episodes],  # as a server tells
    }
