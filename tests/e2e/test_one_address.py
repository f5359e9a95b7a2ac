"""Everything that a client does, from another machine: it reaches one port of one address, and no
name or loopback.
"""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from e2e.loop_server import BASE_MODEL, ROOT, LoopServer, until
from e2e.test_snippets import NEEDS, shown

from support.another_machine import AnotherMachine, another_machine
from support.safetensors_bytes import safetensors_bytes

SHAPES = {"model.embed_tokens.weight": [5, 4], "model.norm.weight": [4]}
CONFIG = {"model_type": "llama", "hidden_size": 4, "num_hidden_layers": 0, "vocab_size": 5}


AGENT = """
def run(row, episode):
    with episode.openai() as client:
        answer = client.chat.completions.create(
            model=episode.model, max_tokens=4, messages=[{"role": "user", "content": row["q"]}])
    return float(len(answer.choices[0].message.content))
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a base model's and with its own files on their way up."""
    folder = tmp_path_factory.mktemp("there")
    for path, dtype in ((folder / "mine", "F32"), (folder / "home" / "upload", "BF16")):
        path.mkdir(parents=True)
        (path / "config.json").write_text(json.dumps(CONFIG))
        (path / "model.safetensors").write_bytes(safetensors_bytes(SHAPES, dtype=dtype))
    return folder


@pytest.fixture(scope="module")
def reached(mine: Path) -> Iterator[tuple[LoopServer, AnotherMachine]]:
    """A server and the machine that reaches it."""
    with another_machine() as other:
        server = LoopServer(mine)
        server.url = server.url.replace("127.0.0.1", other.address)
        server.environment |= {
            "TINKERSCRIPT_HOST": other.address,
            "TINKERSCRIPT_MODELS": f"mine={mine / 'mine'}",
        }
        try:
            server.start()
            yield server, other
        finally:
            server.close()


@pytest.mark.smoke
def test_a_client_on_another_machine_does_everything_through_one_address(
    reached: tuple[LoopServer, AnotherMachine], mine: Path
) -> None:
    server, other = reached
    program = str(Path(__file__).with_name("one_address.py"))
    paths = f"{ROOT}:{ROOT / 'sdk'}:{ROOT / 'tests'}"
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": paths, "HOME": str(mine)}
    command = [sys.executable, program, server.url, BASE_MODEL, str(mine / "home"), server.api_key]
    played = other.run(command, timeout_s=240, env=env)
    if played.returncode:
        pytest.fail(played.stderr)
    told = json.loads(played.stdout.splitlines()[-1])
    assert told["step"] == 1 and {"tokenizer.json", "weights.json"} <= set(told["files"])
    assert told["parts"] and told["documents"] and told["batch_bytes"]
    assert told["given"] and all(url.startswith(f"{server.url}/store/") for url in told["given"])


@pytest.mark.skipif(*NEEDS[0].args, **NEEDS[0].kwargs)
def test_a_worker_on_another_machine_plays_the_queue_by_the_line_that_a_page_shows(
    reached: tuple[LoopServer, AnotherMachine], tmp_path: Path
) -> None:
    server, other = reached
    (tmp_path / "my_agent.py").write_text(AGENT)
    (tmp_path / "tinkerscript").write_text(f'#!/bin/sh\nexec {sys.executable} -m tinkerscript "$@"')
    (tmp_path / "tinkerscript").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(ROOT / "sdk")}
    with ThreadPoolExecutor(1) as thread:
        with server.session(grpo_n=2, tasks_per_batch=50) as session:
            snippets = shown(server, session=session.id)
            line = f"cd {tmp_path}\n{snippets['server_variables']}\nexec {snippets['worker']}"
            command = ["/bin/bash", "-ec", line]
            playing = thread.submit(other.run, command, timeout_s=180, env=env)
            session.tasks.put([{"q": "rain"}, {"q": "snow"}])
            until(
                lambda: playing.done() or session.tasks.counts().done == 4, "it plays them all", 120
            )
            assert not playing.done(), playing.result().stderr
            assert session.accounting().begun == 4
        ended = playing.result()
    assert ended.returncode == 0, ended.stderr
