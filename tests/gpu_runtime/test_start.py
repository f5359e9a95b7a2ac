"""A runtime registers before it loads the libraries that take their time, and says so while they
load.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.fake_control_plane import LEASE, FakeControlPlane
from support.waiting import eventually

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "vllm", "deepspeed", "transformers")


def test_nothing_that_is_slow_to_load_is_loaded_before_the_registration() -> None:
    program = f"import sys, gpu_runtime.__main__; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "[]"


async def test_a_runtime_whose_libraries_load_for_long_is_registered_and_heard_meanwhile(
    plane: FakeControlPlane, tmp_path: Path
) -> None:
    (tmp_path / "slow").mkdir()
    for name in HEAVY:
        begun = f"open(os.path.join({str(tmp_path)!r}, f'import.{{os.getpid()}}'), 'w')"
        (tmp_path / "slow" / f"{name}.py").write_text(
            f"import os, time; {begun}; time.sleep(120)\n"
        )
    (tmp_path / "volume").mkdir()
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "slow"), str(ROOT), str(ROOT / "sdk")]),
        "TINKERSCRIPT_SERVER_URL": plane.url,
        "TINKERSCRIPT_LEASE": LEASE,
        "TINKERSCRIPT_RUNTIME_DIR": str(tmp_path / "volume"),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "gpu_runtime"], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        beats = "/v1/runtime/heartbeat"
        await eventually(lambda: len(plane.bodies(beats)) >= 3, timeout_s=60)
        last = plane.bodies(beats)[-1]
        assert last["state"] == "loading" and last["phase"].startswith("loading the ")
        assert process.poll() is None
        # Its own libraries, and beside it the engine's and the trainer's, in the process that both
        # are forked from.
        await eventually(lambda: len(list(tmp_path.glob("import.*"))) == 2, timeout_s=60)
    finally:
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait, 20)


async def test_one_that_waits_with_its_libraries_becomes_a_sessions_at_once_and_is_heard_while_they_load(
    plane: FakeControlPlane, tmp_path: Path
) -> None:
    (tmp_path / "slow").mkdir()
    for name in HEAVY:
        (tmp_path / "slow" / f"{name}.py").write_text("import time; time.sleep(120)\n")
    for folder in ("waits", "volume"):
        (tmp_path / folder).mkdir()
    ours, theirs = socket.socketpair()
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "slow"), str(ROOT), str(ROOT / "sdk")]),
        "TINKERSCRIPT_RUNTIME_DIR": str(tmp_path / "waits"),
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "gpu_runtime", "--wait"], env=environment, stdin=theirs, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    theirs.close()
    said = ours.makefile("rb")
    try:
        assert await asyncio.to_thread(said.readline) == b'{"state": "ready"}\n'
        own = {
            "TINKERSCRIPT_SERVER_URL": plane.url, "TINKERSCRIPT_LEASE": LEASE,
            "TINKERSCRIPT_RUNTIME_DIR": str(tmp_path / "volume"),
        }  # fmt: skip
        ours.sendall(
            json.dumps({"folder": str(tmp_path / "volume"), "environment": own}).encode() + b"\n"
        )
        assert await asyncio.to_thread(said.readline) == b'{"state": "taken"}\n'
        beats = "/v1/runtime/heartbeat"
        await eventually(lambda: len(plane.bodies(beats)) >= 3, timeout_s=60)
        last = plane.bodies(beats)[-1]
        assert last["state"] == "loading" and last["phase"].startswith("loading the ")
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.wait, 20)
        said.close()
        ours.close()


def test_what_torch_compiles_lies_in_the_sessions_folder_where_no_other_of_its_users_is_named(
    tmp_path: Path,
) -> None:
    name = "TORCHINDUCTOR_CACHE_DIR"
    program = f"import os, gpu_runtime.__main__ as runtime; runtime.process_begin(); print(os.environ[{name!r}])"
    environment = os.environ | {"TINKERSCRIPT_RUNTIME_DIR": str(tmp_path)}
    environment.pop(name, None)
    started = [sys.executable, "-c", program]
    given, everybodys = f"{tmp_path}/given", tmp_path / "everybody's"
    everybodys.mkdir()
    everybodys.chmod(0o1777)
    for named, wanted in (
        ("", f"{tmp_path}/compiled"),
        (given, given),
        (str(everybodys), f"{tmp_path}/compiled"),
    ):
        found = subprocess.run(
            started, env=environment | {name: named}, capture_output=True, text=True, timeout=60
        )
        assert found.stdout.strip() == wanted, found.stderr
    assert "others may write to" in found.stderr
