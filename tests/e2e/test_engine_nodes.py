"""One session whose engine is over two nodes of a real Slurm, every part real; one of its nodes is
lost.
"""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from e2e.loop_server import until
from e2e.test_nodes import GRPO_N, TASKS, Served, ready_again, served
from openai import OpenAI

from launching.slurm_cluster import slurm_cluster
from support.tiny_model import tiny_model_make
from tinkerscript import TinkerScript, WorkflowOutput

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(1500)]

# With adapters engine and rank take 2.5 GiB and 3 times the weights of 1.23 GiB on one node; where
# each has a half of the engine, the first takes 3.1 GiB and 1.5 times the weights. A node has 6
# GiB.
LARGE, NODE_GIB = {"hidden": 1024, "intermediate": 8192, "layers": 13}, "6"
OPTIONS = {
    "trainer_ranks": 2, "nodes": 2, "lora_rank": 4, "grpo_n": GRPO_N, "tasks_per_batch": 1, "learning_rate": 1e-3,
    "max_context_length": 256, "max_tokens": 8, "checkpoint_every_steps": 1,
}  # fmt: skip
STEP_S, AGAIN_S = 240, 600


@pytest.fixture
def large_on_slurm(tmp_path: Path, embedded_s3: str) -> Iterator[Served]:
    large = tiny_model_make(tmp_path / "large", heads=(2, 2), **LARGE)
    variables = {
        "TINKERSCRIPT_LAUNCHER": "slurm", "TINKERSCRIPT_MODELS": f"large={large}",
        "TINKERSCRIPT_RUNTIME_MEMORY_GIB": NODE_GIB,
    }  # fmt: skip
    with slurm_cluster(), served(tmp_path, embedded_s3, variables, lambda: None, []) as server:
        yield server


def test_an_engine_that_no_node_has_room_for_is_over_both_and_a_lost_one_is_named(
    large_on_slurm: Served, tmp_path: Path
) -> None:
    """The session trains, loses the other node's part of its engine, and goes on from journal and
    state.
    """
    remote = TinkerScript(
        base_model="large", base_url=large_on_slurm.url, api_key=large_on_slurm.key, **OPTIONS
    )
    (part,) = [it for it in psutil.process_iter(["cmdline", "cwd"]) if is_part(it, tmp_path)]
    play(remote, TASKS[0])
    until(
        lambda: len(list(remote.events(kinds=["metric"]))) == 1,
        "the first step was taken",
        timeout_s=STEP_S,
    )
    part.kill()
    ready_again(remote, again_s=AGAIN_S)
    play(remote, TASKS[1])
    remote.download_tuned_model(tmp_path / "tuned", progress=False)
    accounting = remote.accounting()
    assert accounting.balances and accounting.trained == accounting.begun == 2 * GRPO_N
    assert [event.data["step"] for event in remote.events(kinds=["metric"])] == [1, 2]
    faults = [
        event.data
        for event in remote.events(kinds=["event"])
        if event.data["name"] == "runtime_fault"
    ]
    assert [fault["code"] for fault in faults] == ["engine_dead"]
    assert "is lost: the engine's part on it was killed" in faults[0]["cause"]
    remote.close()
    until(
        lambda: not [it for it in psutil.process_iter(["cmdline", "cwd"]) if is_part(it, tmp_path)],
        "it has ended",
    )


def play(remote: TinkerScript, task: str) -> None:
    """A group of episodes."""
    for attempt in range(GRPO_N):
        episode = remote.begin_episode(task=task)
        with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
            client.chat.completions.create(
                model=episode.model,
                messages=[{"role": "user", "content": f"Say {task}."}],
                max_tokens=8,
            )
        remote.end_episode(WorkflowOutput(reward=float(attempt)), episode=episode)


def is_part(process: psutil.Process, folder: Path) -> bool:
    """Of an engine whose session is in ``folder``, on its second node: vLLM has given it a
    title.
    """
    is_second = (process.info["cmdline"] or [""])[0] == "VLLM::Worker_TP1"
    return is_second and Path(process.info["cwd"] or "/").is_relative_to(folder)
