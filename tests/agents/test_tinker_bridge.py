"""The Tinker bridge of Agent-lightning 0.3.0, unmodified, against a whole server whose engine and
trainer are fakes.

It is a folder of their repository, not a part of the package. ``TEST_TINKER_BRIDGE=FOLDER:PYTHON``
names ``examples/tinker`` at tag v0.3.0 and the interpreter of an environment with the versions of
sdk/examples/agent_lightning/tinker-bridge.txt; its programs listen on the ports that they name.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from e2e.loop_server import LoopServer, until

from support.tiny_tokenizers import build_tokenizer

VARIABLE = "TEST_TINKER_BRIDGE"
FOLDER, _, PYTHON = os.environ.get(VARIABLE, "").rpartition(os.pathsep)
MODELS = (
    "Qwen/Qwen3-30B-A3B-Instruct-2507",
    "Qwen/Qwen3-4B-Instruct-2507",
    "gpt-5-mini",
    "gpt-4.1",
)
CONTEXT = 16_384
PROGRAM_S = 600.0
STORE = "http://127.0.0.1:4747"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not FOLDER, reason=f"{VARIABLE}=FOLDER:PYTHON names no bridge"),
]


class BridgeServer(LoopServer):
    """It knows the base models that the bridge and its answerer name."""

    runtime = "runtime_for_bridge.py"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        model = build_tokenizer(folder / "model")
        (model / "config.json").write_text(json.dumps({"max_position_embeddings": CONTEXT}))
        # its helper models beside the one that it trains
        self.environment["TINKERSCRIPT_MAX_RUNTIMES"] = "8"
        self.environment["TINKERSCRIPT_MODELS"] = ",".join(f"{name}={model}" for name in MODELS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeServer]:
    made = BridgeServer(tmp_path_factory.mktemp("bridge"))
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def bridge(tmp_path: Path) -> Path:
    """A copy of its folder, with the tokenizers of its models in the place of the hub's."""
    copy = shutil.copytree(FOLDER, tmp_path / "tinker")
    for name in MODELS[:2]:
        tokenizer = build_tokenizer(copy / name)
        told = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
        }
        # its transformers is older than ours
        (tokenizer / "tokenizer_config.json").write_text(json.dumps(told))
    return copy


def environment_of(server: LoopServer, home: Path) -> dict[str, str]:
    """Its own variables; no other host is asked for anything."""
    return {
        "PATH": f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(home), "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(home), "TINKER_BASE_URL": server.url, "TINKER_API_KEY": server.api_key,
        "OPENAI_BASE_URL": f"{server.url}/oai/api/v1", "OPENAI_API_KEY": server.api_key, "ANSWERER_LLM": "gpt-5-mini",
        # its own proxy has the address of this machine, by HTTP
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "TINKER_TELEMETRY": "0", "CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false",
    }  # fmt: skip


def run(server: LoopServer, bridge: Path, *command: str) -> str:
    """One of its programs to its end; what it printed. Fails unless it ended well; nothing that it
    started is left.
    """
    with running(server, bridge, "program", PYTHON, *command) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PROGRAM_S)
        said = (bridge / "program.log").read_text()
        assert process.returncode == 0, said[-6000:]
    return said


@contextmanager
def running(
    server: LoopServer, bridge: Path, name: str, *command: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A program, and what it started, while the block runs; its output goes to ``name``.log."""
    with (bridge / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=bridge, env=environment_of(server, bridge), stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


@contextmanager
def store_running(server: LoopServer, bridge: Path) -> Iterator[None]:
    def serves() -> bool:
        try:
            return httpx.get(f"{STORE}/v1/agl/health", timeout=5).status_code == 200
        except httpx.TransportError:
            time.sleep(0.5)
            return False

    with running(
        server, bridge, "store", str(Path(PYTHON).with_name("agl")), "store", "--port", "4747"
    ):
        until(serves, "its store serves", 120)
        yield


def steps_of(bridge: Path, run_name: str) -> list[dict[str, float]]:
    """The metrics of its steps: every rollout ended well and has tokens, and the trainer has the
    sampler's scores.
    """
    steps = [
        json.loads(line)
        for line in (bridge / "logs" / run_name / "metrics.jsonl").read_text().splitlines()
    ]
    for step in steps:
        assert (
            step["env/all/by_group/frac_status_succeeded"] == 1.0
            and step["env/all/by_group/frac_empty_traj"] == 0.0
        )
        assert abs(step["optim/kl_sample_train_v1"]) < 1e-6
    return steps


def test_hello_trains_by_one_command(server: BridgeServer, bridge: Path) -> None:
    run(server, bridge, "hello.py", "oneclick", "--ci")
    steps = steps_of(bridge, "hello")
    # Every request has the seed 42; samples of one prompt differ all the same.
    assert len(steps) == 4 and max(step["env/all/by_group/frac_mixed"] for step in steps) > 0
    assert "tinker://" in (bridge / "logs" / "hello" / "checkpoints.jsonl").read_text()


def test_the_dry_run_of_twenty_questions_plays_its_games(
    server: BridgeServer, bridge: Path
) -> None:
    said = run(server, bridge, "q20_train.py", "dryrun")
    assert (
        said.count("The flow has reached the finished state.") == 4
        and "Response Format Error" not in said
    )


def test_twenty_questions_is_trained_by_three_processes(server: BridgeServer, bridge: Path) -> None:
    with (
        store_running(server, bridge),
        running(server, bridge, "runner", PYTHON, "q20_train.py", "runner"),
    ):
        run(server, bridge, "q20_train.py", "algo", "--ci")
    assert len(steps_of(bridge, "q20_no_search_qwen30b")) == 1
    played = (bridge / "runner.log").read_text()
    assert "Error in q20_agent" not in played and "Response Format Error" not in played


def test_hello_trains_with_a_store_and_runners_of_their_own(
    server: BridgeServer, bridge: Path
) -> None:
    """It has no short form of this one: the processes are ended after two of its 31 steps."""
    metrics = bridge / "logs" / "hello" / "metrics.jsonl"
    with (
        store_running(server, bridge),
        running(server, bridge, "runner", PYTHON, "hello.py", "runner"),
        running(server, bridge, "algo", PYTHON, "hello.py", "algo"),
    ):
        until(lambda: metrics.exists() and metrics.read_text().count("\n") >= 2, "two steps", 600)
    assert len(steps_of(bridge, "hello")) >= 2


@pytest.mark.parametrize("options", [[], ["--search"]], ids=["alone", "search"])
def test_its_evaluation_plays_and_solves_games(
    server: BridgeServer, bridge: Path, options: list[str]
) -> None:
    run(server, bridge, "q20_evaluate.py", "--ci", *options)
    games = [
        json.loads(line)
        for line in (bridge / "logs/twenty_questions_results.jsonl").read_text().splitlines()
    ]
    assert len(games) == 5 and any(game["correct"] for game in games)


@pytest.mark.parametrize("variant", ["tracer-text", "tracer-tool", "llm-proxy"])
def test_its_tests_of_the_provider_pass(server: BridgeServer, bridge: Path, variant: str) -> None:
    said = run(server, bridge, "tests/test_tinker_llm.py", variant)
    assert "spans" in said
