"""Evaluation as a part of training: a measure at each step, the best policy kept, an early end."""

import json
import logging
from collections import Counter

import pytest

from support.waiting import wait_until
from tinkerscript import InvalidRequest, WorkflowOutput
from tinkerscript.rollouts import evaluating


@pytest.fixture
def training(server, connect, monkeypatch):
    """A session that takes a step when a group of two waits; ``score`` is what eval episodes earn,
    by version.
    """
    from tinkerscript.sessions import flushing

    session = connect(grpo_n=2, tasks_per_batch=1)
    monkeypatch.setattr(flushing, "POLL_INTERVAL_S", 0.001)
    end = server.handle_end

    def handle_end(request, session_id, episode_id):
        version = server.sessions[session_id].policy_version
        server.episodes[episode_id] = server.episodes[episode_id].model_copy(
            update={"policy_version_first": version, "policy_version_last": version}
        )
        answer = end(request, session_id, episode_id)
        if sum(episode.fate == "accepted" for episode in server.episodes.values()) == 2:
            server.train()
            server.set_state(session_id, "ready", policy_version=version + 1)
            server.add_event("metric", {"step": version + 1, "loss": 0.0})
        return answer

    from sdk.rest_server import ROUTES, S

    monkeypatch.setitem(ROUTES, rf"POST {S}/episodes/(\w+)/end", lambda rest, *of: handle_end(*of))
    return session


def scored(session, *scores):
    """An agent whose eval episodes earn what the version at that time earns."""

    def agent(task, episode):
        return scores[session.status().policy_version] if task.startswith("held") else 1.0

    return agent


def recorded(server):
    events = [event.data for event in server.record if event.kind == "evaluation"]
    return [
        (event["name"], event["step"], event["reward_mean"], event["episodes"]) for event in events
    ]


