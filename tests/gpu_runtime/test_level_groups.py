"""Groups of equal rewards: no step, said so, replaced where that is wanted; and a policy that
collapses.
"""

import json
from pathlib import Path

import pytest

from gpu_runtime.episodes.advice.steps import advice, collapse, watched_steps
from gpu_runtime.episodes.batch_export import batch_lines
from gpu_runtime.errors import StepRefused
from gpu_runtime.journal.journal import Journal
from support.fake_control_plane import FakeControlPlane
from support.runtime_harness import (
    episode_complete,
    learner_open,
    plane_assign,
    trained_steps,
    volume_fill,
)

LEVEL = (1.0, 1.0)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "volume").mkdir()
    return tmp_path / "volume"


async def test_a_batch_of_equal_rewards_is_no_step_and_its_number_goes_to_the_next_one(
    volume: Path,
) -> None:
    volume_fill(volume, ["a", "b"], rewards=LEVEL)
    volume_fill(volume, ["c", "d"])
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, max_steps=1)
        async with learner_open(plane, volume) as it:
            await it.train_next()
            assert (
                it.trainer.steps == []
                and it.engine.weights == []
                and it.batches.policy_version == 0
            )
            assert not it.batches.is_over and it.journal.episodes.accounting().stale == 4
            assert "every reward of its group is the same" in it.journal.episodes.get("a0").reason
            await it.train_next()
            (metrics,) = await it.metrics(1)
            assert (metrics["step"], metrics["groups_replaced"], metrics["tokens_trained"]) == (
                1,
                2,
                8,
            )
            assert it.batches.is_over
            steps = trained_steps(it.journal)
            assert (steps["a0"], steps["c0"]) == (None, 1)


async def test_with_a_kl_term_there_is_a_gradient_and_a_step(volume: Path) -> None:
    """Once the policy has left its reference: in the first batch it has none."""
    volume_fill(volume, ["a", "b"], rewards=LEVEL)
    volume_fill(volume, ["c", "d"])
    volume_fill(volume, ["e", "f"], rewards=LEVEL)
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, kl_coef=0.1)
        async with learner_open(plane, volume) as it:
            await it.train_next()
            assert it.trainer.steps == [] and it.batches.policy_version == 0
            for _ in range(2):
                await it.train_next()
            assert it.trainer.steps == [1, 2]
            assert [each["groups_skipped"] for each in await it.metrics(2)] == [0, 2]


async def test_three_steps_of_a_kl_term_alone_are_counted_and_told_once(volume: Path) -> None:
    volume_fill(volume, "a")
    volume_fill(volume, "bcde", rewards=LEVEL)
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, kl_coef=0.1, tasks_per_batch=1)
        async with learner_open(plane, volume) as it:
            for _ in range(5):
                await it.train_next()
            told = await it.event("nothing_to_learn")
            assert (told["step"], told["groups"], told["reward_mean"]) == (4, 3, 1.0)
            assert "KL term" in told["reason"] and "temperature" in told["hint"]
            events = [
                entry["data"]["name"]
                for entry in plane.entries.values()
                if entry["kind"] == "event"
            ]
            assert it.batches.policy_version == 5 and events.count("nothing_to_learn") == 1


async def test_after_three_such_batches_an_event_says_what_to_do(volume: Path) -> None:
    volume_fill(volume, "abcd", rewards=(0.25, 0.25))
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, tasks_per_batch=1)
        async with learner_open(plane, volume) as it:
            for _ in range(4):
                await it.train_next()
            told = await it.event("nothing_to_learn")
            assert (told["step"], told["groups"], told["reward_mean"]) == (1, 3, 0.25)
            assert told["answers_distinct"] == 1.0 and "100% differ" in told["reason"]
            first = await it.event("reward_level")
            assert (first["groups"], first["step"]) == (2, 1) and "seen: 4 times 0.25" in first[
                "reason"
            ]
            assert all(
                word in told["hint"]
                for word in ("temperature", "harder", "easier", "grpo_n", "reward")
            )


