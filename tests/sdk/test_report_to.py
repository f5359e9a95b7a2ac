"""``report_to``: the metrics of steps and evaluations reach a file or a tracker, each step once."""

import json
import logging
import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest

from tinkerscript import InvalidRequest
from tinkerscript.rollouts import step_log

STEP = {"reward_mean": 0.5, "loss": -0.1, "kl_before": None, "grad_norm": float("nan")}


def trains(server, *steps):
    """An agent in whose first attempts the session does these steps."""
    left = list(steps)

    def agent(task, episode):
        if left:
            server.add_event("metric", {"step": left.pop(0), **STEP})
        return 1.0

    return agent


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_step_and_evaluation_is_a_line_of_a_file_once(server, connect, tmp_path):
    session, path = connect(grpo_n=2, tasks_per_batch=9), tmp_path / "run.jsonl"
    server.add_event("metric", {"step": 1, **STEP})
    server.set_state(session.id, "ready", policy_version=1)
    session.rollouts(trains(server, 2, 3), ["a"], report_to=path)
    session.evaluate(lambda task, episode: float(task), ["1", "0"], report_to=str(path))
    session.rollouts(trains(server, 4), ["a"], report_to=[path])
    logged = lines(path)
    assert [line["step"] for line in logged] == [2, 3, 1, 4], (
        "the step before the first call is not this program's"
    )
    assert {name for name in logged[0] if "/" in name} == {"train/reward_mean", "train/loss"}, (
        "numbers alone"
    )
    measured = {
        name: logged[2][name] for name in ("eval/reward_mean", "eval/attempts", "eval/failed")
    }
    assert measured == {"eval/reward_mean": 0.5, "eval/attempts": 2.0, "eval/failed": 0.0}


