"""The whole line with every part real: server, S3, vLLM, DeepSpeed and the SDK, on a tiny model
made here.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from openai import OpenAI
from transformers import AutoModelForCausalLM, AutoTokenizer

import tinkerscript
from support import migrated_database
from support.ports import free_port
from support.tiny_model import tiny_model_make
from tinkerscript import TinkerScript, WorkflowOutput

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
GRPO_N, TASKS_PER_BATCH, TASKS = 4, 2, ["ab", "cd", "ef", "gh", "ij", "kl"]
PROMPTS = [f"Say {word}." for word in TASKS]
CAUSES = {"engine": "engine_dead", "trainer-rank-0": "trainer_failed"}


@pytest.fixture(scope="module")
def base_url_and_key(tmp_path_factory) -> Iterator[tuple[str, str, Path]]:
    """A server of its own on this machine; no process of it is left at the end."""
    data = tmp_path_factory.mktemp("data")
    migrated_database.for_server(data)
    model = tiny_model_make(tmp_path_factory.mktemp("model"))
    environment = {
        **os.environ, "TINKERSCRIPT_DATA": str(data), "TINKERSCRIPT_PORT": str(free_port()),
        "TINKERSCRIPT_MODELS": f"tiny={model}", "DJANGO_SETTINGS_MODULE": "console.settings",
    }  # fmt: skip
    server = subprocess.Popen(
        [sys.executable, "manage.py", "up"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        ready = next(line for line in server.stdout if line.startswith("ready "))
        command = [sys.executable, "manage.py", "create_api_key", "alice@example.com"]
        key = subprocess.run(
            command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        ).stdout
        yield ready.split()[1], key.strip(), data
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) == 0
        server.stdout.close()
        assert processes_naming(str(data)) == []


@pytest.mark.smoke
@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([], id="the runtime"),
        pytest.param(
            ["engine", "trainer-rank-0"],
            id="the runtime, then its parts",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_the_loop_survives_kill_9_and_the_downloaded_model_generates_as_the_session_did(
    base_url_and_key, tmp_path, parts
):
    base_url, key, data = base_url_and_key
    remote = TinkerScript(
        base_model="tiny", base_url=base_url, api_key=key, grpo_n=GRPO_N, tasks_per_batch=TASKS_PER_BATCH,
        learning_rate=1e-3, max_context_length=256, max_tokens=8, checkpoint_every_steps=1,
    )  # fmt: skip
    acknowledged = []
    for number, task in enumerate(TASKS):
        for _ in range(GRPO_N):
            episode = remote.begin_episode(task=task)
            answer = ask(episode, f"Say {task}.", temperature=1.0)
            reward = sum(letter in "aeiou" for letter in answer.lower()) / 8
            if number == 3 and len(acknowledged) % GRPO_N == GRPO_N - 1:
                # the batch is full with this episode, whose end finds no runtime
                kill_runtime(data, remote.id)
            acknowledged.append(
                remote.end_episode(WorkflowOutput(reward=reward), episode=episode).episode_id
            )
            if number == 4 and 0 < len(acknowledged) % GRPO_N <= len(parts):
                kill_part(data, remote, parts[len(acknowledged) % GRPO_N - 1])
    tuned = remote.download_tuned_model(tmp_path / "tuned", progress=False)
    accounting = remote.accounting()
    assert accounting.balances
    assert accounting.trained == len(acknowledged) == len(TASKS) * GRPO_N
    assert accounting.begun == accounting.trained
    metrics = [event.data for event in remote.events(kinds=["metric"])]
    assert [m["step"] for m in metrics] == [1, 2, 3]
    # the engine's log-probabilities are the trainer's
    assert max(abs(m["kl_engine"]) for m in metrics) < 1e-4
    moves = [(event.data["from"], event.data["to"]) for event in remote.events(kinds=["state"])]
    assert moves.count(("ready", "queued")) == 1 + len(parts)
    causes = [
        event.data["code"]
        for event in remote.events(kinds=["event"])
        if event.data["name"] == "runtime_fault"
    ]
    assert causes == [CAUSES[part] for part in parts]
    own_answers = []
    for prompt in PROMPTS:
        with remote.begin_episode(eval=True) as episode:
            own_answers.append(ask(episode, prompt, temperature=0.0))
            episode.end(0.0)
    remote.close()
    log = data / "runtimes" / remote.id / "runtime.log"
    assert "Exception ignored" not in log.read_text(), (
        "a runtime that was asked to end ends without a complaint"
    )
    assert transformers_answers(tuned.path) == own_answers
    if parts:  # nightly
        assert vllm_answers(tuned.path) == own_answers


@pytest.mark.nightly
def test_a_base_model_is_served_by_an_engine_alone(base_url_and_key):
    base_url, key, data = base_url_and_key
    with tinkerscript.serve(
        "tiny", base_url=base_url, api_key=key, max_context_length=256
    ) as served:
        assert all(ask(served, prompt, temperature=0.0) for prompt in PROMPTS)
        names = [
            file.name.split(".")[0]
            for file in (data / "runtimes" / served.id / "stacks").glob("*.process")
        ]
        assert sorted(names) == ["engine", "runtime"], "no trainer is started"


def ask(episode, prompt: str, *, temperature: float) -> str:
    with OpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
        reply = client.chat.completions.create(
            model=episode.model,
            messages=[{"role": "user", "content": prompt}],
            max_tokens=8,
            temperature=temperature,
        )
    return reply.choices[0].message.content


def kill_runtime(data: Path, session_id: str) -> None:
    """SIGKILL the runtime itself, not its children: they must go by themselves or be cleaned up."""
    named = processes_naming(str(data))
    # By its folder, since it may have been started before it had the session.
    places = {
        pid: os.readlink(f"/proc/{pid}/cwd")
        for pid, command in named
        if "-m gpu_runtime" in command
    }
    (pid,) = [pid for pid, place in places.items() if place == str(data / "runtimes" / session_id)]
    os.kill(pid, signal.SIGKILL)


def kill_part(data: Path, remote: TinkerScript, part: str) -> None:
    """SIGKILL one process of the runtime while nothing needs it, and wait until the session has
    noticed.
    """

    def restarts() -> int:
        return sum(
            event.data["from"] == "ready" != event.data["to"]
            for event in remote.events(kinds=["state"])
        )

    before, deadline = restarts(), time.monotonic() + 60
    (file,) = (data / "runtimes" / remote.id / "stacks").glob(f"{part}.*.process")
    os.kill(int(file.name.split(".")[-2]), signal.SIGKILL)
    while restarts() == before:
        assert time.monotonic() < deadline, f"no one noticed the loss of the {part}"
        time.sleep(0.1)


def transformers_answers(folder: Path) -> list[str]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    answers = []
    for prompt in PROMPTS:
        ids = render(tokenizer, prompt)
        output = model.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False)
        answers.append(tokenizer.decode(output[0, len(ids) :], skip_special_tokens=True))
    return answers


def vllm_answers(folder: Path) -> list[str]:
    command = [sys.executable, str(Path(__file__).with_name("vllm_greedy.py")), str(folder)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}"}
    ran = subprocess.run(
        command,
        input=json.dumps(PROMPTS),
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])


def render(tokenizer, prompt: str) -> list[int]:
    messages = [{"role": "user", "content": prompt}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


def processes_naming(text: str) -> list[tuple[int, str]]:
    """Live processes whose command line or environment names ``text``."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            environment = (folder / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if int(folder.name) != os.getpid() and re.search(re.escape(text), command + environment):
            found.append((int(folder.name), command))
    return found