async def test_what_was_set_aside_stays_so_after_a_kill_and_counts_on(volume: Path) -> None:
    """A runtime that ends after two of them and is started again says it at the third."""
    volume_fill(volume, "abc", rewards=LEVEL)
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, tasks_per_batch=1)
        async with learner_open(plane, volume) as it:
            await it.train_next()
            await it.train_next()
        async with learner_open(plane, volume) as it:
            assert await it.learner.restore() == 0 and list(it.batches.waiting) == ["c0", "c1"]
            await it.train_next()
            assert (await it.event("nothing_to_learn"))["groups"] == 3


async def test_a_batch_that_was_journaled_and_never_looked_at_is_set_aside_after_a_restart(
    volume: Path,
) -> None:
    volume_fill(volume, ["a", "b"], rewards=LEVEL)
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane)
        async with learner_open(plane, volume) as it:
            assert (await it.batches.next_batch()).step == 1
        async with learner_open(plane, volume) as it:
            assert await it.learner.restore() == 0
            assert it.batches.pending() == 0 and it.journal.batches.get(1) is None


async def test_a_step_that_was_counted_keeps_its_number(volume: Path) -> None:
    volume_fill(volume, "a", rewards=LEVEL)
    volume_fill(volume, "b")
    journal = Journal(volume / "journal.sqlite3")
    journal.batches.record(1, [["a0", "a1"]], 0)
    journal.batches.step_done(1, {"step": 1, "entropy": 0.0})
    journal.close()
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, tasks_per_batch=1)
        async with learner_open(plane, volume) as it:
            assert await it.learner.restore() == 1
            await it.train_next()
            assert trained_steps(it.journal)["b0"] == 2 and len(it.trainer.steps) == 1


async def test_dynamic_sampling_puts_another_group_in_the_place_of_a_level_one(
    volume: Path,
) -> None:
    volume_fill(volume, "a", rewards=LEVEL)
    journal = Journal(volume / "journal.sqlite3")
    for name in ("b0", "b1"):
        episode_complete(journal, name, task="b", reward=1.0, text="b")
    journal.close()
    volume_fill(volume, "c")
    volume_fill(volume, "d", rewards=LEVEL)
    volume_fill(volume, "ef")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, dynamic_sampling=True)
        async with learner_open(plane, volume) as it:
            await it.train_next()
            (metrics,) = await it.metrics(1)
            assert (metrics["groups"], metrics["groups_skipped"], metrics["groups_replaced"]) == (
                2,
                0,
                3,
            )
            assert metrics["answers_distinct"] == 0.8, (
                "of the five groups; the answers of b are alike"
            )
            steps = trained_steps(it.journal)
            assert [name for name, step in sorted(steps.items()) if step == 1] == [
                "c0",
                "c1",
                "e0",
                "e1",
            ]
            assert it.journal.episodes.accounting().stale == 6 and list(it.batches.waiting) == [
                "f0",
                "f1",
            ]


async def test_dynamic_sampling_says_so_when_nothing_but_level_groups_comes(volume: Path) -> None:
    volume_fill(volume, "abcdef", rewards=LEVEL)
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, dynamic_sampling=True)
        async with learner_open(plane, volume) as it:
            assert await it.batches.flush_batch() is None
            assert (await it.event("nothing_to_learn"))["groups"] == 6


async def test_a_partial_group_is_trained_once_it_has_waited_too_long(volume: Path) -> None:
    journal = Journal(volume / "journal.sqlite3", now=lambda: 1000.0)
    for number, reward in enumerate((0.0, 1.0, 0.5)):
        episode_complete(journal, f"a{number}", task="a", reward=reward)
    episode_complete(journal, "b0", task="b", reward=1.0)
    journal.close()
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, grpo_n=4, tasks_per_batch=1)
        async with learner_open(plane, volume) as it:
            assert await it.batches.flush_batch() is None
        plane_assign(plane, grpo_n=4, tasks_per_batch=1, group_timeout_s=60)
        async with learner_open(plane, volume) as it:
            await it.train_next()
            assert trained_steps(it.journal) == {"a0": 1, "a1": 1, "a2": 1, "b0": None}, (
                "one alone is never trained"
            )


