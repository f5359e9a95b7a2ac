"""One session whose engine is over two nodes of a real Slurm, every part real; one of its nodes is lost."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from e2e.loop_server import until
from e2e.test_nodes import GRPO_N, LOST_S, TASKS, Served, has_moved, served
from openai import OpenAI

from launching.slurm_cluster import slurm_cluster
from support.tiny_model import tiny_model_make
from tinkerscript import TinkerScript, WorkflowOutput

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(1500)]

# 0.135 GiB of weights: engine and rank take 2.5 GiB and 4 times that on one node, 3.5 times that where each node has
# a half of the engine. A node has 3 GiB.
WIDE = 94_720


@pytest.fixture
def wide_on_slurm(tmp_path: Path, embedded_s3: str) -> Iterator[Served]:
    wide = tiny_model_make(tmp_path / "wide", heads=(2, 2), intermediate=WIDE)
    variables = {"TINKERSCRIPT_LAUNCHER": "slurm", "TINKERSCRIPT_MODELS": f"wide={wide}"}
    with slurm_cluster(), served(tmp_path, embedded_s3, variables, lambda: None, []) as server:
        yield server


def test_an_engine_that_no_node_has_room_for_is_over_both_and_a_lost_one_is_named(
    wide_on_slurm: Served, tmp_path: Path
) -> None:
    """The session trains, loses the other node's part of its engine, and goes on from journal and state."""
    remote = TinkerScript(
        base_model="wide", base_url=wide_on_slurm.url, api_key=wide_on_slurm.key, trainer_ranks=2, nodes=2,
        grpo_n=GRPO_N, tasks_per_batch=1, learning_rate=1e-4, max_context_length=256, max_tokens=8,
        checkpoint_every_steps=1,
    )  # fmt: skip
    (part,) = [it for it in psutil.process_iter(["cmdline", "cwd"]) if is_part(it, tmp_path)]
    play(remote, TASKS[0])
    until(lambda: len(list(remote.events(kinds=["metric"]))) == 1, "the first step was taken", timeout_s=LOST_S)
    part.kill()
    until(lambda: has_moved(remote), "the loss of the node was noticed", timeout_s=LOST_S)
    play(remote, TASKS[1])
    remote.download_tuned_model(tmp_path / "tuned", progress=False)
    accounting = remote.accounting()
    assert accounting.balances and accounting.trained == accounting.begun == 2 * GRPO_N
    assert [event.data["step"] for event in remote.events(kinds=["metric"])] == [1, 2]
    faults = [event.data for event in remote.events(kinds=["event"]) if event.data["name"] == "runtime_fault"]
    assert [fault["code"] for fault in faults] == ["engine_dead"]
    assert "is lost: the engine's part on it was killed" in faults[0]["cause"]
    remote.close()
    until(lambda: not [it for it in psutil.process_iter(["cmdline", "cwd"]) if is_part(it, tmp_path)], "it has ended")


def play(remote: TinkerScript, task: str) -> None:
    """A group of episodes."""
    for attempt in range(GRPO_N):
        episode = remote.begin_episode(task=task)
        with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
            client.chat.completions.create(
                model=episode.model, messages=[{"role": "user", "content": f"Say {task}."}], max_tokens=8
            )
        remote.end_episode(WorkflowOutput(reward=float(attempt)), episode=episode)


def is_part(process: psutil.Process, folder: Path) -> bool:
    """Of an engine whose session is in ``folder``, on its second node: vLLM has given it a title."""
    is_second = (process.info["cmdline"] or [""])[0] == "VLLM::Worker_TP1"
    return is_second and Path(process.info["cwd"] or "/").is_relative_to(folder)