def test_the_policy_is_evaluated_before_the_first_step_and_after_every_so_many(
    server, training, tmp_path
):
    agent = scored(training, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    report = training.rollouts(
        agent, ["a"], epochs=5, evaluate_every=2, eval_tasks=["held"], eval_attempts=2, workers=2,
        report_to=tmp_path / "run.jsonl",
    )  # fmt: skip
    assert recorded(server) == [
        ("eval", 0, 0.1, 2),
        ("eval", 2, 0.3, 2),
        ("eval", 4, 0.5, 2),
        ("eval", 5, 0.6, 2),
    ]
    assert [one.step for one in report.evaluations] == [0, 2, 4, 5]
    assert (report.count, report.best.step, report.best.checkpoint_id) == (10, 5, None)
    assert (
        sum(
            "eval/reward_mean" in line for line in (tmp_path / "run.jsonl").read_text().splitlines()
        )
        == 4
    )


def test_the_best_policy_is_kept_and_the_one_before_it_let_go(server, training):
    agent = scored(training, 0.1, 0.5, 0.3, 0.2)
    report = training.rollouts(
        agent, ["a"], epochs=3, evaluate_every=1, eval_tasks={"easy": ["held 1"], "hard": ["held 2"]},
        best_metric="hard/reward_mean", keep_best=True, workers=2,
    )  # fmt: skip
    assert (report.best.step, report.best.value) == (1, 0.5)
    assert {c.id for c in server.checkpoints.values() if c.pinned} == {report.best.checkpoint_id}
    assert [c.kind for c in server.checkpoints.values()] == ["model", "model"]
    assert {name for name, *_ in recorded(server)} == {"easy", "hard"}


def test_each_task_and_each_part_of_the_reward_is_measured(server, connect, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluating, "MAX_TASKS", 2)
    session, attempts = connect(), Counter()

    def agent(task, episode):
        attempts[task] += 1
        parts = {"format": 0.5, "answer": float(attempts[task] == 1)}
        return {
            "reward": sum(parts.values()),
            "reward_parts": parts,
            "metrics": {"turns": 3} if task == "a" else {},
        }

    report = session.evaluate(
        agent,
        ["c", "b", "a"],
        attempts=2,
        workers=1,
        name="held out",
        report_to=tmp_path / "run.jsonl",
    )
    assert report.by_task == {"a": 1.0, "b": 1.0, "c": 1.0}
    assert report.spread_by_task["a"] == pytest.approx(0.5**0.5)
    assert report.metrics == {"reward/format": 0.5, "reward/answer": 0.5, "turns": 3.0}
    (event,) = [event.data for event in server.record if event.kind == "evaluation"]
    assert list(event["by_task"]) == ["a", "b"], (
        "the first by name, so that they are the same at each step"
    )
    assert event["by_task"]["a"] == {
        "reward_mean": 1.0,
        "reward_std": pytest.approx(0.5**0.5),
        "episodes": 2,
    }
    assert event["metrics"] == report.metrics
    assert json.loads((tmp_path / "run.jsonl").read_text())["eval/held out/reward/answer"] == 0.5


def test_patience_ends_it_when_nothing_gets_better(server, training, caplog):
    agent = scored(training, 0.1, 0.5, 0.4, 0.5, 0.9)
    with caplog.at_level(logging.WARNING):
        report = training.rollouts(
            agent, ["a"], epochs=4, evaluate_every=1, eval_tasks=["held"], patience=2, workers=2
        )
    assert (report.stopped_early, report.best.step, len(report.evaluations)) == (True, 1, 4)
    assert report.count == 6, "no attempt after the end"
    assert (
        "No better reward_mean in 2 evaluations (best: 0.500 at step 1): stopped early."
        in caplog.text
    )


def test_failed_evaluations_are_named_and_are_no_measure(server, training, caplog):
    def agent(task, episode):
        if task == "held":
            raise ValueError("down")
        return 1.0

    with caplog.at_level(logging.WARNING):
        report = training.rollouts(agent, ["a"], evaluate_every=1, eval_tasks=["held"], workers=2)
    assert (report.best, recorded(server)) == (None, [])
    assert "Nothing was measured of 'eval' at step" in caplog.text


def test_a_measure_that_the_agent_does_not_give_is_said_before_training(server, training):
    with pytest.raises(InvalidRequest, match="success_rate was not measured"):
        training.rollouts(
            lambda task, episode: 1.0,
            ["a"],
            evaluate_every=1,
            eval_tasks=["held"],
            best_metric="success_rate",
        )
    assert {episode.task for episode in server.episodes.values()} == {"held"}


def test_evaluate_alone_is_recorded_with_its_spread_and_an_old_server_costs_a_line(
    server, connect, caplog
):
    session = connect()
    outputs = {
        "a": WorkflowOutput(reward=1.0, is_success=True),
        "b": WorkflowOutput(reward=0.0, is_success=False),
    }
    session.evaluate(lambda task, episode: outputs[task], ["a", "b"], name="first")
    (event,) = [event.data for event in server.record if event.kind == "evaluation"]
    assert (event["name"], event["success_rate"], event["reward_std"]) == (
        "first",
        0.5,
        pytest.approx(0.5**0.5),
    )
    assert event["by_task"]["b"] == {"reward_mean": 0.0, "reward_std": None, "episodes": 1}
    from sdk.http_parts import error

    server.fail("POST .*/evaluations", answer=error(404, "not_found", "no such route"))
    assert session.evaluate(lambda task, episode: 1.0, ["a"]).count == 1
    assert "is not in the session's record: no such route" in caplog.text
    wait_until(lambda: len(server.seen("POST .*/evaluations")) == 2, 25)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"eval_tasks": ["x"]}, "eval_tasks needs evaluate_every"),
        ({"patience": 2}, "patience needs evaluate_every"),
        ({"keep_best": True}, "keep_best needs evaluate_every"),
        (
            {"evaluate_every": 0, "eval_tasks": ["x"]},
            "evaluate_every must be a whole number, 1 or more",
        ),
        ({"evaluate_every": 1}, "eval_tasks must be a list of tasks, not NoneType"),
        ({"evaluate_every": 1, "eval_tasks": "abc"}, "eval_tasks must be a list of tasks, not str"),
        ({"evaluate_every": 1, "eval_tasks": []}, "There are no tasks to evaluate in 'eval'"),
        (
            {"evaluate_every": 1, "eval_tasks": {"a/b": ["x"]}},
            "eval_tasks must be .* a dict from names",
        ),
        ({"evaluate_every": 1, "eval_tasks": ["x"], "patience": 0}, "patience must be"),
        ({"evaluate_every": 1, "eval_tasks": ["x"], "eval_attempts": 0}, "eval_attempts must be"),
        (
            {"evaluate_every": 1, "eval_tasks": ["x"], "best_metric": "loss"},
            "best_metric must be one of reward_mean",
        ),
        (
            {"evaluate_every": 1, "eval_tasks": ["x"], "keep_best": "yes"},
            "keep_best must be True or False",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_an_episode_begins(server, connect, options, words):
    with pytest.raises(InvalidRequest, match=words):
        connect(tasks_per_batch=1).rollouts(lambda task, episode: 1.0, ["a"], **options)
    assert server.episodes == {}