async def test_an_adaptive_weight_of_entropy_goes_on_where_it_was_after_a_restart(
    volume: Path,
) -> None:
    volume_fill(volume, "abc")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, tasks_per_batch=1, entropy_coef=0.01, entropy_target=2.0)
        async with learner_open(plane, volume) as it:
            await it.train_next()
            await it.train_next()
            assert it.trainer.entropy_coefs == pytest.approx([0.01, 0.015])
        async with learner_open(plane, volume) as it:
            await it.learner.restore()
            await it.train_next()
            assert it.trainer.entropy_coefs == pytest.approx([0.01, 0.015, 0.02]), (
                "two are trained again"
            )
            assert [each["entropy_coef"] for each in await it.metrics(3)] == pytest.approx(
                [0.01, 0.015, 0.02]
            )


async def test_a_kl_term_in_the_reward_is_taken_from_it_once_and_exported(volume: Path) -> None:
    """Equal rewards, and one answer longer: each token is half a nat from the reference, so it has
    a worse reward.
    """
    journal = Journal(volume / "journal.sqlite3")
    for name in ("a", "abcd"):
        episode_complete(journal, name, task="t", reward=1.0)
    journal.close()
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        options = {
            "kl_coef": 0.2,
            "kl_in": "reward",
            "normalize_advantage": False,
            "tasks_per_batch": 1,
        }
        plane_assign(plane, **options)
        async with learner_open(plane, volume) as it:
            await it.train_next()
            assert it.trainer.steps == [1] and it.reached("logprobs") == 2
            (measured,) = await it.metrics(1)
            assert (measured["groups_skipped"], measured["groups_level"]) == (0, 1)
        async with learner_open(plane, volume) as it:
            assert await it.learner.restore() == 1 and it.reached("logprobs") == 0, (
                "a replay uses what was recorded"
            )
            lines = [
                json.loads(line) for line in batch_lines(await it.batches.kept("1"), it.assignment)
            ]
    samples = [line for line in lines if line["kind"] == "sample"]
    # 0.2 * 0.5 a token: 1 - 0.1 against 1 - 0.4.
    assert [max(map(abs, line["advantages"])) for line in samples] == pytest.approx([0.15, 0.15])
    assert samples[0]["advantages"][-1] > 0 > samples[1]["advantages"][-1]


async def test_a_step_that_is_refused_after_an_update_leaves_the_weights_of_the_step_before(
    volume: Path,
) -> None:
    volume_fill(volume, "abcd")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, epochs=2)
        async with learner_open(plane, volume) as it:
            await it.train_next()
            weights, served = it.trainer.weights, len(it.engine.weights)
            broken = it.trainer.forward_backward

            async def second_fails(samples, *rest):
                if len(it.trainer.steps) == 3:
                    it.trainer.forward_backward = broken
                    raise StepRefused("the second update explodes")
                return await broken(samples, *rest)

            it.trainer.forward_backward = second_fails
            await it.train_next()
            await it.event("step_refused")
            assert it.trainer.weights == weights and it.batches.policy_version == 1
            assert len(it.engine.weights) == served


def recorded(entropies: list[float], spreads: list[float]) -> list[dict]:
    return [
        {"entropy": entropy, "answers_distinct": spread}
        for entropy, spread in zip(entropies, spreads, strict=True)
    ]


