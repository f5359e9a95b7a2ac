"""Pages of an episode's tokens, and the outline of all of them: what a reader is sent of a
document.
"""

import math
import time
from typing import Any

import pytest

from tinkerscript.wire.reading.token_pages import STRETCHES, outline, timelines_page

TEMPERED = {"sampling": {"temperature": 0.5, "top_p": 1.0}}


def context(start: int, tokens: int) -> dict[str, Any]:
    return {
        "call": None, "answer": 0, "start": start, "tokens": tokens, "text": "?" * tokens, "token_ids": [7] * tokens,
        "pieces": [], "logprobs": [], "policy_versions": [], "split_bytes": {},
    }  # fmt: skip


def sampled(call: str, start: int, logprobs: list[float], version: int = 0) -> dict[str, Any]:
    count = len(logprobs)
    return {
        "call": call, "answer": 0, "start": start, "tokens": count, "text": "a" * count, "token_ids": [1] * count,
        "pieces": ["a"] * count, "logprobs": logprobs, "policy_versions": [version] * count, "split_bytes": {},
    }  # fmt: skip


def document(
    *timelines: list[dict[str, Any]], options: dict[str, Any], **more: Any
) -> dict[str, Any]:
    calls = sorted({run["call"] for runs in timelines for run in runs if run["call"] is not None})
    kept: dict[str, Any] = {
        "raw_logprobs": [],
        "trainer_logprobs": [],
        "trainer_logprobs_after": [],
    }
    return (
        kept
        | {
            "calls": [{"id": call, "options": options} for call in calls],
            "timelines": [
                {
                    "index": at,
                    "agent": None,
                    "tokens": sum(run["tokens"] for run in runs),
                    "runs": runs,
                }
                for at, runs in enumerate(timelines)
            ],
        }
        | more
    )


def test_raw_log_probabilities_stand_beside_those_of_what_was_sampled_where_they_differ() -> None:
    raw = [{"call": "a", "answer": 0, "logprobs": [-1.0, -2.0, -3.0]}]
    told = document(
        [context(0, 2), sampled("a", 2, [-0.1, -0.2, -0.3])], options=TEMPERED, raw_logprobs=raw
    )
    ((before, run),) = [
        line["runs"] for line in timelines_page(told, advantages=None, start=0, limit=100)[0]
    ]
    assert (run["raw_logprobs"], run["is_sampled_raw"]) == ([-1.0, -2.0, -3.0], False)
    assert (before["raw_logprobs"], before["is_sampled_raw"]) == (None, False)
    ((part,),) = [
        line["runs"] for line in timelines_page(told, advantages=None, start=3, limit=1)[0]
    ]
    assert (part["start"], part["logprobs"], part["raw_logprobs"]) == (3, [-0.2], [-2.0])


@pytest.mark.parametrize(
    "options, same", [({}, True), ({"sampling": {"temperature": 1.0}}, True), (TEMPERED, False)]
)
def test_what_was_not_recorded_is_not_told_as_the_same(options: dict[str, Any], same: bool) -> None:
    """Of an eval episode's tempered call they are unknown."""
    told = document([sampled("a", 0, [-0.1])], options=options)
    ((run,),) = [
        line["runs"] for line in timelines_page(told, advantages=None, start=0, limit=100)[0]
    ]
    assert (run["raw_logprobs"], run["is_sampled_raw"]) == (None, same)


def test_an_outline_names_the_most_surprising_token_of_each_stretch_by_its_number_in_the_episode() -> (
    None
):
    first = [context(0, 2), sampled("a", 2, [-0.5, -3.0], version=4)]
    told = document(first, [context(0, 1), sampled("b", 1, [-9.0, 0.0], version=5)], options={})
    assert outline(told, {"a": 0.5, "b": -2.0}) == {
        "timelines": [4, 3],
        "width": 1,
        "surprising": [None, None, 2, 3, None, 5, 6],
        "logprobs": [None, None, -0.5, -3.0, None, -9.0, 0.0],
        "advantages": [None, None, 0.5, 0.5, None, -2.0, -2.0],
        "versions": [None, None, 4, 4, None, 5, 5],
        "ratios": [None] * 7,
        "changes": [None] * 7,
    }
    assert outline(told, None)["advantages"] == [None] * 7
    empty = outline(document(options={}), None)
    assert (empty["timelines"], empty["width"], empty["surprising"]) == ([], 1, [])


