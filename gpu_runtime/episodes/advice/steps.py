"""What is said of steps that teach nothing or less and less: the words of events. No torch in
here.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

STEPS_UNTIL_ADVICE = 3
FIRST_STEPS = 3  # their highest entropy is what the policy began with
ENTROPY_LEFT = 0.1  # of that
DISTINCT_LEFT = 0.1  # of the pairs of answers that could differ
MOSTLY_LEVEL = 0.75  # of the groups of these steps
MOSTLY_CUT = 0.5  # of the answers
MORE_SPREAD = (
    "Raise the temperature, choose harder tasks where all succeed and easier ones where all fail, "
    "reward parts of the"
    " way, or raise grpo_n."
)
LONGER = "More than half of the answers were cut off: raise max_tokens, or ask for shorter answers."
CUT = "Raise max_tokens, or ask for shorter answers. Leave it where the reward rises all the same."

Metrics = Mapping[str, Any]  # StepMetrics as recorded
Event = dict[str, Any]


def advice(step: int, history: Sequence[Metrics]) -> list[Event]:
    """Every event that ``step`` gives rise to; ``history``: the metrics of ``watched_steps(step)``,
    up to it.
    """
    last = history[-STEPS_UNTIL_ADVICE - 1 :]
    first = prefixes_repeated(step, last[-1])
    found = (
        collapse(step, history)
        + first_level(step, history)
        + kl_alone(step, last)
        + little_to_learn(step, last)
        + losses(step, last)
    )
    cut = last[-1].get("truncated") or 0.0
    found = [data | {"hint": cut_first(data["hint"], cut)} for data in found]
    return found + first + truncated(step, last)


def cut_first(hint: str, share: float) -> str:
    """``hint`` where a ``share`` of the answers was cut off: nothing else helps before that does."""
    return f"{LONGER} {hint}" if share > MOSTLY_CUT else hint


def prefixes_repeated(step: int, metrics: Metrics) -> list[Event]:
    """The event about a model whose layers share no prefixes, of the first step: what that
    costs.
    """
    repeated, computed = metrics.get("tokens_repeated") or 0, metrics.get("tokens_computed") or 1
    if step != 1 or not repeated:
        return []
    reason = (
        f"prefixes are not shared: {repeated:,} of the {computed:,} tokens of this step were "
        "computed before"
    )
    found = {
        "name": "prefixes_not_shared",
        "step": step,
        "tokens_repeated": repeated,
        "reason": reason,
    }
    return [
        found
        | {
            "hint": "The model's layers read each timeline whole; one of attention alone shares "
            "them."
        }
    ]


def first_level(step: int, history: Sequence[Metrics]) -> list[Event]:
    """The event about a reward that told no attempt from another in the first two steps, which the
    length of the answers or a KL term in the reward made.
    """
    if step != 2 or not all(map(_has_level_rewards, history)):
        return []
    low, middle, high = (history[-1].get(f"reward_p{part}") or 0.0 for part in (10, 50, 90))
    reason = (
        f"no group of the first {step} steps has two different rewards (of the last one: a tenth "
        f"up to {low:g}, half up"
        f" to {middle:g}, nine tenths up to {high:g}): this reward cannot teach these tasks yet"
    )
    groups = sum(metrics["groups"] for metrics in history)
    return [
        {
            "name": "reward_level",
            "step": step,
            "groups": groups,
            "reason": reason,
            "hint": MORE_SPREAD,
        }
    ]


def kl_alone(step: int, last: Sequence[Metrics]) -> list[Event]:
    """The event about steps that only a KL term made: every group of the last STEPS_UNTIL_ADVICE
    was level.

    ``last``: the metrics of one step more than that, where there was one; the event comes once for
    a row of such steps.
    """
    if not has_just_lasted(last, _is_level):
        return []
    row = last[-STEPS_UNTIL_ADVICE:]
    groups, mean = sum(metrics["groups"] for metrics in row), row[-1]["reward_mean"]
    reason = (
        f"{groups} groups in a row had equal rewards (of late {mean:g}): in the last {len(row)} "
        "steps the KL term alone moved the weights"
    )
    found = {"name": "nothing_to_learn", "step": step, "groups": groups, "reward_mean": mean}
    return [found | {"reason": reason, "hint": MORE_SPREAD}]


def little_to_learn(step: int, last: Sequence[Metrics]) -> list[Event]:
    """The event about steps that a few groups made: of all groups for them at least MOSTLY_LEVEL
    were level.
    """
    row, before = last[-STEPS_UNTIL_ADVICE:], last[:-1]
    share, groups, aside = _level_share(row)
    if len(row) < STEPS_UNTIL_ADVICE or all(map(_is_level, row)) or share < MOSTLY_LEVEL:
        return []
    if len(before) == STEPS_UNTIL_ADVICE and _level_share(before)[0] >= MOSTLY_LEVEL:
        return []  # said then
    reason = (
        f"{share:.0%} of {groups} groups had equal rewards, and no gradient: of {len(row)} steps"
    )
    reason += f", and {aside} that were set aside before them" if aside else ""
    return [
        {
            "name": "little_to_learn",
            "step": step,
            "level": share,
            "reason": reason,
            "hint": MORE_SPREAD,
        }
    ]


def truncated(step: int, last: Sequence[Metrics]) -> list[Event]:
    """The event about answers of which more than MOSTLY_CUT were cut off."""
    if not has_just_lasted(last, lambda metrics: (metrics.get("truncated") or 0.0) > MOSTLY_CUT):
        return []
    share = last[-1]["truncated"]
    reason = (
        f"{share:.0%} of the answers of the last step were cut off by max_tokens or the end "
        "of the context"
    )
    return [
        {
            "name": "answers_truncated",
            "step": step,
            "truncated": share,
            "reason": reason,
            "hint": CUT,
        }
    ]


def losses(step: int, last: Sequence[Metrics]) -> list[Event]:
    """The event about grammars that answers left: the first step of a row with such an answer."""
    count = last[-1].get("grammars_lost") or 0
    if not count or any(metrics.get("grammars_lost") for metrics in last[:-1]):
        return []
    reason = (
        f"{count} of the step's answers left the grammar of their call as the runtime follows it: "
        "what each sampled"
        " after that is not trained"
    )
    hint = "Leave out response_format or the strict tool, or simplify its schema, if it goes on."
    return [
        {"name": "grammar_lost", "step": step, "answers": count, "reason": reason, "hint": hint}
    ]


def watched_steps(step: int) -> list[int]:
    """The steps whose metrics ``advice`` wants: the first ones, and the last ones up to
    ``step``.
    """
    return sorted({*range(1, FIRST_STEPS + 1), *range(max(1, step - STEPS_UNTIL_ADVICE), step + 1)})


def collapse(step: int, history: Sequence[Metrics]) -> list[Event]:
    """The events of a policy that has just lost its entropy or the spread of its answers, at most
    one of each kind.

    Just: so for the last STEPS_UNTIL_ADVICE steps, and not for the one before them, if there was
    one.
    """
    last = history[-STEPS_UNTIL_ADVICE - 1 :]
    began = max(metrics["entropy"] for metrics in history[:FIRST_STEPS])
    found: list[Event] = []
    if has_just_lasted(last, lambda metrics: metrics["entropy"] < ENTROPY_LEFT * began):
        now = last[-1]["entropy"]
        reason = f"the entropy of the policy fell to {now:.2g} nats; it began with {began:.2g}"
        hint = "Lower learning_rate, add entropy_coef or entropy_target, or raise the temperature."
        found.append(
            {
                "name": "entropy_collapse",
                "step": step,
                "entropy": now,
                "reason": reason,
                "hint": hint,
            }
        )
    if has_just_lasted(last, are_alike):
        reason = (
            "nearly all answers of each group are the same "
            f"({last[-1]['answers_distinct']:.0%} differ)"
        )
        hint = (
            "Stop here if the reward is good; else raise the temperature, lower learning_rate "
            "or raise kl_coef."
        )
        found.append({"name": "answers_collapse", "step": step, "reason": reason, "hint": hint})
    return found


def has_just_lasted(last: Sequence[Metrics], holds: Callable[[Metrics], bool]) -> bool:
    """Whether it held for the last STEPS_UNTIL_ADVICE of these steps, and not for one before
    them.
    """
    row, before = last[-STEPS_UNTIL_ADVICE:], last[:-STEPS_UNTIL_ADVICE]
    return len(row) == STEPS_UNTIL_ADVICE and all(map(holds, row)) and not any(map(holds, before))


def _is_level(metrics: Metrics) -> bool:
    return metrics.get("groups_skipped", 0) == metrics.get("groups")


def _has_level_rewards(metrics: Metrics) -> bool:
    level = metrics.get("groups_level")
    return _is_level(metrics) if level is None else level == metrics.get("groups")


def _level_share(row: Sequence[Metrics]) -> tuple[float, int, int]:
    """(share, groups, aside): of the groups of these steps and those set aside before them."""
    aside = sum(metrics.get("groups_replaced", 0) for metrics in row)
    groups = sum(metrics.get("groups", 0) for metrics in row) + aside
    level = sum(metrics.get("groups_skipped", 0) for metrics in row) + aside
    return level / groups if groups else 0.0, groups, aside


def are_alike(metrics: Metrics) -> bool:
    """Whether nearly all answers of each group of a step were the same."""
    share = metrics.get("answers_distinct")
    return share is not None and share < DISTINCT_LEFT


TOLD = frozenset({
    "nothing_to_learn", "little_to_learn", "entropy_collapse", "answers_collapse",
    "answers_truncated", "grammar_lost", "step_refused", "episodes_stale", "reward_level",
    "no_reward", "gradient_norm_high", "length_drift", "engine_gap",
})  # fmt: skip
# why episodes were dropped: each has an event of its own
TOLD_ALREADY = ("nothing to learn", "step_refused")


class Notices:
    """What a loop should hear of its training, of one runtime: said with the end of an episode.

    Each kind is said at its first event and again each time that their number has doubled, so that
    a long run with one cause is a few lines.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._waiting: dict[str, str] = {}  # by kind, until an episode ends

    def add(self, event: Mapping[str, Any]) -> None:
        """An event of the session's record; those that no loop needs to hear of are left."""
        name = str(event.get("name"))
        if name not in TOLD or str(event.get("why", "")).startswith(TOLD_ALREADY):
            return
        self._counts[name] += 1
        count = self._counts[name]
        if count & (count - 1) == 0:
            often = f", {count} times so far" if count > 1 else ""
            said = f"{str(event.get('reason', '')).rstrip('.')}. {event.get('hint') or ''}".strip()
            self._waiting[name] = f"{name} in this session{often}: {said}"

    def take(self) -> str | None:
        """What has not been said yet, in words; it counts as said."""
        said, self._waiting = " ".join(self._waiting.values()), {}
        return said or None