def test_a_collapse_is_told_when_it_has_lasted_three_steps_and_not_again() -> None:
    healthy, collapsed = [1.0] * 3, [0.5, 0.05, 0.05, 0.05]
    (told,) = collapse(9, recorded(healthy + collapsed, [1.0] * 7))
    assert (
        told["name"] == "entropy_collapse"
        and "0.05" in told["reason"]
        and "entropy_coef" in told["hint"]
    )
    assert collapse(10, recorded([*healthy, 0.05, 0.05, 0.05, 0.05], [1.0] * 7)) == []
    assert collapse(8, recorded([*healthy, 0.5, 0.5, 0.05, 0.05], [1.0] * 7)) == []
    (told,) = collapse(9, recorded([1.0] * 7, [1.0, 1.0, 1.0, 0.5, 0.05, 0.0, 0.05]))
    assert told["name"] == "answers_collapse" and "5% differ" in told["reason"]


def test_a_collapse_that_was_there_from_the_start_is_told_once() -> None:
    run = recorded([1.0, *[0.05] * 5], [0.0] * 6)
    told = [[event["name"] for event in collapse(step, run[:step])] for step in range(1, 7)]
    assert told == [[], [], ["answers_collapse"], ["entropy_collapse"], [], []]


FINE = {
    "entropy": 1.0,
    "groups": 4,
    "groups_skipped": 0,
    "reward_mean": 0.5,
    "truncated": 0.0,
    "grammars_lost": 0,
}


def names_told(*changes: dict) -> list[list[str]]:
    run = [FINE | change for change in changes]
    return [
        [event["name"] for event in advice(step, run[max(0, step - 4) : step])]
        for step in range(1, len(run) + 1)
    ]


def test_steps_of_mostly_level_groups_are_told_once() -> None:
    mostly, aside = {"groups_skipped": 3}, {"groups_replaced": 12}
    assert names_told({}, mostly, aside, mostly, mostly) == [[], [], [], ["little_to_learn"], []]
    assert names_told(mostly, mostly, {"groups_skipped": 2}) == [[], [], []]
    assert names_told(*[{"groups_skipped": 4}] * 4) == [
        [],
        ["reward_level"],
        ["nothing_to_learn"],
        [],
    ]


def test_answers_that_are_cut_off_are_told_and_named_in_other_advice() -> None:
    cut = {"truncated": 0.6}
    assert names_told(*[cut] * 4, {}) == [[], [], ["answers_truncated"], [], []]
    level, alone = advice(3, [FINE | cut | {"groups_skipped": 3}] * 3)
    assert (
        "max_tokens" in level["hint"]
        and "temperature" in level["hint"]
        and "60%" in alone["reason"]
    )


def test_a_lost_grammar_is_told_when_it_begins() -> None:
    assert names_told({}, {"grammars_lost": 2}, {"grammars_lost": 1}) == [[], ["grammar_lost"], []]


def test_repeated_prefixes_are_told_once_with_their_tokens() -> None:
    counts = {"tokens_repeated": 1500, "tokens_computed": 2000}
    assert names_told(counts, counts) == [["prefixes_not_shared"], []]
    assert "1,500 of the 2,000 tokens" in advice(1, [FINE | counts])[0]["reason"]
    assert names_told({"tokens_repeated": 0}) == [[]]


def test_the_steps_that_are_watched_are_the_first_and_the_last() -> None:
    assert watched_steps(9) == [1, 2, 3, 6, 7, 8, 9]
    assert watched_steps(2) == [1, 2, 3] and watched_steps(5) == [1, 2, 3, 4, 5]


async def test_a_collapse_is_reported_by_the_session(volume: Path) -> None:
    volume_fill(volume, "abcdefg")
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, tasks_per_batch=1)
        async with learner_open(plane, volume) as it:
            for step in range(1, 8):
                it.trainer.entropy = 1.0 if step < 5 else 0.01
                await it.train_next()
            assert (await it.event("entropy_collapse"))["step"] == 7
            assert json.dumps(await it.metrics(7))
