"""A session with steps that is woken has the weights of before and the tokens and log-probabilities
of before, to the bit, every part real, and trains on.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2e.loop_server import until
from openai import OpenAI
from safetensors import safe_open

from support.ports import free_port
from support.tiny_model import tiny_model_make
from tinkerscript import TinkerScript, WorkflowOutput

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
GRPO_N, START_S = 2, 300
OPTIONS = {
    "grpo_n": GRPO_N, "tasks_per_batch": 1, "learning_rate": 1e-3, "max_context_length": 256, "max_tokens": 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[tuple[str, str]]:
    """Its address and a key; a runtime waits with its libraries."""
    environment = {
        **os.environ, "TINKERSCRIPT_DATA": str(tmp_path_factory.mktemp("data")), "TINKERSCRIPT_PORT": str(free_port()),
        "TINKERSCRIPT_MODELS": f"tiny={tiny_model_make(tmp_path_factory.mktemp('model'))}",
        "DJANGO_SETTINGS_MODULE": "console.settings",
    }  # fmt: skip
    command = [sys.executable, "manage.py", "up"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        ready = next(line for line in process.stdout if line.startswith("ready "))
        command = [sys.executable, "manage.py", "create_api_key", "alice@example.com"]
        key = subprocess.run(
            command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        ).stdout
        yield ready.split()[1], key.strip()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        process.stdout.close()


@pytest.mark.parametrize("options", [{}, {"trainer_ranks": 2}], ids=["one rank", "two ranks"])
def test_a_woken_session_goes_on_with_the_same_bits(server, tmp_path: Path, options: dict) -> None:
    base_url, key = server
    warm_wait(base_url)
    remote = TinkerScript(base_model="tiny", base_url=base_url, api_key=key, **OPTIONS, **options)
    untrained = greedy(remote)
    step_play(remote, 1)
    trained = greedy(remote)
    remote.download_tuned_model(tmp_path / "before", progress=False)
    remote.suspend()
    until(lambda: remote.status().state == "suspended", "it is suspended", timeout_s=START_S)
    warm_wait(base_url)
    assert greedy(remote) == trained != untrained
    remote.download_tuned_model(tmp_path / "after", progress=False)
    assert tensors(tmp_path / "after") == tensors(tmp_path / "before")
    step_play(remote, 2)
    assert greedy(remote) != trained
    reasons = [event.data.get("reason", "") for event in remote.events(kinds=["state"])]
    assert sum(reason.endswith(": a warm runtime") for reason in reasons) == 2
    assert [event.data["step"] for event in remote.events(kinds=["metric"])] == [1, 2]
    remote.close()


def greedy(remote: TinkerScript) -> list[tuple[str, float]]:
    """The most likely tokens, each with its log-probability."""
    with remote.begin_episode(task="greedy", eval=True) as episode:
        answer = called(episode, temperature=0.0)
        episode.end(WorkflowOutput(reward=0.0))
    return answer


def step_play(remote: TinkerScript, step: int) -> None:
    """A group of episodes, and the step that it makes."""
    for attempt in range(GRPO_N):
        with remote.begin_episode(task=f"step {step}") as episode:
            called(episode)
            episode.end(WorkflowOutput(reward=float(attempt)))
    until(
        lambda: remote.status().policy_version == step, f"step {step} was taken", timeout_s=START_S
    )


def called(episode: Any, **options: Any) -> list[tuple[str, float]]:
    with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
        reply = client.chat.completions.create(
            model=episode.model, messages=[{"role": "user", "content": "Say ab."}], max_tokens=8, logprobs=True,
            **options,
        )  # fmt: skip
    return [(token.token, token.logprob) for token in reply.choices[0].logprobs.content]


def warm_wait(base_url: str) -> None:
    """Until a runtime waits."""
    ready = 'tinkerscript_warm_runtimes{state="ready"} 1.0'
    until(
        lambda: ready in httpx.get(f"{base_url}/metrics", timeout=60).text,
        "one is warm",
        timeout_s=START_S,
    )


def tensors(folder: Path) -> dict[str, bytes]:
    with safe_open(folder / "model.safetensors", "numpy") as file:
        return {name: file.get_tensor(name).tobytes() for name in file.keys()}  # noqa: SIM118 - no mapping
