"""The unmodified ``tinker`` client with every part real: server, S3, vLLM with adapters, the
trainer of many models.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.test_real_loop import ROOT, processes_naming

from support import migrated_database
from support.ports import free_port
from support.tinker_exit import ended_well
from support.tiny_model import tiny_model_make

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A server of its own; the environment of its client."""
    data = tmp_path_factory.mktemp("data")
    migrated_database.for_server(data)
    model = tiny_model_make(tmp_path_factory.mktemp("models") / "tiny")
    environment = {
        **os.environ, "TINKERSCRIPT_DATA": str(data), "TINKERSCRIPT_PORT": str(free_port()),
        "TINKERSCRIPT_MODELS": f"tiny={model}", "DJANGO_SETTINGS_MODULE": "console.settings",
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "manage.py", "up"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        ready = next(line for line in process.stdout if line.startswith("ready "))
        command = [sys.executable, "manage.py", "create_api_key", "alice@example.com"]
        key = subprocess.run(
            command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        ).stdout
        clean = {
            name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")
        }
        yield clean | {
            "TINKER_BASE_URL": ready.split()[1],
            "TINKER_API_KEY": key.strip(),
            "TINKER_TELEMETRY": "0",
        }
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        process.stdout.close()
        assert processes_naming(str(data)) == []


def test_a_tinker_program_trains_a_model_and_samples_from_it(server: dict[str, str]) -> None:
    program = str(Path(__file__).with_name("tinker_program.py"))
    done = subprocess.run(
        [sys.executable, program, "tiny"],
        env=server,
        capture_output=True,
        text=True,
        timeout=600,
        cwd="/",
    )
    assert ended_well(done.returncode, done.stderr), done.stderr[-6000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["losses"][0] > said["losses"][1] > said["losses"][2]
    assert said["same"], "a model that goes on from a state is what was saved, to the bit"
    assert said["mistake"][0] == "user" and said["at_places"][0], (
        "named tokens are scored as the prompt is"
    )
    # One seed in every request, and every answer its own; the snapshot and the saved one differ
    # from the base.
    assert len({str(said[name]) for name in ("samples", "base_samples", "named_samples")}) == 3