def test_jsonl_alone_names_the_file_by_the_session(server, connect, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = connect(grpo_n=2, tasks_per_batch=9)
    session.rollouts(trains(server, 1), ["a"], report_to="jsonl")
    assert [line["step"] for line in lines(tmp_path / f"{session.id}.jsonl")] == [1]


@pytest.mark.parametrize(
    ("report_to", "words"),
    [
        (
            "wandbb",
            "report_to must be jsonl, wandb, mlflow, tensorboard, none, the path of a .jsonl file",
        ),
        (["jsonl", 3], "report_to must be .*not int"),
        (7, "report_to must be"),
        (["none", "jsonl"], "report_to must be"),
        ("no/such/folder/run.jsonl", "there is no folder no/such/folder"),
        ("wandb", "needs wandb, which is not installed .*pip install wandb"),
        ("mlflow", "needs mlflow, which is not installed .*pip install mlflow"),
        ("tensorboard", "needs tensorboardX, which is not installed .*pip install tensorboardX"),
    ],
)
def test_an_unknown_or_missing_tracker_is_named_before_an_episode_begins(
    server, connect, monkeypatch, report_to, words
):
    for package in ("wandb", "mlflow", "torch.utils.tensorboard", "tensorboardX"):
        monkeypatch.setitem(sys.modules, package, None)
    session = connect(tasks_per_batch=1)
    for run in (session.rollouts, session.evaluate):
        with pytest.raises(InvalidRequest, match=words):
            run(lambda task, episode: 1.0, ["a"], report_to=report_to)
    assert server.episodes == {}


def test_none_reports_to_nothing_as_in_transformers(server, connect, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    session = connect(grpo_n=2, tasks_per_batch=9)
    session.rollouts(trains(server, 1), ["a"], report_to="none")
    session.rollouts(trains(server, 2), ["b"], report_to=["none"])
    session.evaluate(lambda task, episode: 1.0, ["c"], report_to=[])
    assert not list(tmp_path.iterdir())


@pytest.fixture
def tracked(monkeypatch):
    """The three packages with the calls that are used of them, which note what they are told."""
    told = []
    run = SimpleNamespace(
        define_metric=lambda name, step_metric: told.append(("axis", name, step_metric)),
        log=lambda values: told.append(("wandb", values["step"], values["train/loss"])),
    )
    wandb, mlflow, board = ModuleType("wandb"), ModuleType("mlflow"), ModuleType("tensorboardX")
    wandb.run, wandb.init = (
        None,
        lambda **options: told.append(("init", options["id"], options["project"])) or run,
    )
    mlflow.active_run = lambda: None
    started = SimpleNamespace(info=SimpleNamespace(run_id="run 1"))
    mlflow.start_run = lambda run_name: told.append(("start", run_name)) or started
    mlflow.log_params = lambda options: told.append(("grpo_n", options["grpo_n"]))
    mlflow.log_metrics = lambda values, step, run_id: told.append(
        ("mlflow", step, values["train/loss"], run_id)
    )
    board.SummaryWriter = lambda logdir: SimpleNamespace(
        add_scalar=lambda name, value, step: told.append((name, step, value)),
        flush=lambda: None,
        close=lambda: told.append(("closed", logdir)),
    )
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    for module in (wandb, mlflow, board):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    return told


def test_every_tracker_gets_the_steps_of_one_run(server, connect, tracked):
    session = connect(grpo_n=2, tasks_per_batch=9, name="mine")
    session.rollouts(trains(server, 1), ["a"], report_to=["wandb", "mlflow", "tensorboard"])
    assert ("init", session.id, "tinkerscript") in tracked and (
        "axis",
        "train/*",
        "step",
    ) in tracked
    assert ("start", "mine") in tracked and ("grpo_n", 2) in tracked
    assert {entry for entry in tracked if -0.1 in entry} == {
        ("wandb", 1, -0.1), ("mlflow", 1, -0.1, "run 1"), ("train/loss", 1, -0.1),
    }  # fmt: skip
    assert tracked.index(("closed", f"runs/{session.id}")) > tracked.index(("train/loss", 1, -0.1))


def test_tensorboard_is_written_by_pytorch_where_it_can(server, connect, tracked, monkeypatch):
    torch = ModuleType("torch.utils.tensorboard")
    torch.SummaryWriter = sys.modules["tensorboardX"].SummaryWriter
    monkeypatch.setitem(sys.modules, torch.__name__, torch)
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    for package in ("torch", "torch.utils"):
        monkeypatch.setitem(sys.modules, package, sys.modules.get(package) or ModuleType(package))
    connect(grpo_n=2, tasks_per_batch=9).rollouts(trains(server, 1), ["a"], report_to="tensorboard")
    assert ("train/loss", 1, -0.1) in tracked


def test_a_tracker_that_fails_is_named_and_costs_no_training(
    server, connect, tracked, caplog, tmp_path
):
    def broken(**_):
        raise OSError("no route")

    sys.modules["mlflow"].log_metrics = lambda values, step, run_id: broken()
    session, path = connect(grpo_n=2, tasks_per_batch=9), tmp_path / "run.jsonl"
    with caplog.at_level(logging.WARNING):
        report = session.rollouts(trains(server, 1, 2), ["a"], report_to=["mlflow", path])
    assert report.count == 2
    assert [line["step"] for line in lines(path)] == [1, 2]
    assert (
        caplog.text.count(
            "report_to='mlflow' failed at step 1 and is left out: OSError('no route')"
        )
        == 1
    )


@pytest.mark.parametrize("where", ["log_metrics", "close"])
def test_a_tracker_that_hangs_is_named_and_the_others_get_every_step(
    server, connect, tracked, caplog, tmp_path, monkeypatch, where
):
    monkeypatch.setattr(step_log, "END_WAIT_S", 2.0)
    over = threading.Event()
    if where == "close":
        sys.modules["tensorboardX"].SummaryWriter = lambda logdir: SimpleNamespace(
            add_scalar=lambda name, value, step: None,
            flush=lambda: None,
            close=lambda: over.wait(120),
        )
    else:
        sys.modules["mlflow"].log_metrics = lambda values, step, run_id: over.wait(120)
    hanging = "mlflow" if where == "log_metrics" else "tensorboard"
    session, path = connect(grpo_n=2, tasks_per_batch=9), tmp_path / "run.jsonl"
    with caplog.at_level(logging.WARNING):
        report = session.rollouts(trains(server, 1, 2), ["a"], report_to=[hanging, path])
        session.evaluate(lambda task, episode: 1.0, ["b"], report_to=[hanging, path])
    assert not over.is_set()
    over.set()
    assert report.count == 2
    assert [line["step"] for line in lines(path)][:2] == [1, 2]
    assert f"report_to='{hanging}' hangs at step" in caplog.text