def test_trainer_log_probabilities_stand_beside_those_of_what_was_sampled_once_they_are_kept() -> (
    None
):
    kept = [{"call": "a", "answer": 0, "logprobs": [-0.1, None, -0.5]}]
    told = document(
        [context(0, 2), sampled("a", 2, [-0.1, -0.2, -0.3])], options={}, trainer_logprobs=kept
    )
    ((before, run),) = [
        line["runs"] for line in timelines_page(told, advantages=None, start=0, limit=100)[0]
    ]
    assert (before["trainer_logprobs"], run["trainer_logprobs"]) == (None, [-0.1, None, -0.5])
    ((part,),) = [
        line["runs"] for line in timelines_page(told, advantages=None, start=3, limit=2)[0]
    ]
    assert part["trainer_logprobs"] == [None, -0.5]
    untrained = document([sampled("a", 0, [-0.1])], options={})
    ((run,),) = [
        line["runs"] for line in timelines_page(untrained, advantages=None, start=0, limit=100)[0]
    ]
    assert run["trainer_logprobs"] is None


def test_what_a_step_changed_stands_beside_what_was_before_it_where_both_are_kept() -> None:
    before = [{"call": call, "answer": 0, "logprobs": [-0.1, None, -0.5]} for call in "ab"]
    after = [{"call": call, "answer": 0, "logprobs": [-0.3, None, -0.4]} for call in "ac"]
    lines = [[sampled(call, 0, [-0.1, -0.2, -0.3])] for call in "abc"]
    told = document(*lines, options={}, trainer_logprobs=before, trainer_logprobs_after=after)
    runs = [
        run
        for line in timelines_page(told, advantages=None, start=1, limit=100)[0]
        for run in line["runs"]
    ]
    assert [run["trainer_logprobs_after"] for run in runs] == [
        [None, -0.4],
        None,
        [-0.3, None, -0.4],
    ]
    changes = outline(told, None)["changes"]
    assert changes == [pytest.approx(-0.2), None, pytest.approx(0.1), *[None] * 6], (
        "of call a alone both are kept"
    )
    wide = [sampled("a", 0, [-0.1] * 2 * STRETCHES)]
    kept = (
        [{"call": "a", "answer": 0, "logprobs": pair * STRETCHES}]
        for pair in ([-1.0, -1.0], [-0.9, -1.5])
    )
    told = document(
        wide,
        options={},
        **dict(zip(("trainer_logprobs", "trainer_logprobs_after"), kept, strict=True)),
    )
    assert outline(told, None)["changes"] == [-0.5] * STRETCHES, (
        "the largest of each stretch, with its sign"
    )


def test_an_outline_names_the_ratio_that_is_furthest_from_one_and_knows_of_none_where_none_is_kept() -> (
    None
):
    kept = [
        {"call": "a", "answer": 0, "logprobs": [-0.1, None, -0.5]},
        {"call": "c", "answer": 0, "logprobs": [900.0]},
    ]
    lines = (
        [sampled("a", 0, [-0.1, -0.2, -0.3])],
        [sampled("b", 0, [-0.1])],
        [sampled("c", 0, [-0.1])],
    )
    ratios = outline(document(*lines, options={}, trainer_logprobs=kept), None)["ratios"]
    assert ratios[:4] == [1.0, None, pytest.approx(math.exp(-0.2)), None]
    assert ratios[4] == pytest.approx(math.exp(700)), "a number of JSON, whatever was kept"
    wide = [sampled("a", 0, [-0.1] * 2 * STRETCHES)]
    told = [{"call": "a", "answer": 0, "logprobs": [-0.2, -0.1] * STRETCHES}]
    assert (
        outline(document(wide, options={}, trainer_logprobs=told), None)["ratios"]
        == [pytest.approx(math.exp(-0.1))] * STRETCHES
    )


def test_an_outline_of_any_length_has_a_bounded_size_and_misses_no_token() -> None:
    for tokens in (STRETCHES - 1, STRETCHES, STRETCHES + 1, 5 * STRETCHES, 5 * STRETCHES + 7):
        runs = [context(0, 3), sampled("a", 3, [-at / tokens for at in range(tokens)])]
        seen = outline(document(runs, options={}), 1.0)
        assert len(seen["surprising"]) == -(-(tokens + 3) // seen["width"]) <= STRETCHES
        ends = [
            min((at + 1) * seen["width"], tokens + 3) - 1 for at in range(len(seen["surprising"]))
        ]
        assert [token for token in seen["surprising"] if token is not None] == [
            end for end in ends if end >= 3
        ]


def test_a_million_tokens_are_outlined_in_less_time_than_it_takes_to_read_them() -> None:
    runs = [sampled("a", 0, [-0.001 * (at % 977) for at in range(1_000_000)])]
    kept = [
        {"call": "a", "answer": 0, "logprobs": [-0.001 * (at % 499) for at in range(1_000_000)]}
    ]
    told = document(runs, options={}, trainer_logprobs=kept)
    began = time.process_time()
    seen = outline(told, 1.0)
    assert time.process_time() - began < 1.0
    assert len(seen["surprising"]) == STRETCHES
