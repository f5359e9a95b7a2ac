"""What vLLM's processes are given: a private folder for sockets, which goes with them, and no
compiler on a CPU.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_runtime.engine import sockets
from gpu_runtime.engine.sockets import LOCK, MAX_PATH, NAME_LENGTH, PREFIX, sockets_folder
from gpu_runtime.engine.vllm_process import child_variables, how_ended
from gpu_runtime.errors import RuntimeFault
from support.another_user import NOBODY, require_root

PROGRAM = """
import os, socket, sys, uuid
from gpu_runtime.engine.vllm_process import environment_set
environment_set("cpu")
environment_set("cpu")  # a sampler beside an engine: one folder for both
path = f"{os.environ['VLLM_RPC_BASE_PATH']}/{uuid.uuid4()}"  # as vLLM names it
socket.socket(socket.AF_UNIX).bind(path)
print(path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short path: the folders of a test are too deep for a socket."""
    short = Path(f"/dev/shm/ts-test-{os.getpid()}")
    short.mkdir()
    monkeypatch.setenv("TMPDIR", str(short))
    monkeypatch.delenv("VLLM_RPC_BASE_PATH", raising=False)
    yield short
    for left in sorted(short.rglob("*"), reverse=True):
        left.rmdir() if left.is_dir() else left.unlink()
    short.rmdir()


def started() -> tuple[subprocess.Popen[str], Path]:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path.cwd(),
    )
    assert program.stdout is not None
    return program, Path(program.stdout.readline().strip())


@pytest.mark.system
def test_the_sockets_of_a_process_go_with_it(place: Path) -> None:
    program, path = started()
    assert path.is_socket() and path.parent.parent == place
    assert path.parent.stat().st_mode & 0o777 == 0o700, "of this user alone"
    assert [folder.name for folder in place.iterdir()] == [path.parent.name]
    program.communicate(timeout=60)
    assert program.returncode == 0
    assert list(place.iterdir()) == []


@pytest.mark.system
def test_what_a_killed_process_left_goes_with_the_next_start_and_what_lives_stays(
    place: Path,
) -> None:
    killed, of_killed = started()
    lives, of_living = started()
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=60)
    assert of_killed.is_socket()
    third, of_third = started()
    assert not of_killed.parent.exists()
    assert of_living.is_socket() and of_third.is_socket()
    for program in (lives, third):
        program.communicate(timeout=60)
    assert list(place.iterdir()) == []


def test_a_folder_that_is_not_locked_yet_is_left(place: Path) -> None:
    new = place / f"{PREFIX}new"
    new.mkdir()
    sockets_folder([place])
    assert new.is_dir() and not (new / LOCK).exists()


def test_folders_of_engines_that_start_at_once_are_not_taken_for_left_ones(
    place: Path, monkeypatch
) -> None:
    locked = sockets._locked  # noqa: SLF001 - between a folder and its lock is where another start may look

    def look_and_lock(folder: Path) -> int:
        monkeypatch.setattr(sockets, "_locked", locked)
        (folder / LOCK).touch()
        sockets_folder([place])
        return locked(folder)

    monkeypatch.setattr(sockets, "_locked", look_and_lock)
    folder = sockets_folder([place])
    assert (folder / LOCK).is_file() and len(list(place.glob(f"{PREFIX}*"))) == 2


def test_another_users_folder_is_neither_opened_nor_removed(place: Path, tmp_path: Path) -> None:
    """Its lock may be a link to any file of ours, which would be locked, and made where it is not
    there.
    """
    require_root()
    (tmp_path / "ours").touch(mode=0o600)
    others = place / f"{PREFIX}others"
    others.mkdir()
    (others / LOCK).symlink_to(tmp_path / "ours")
    os.chown(others, NOBODY, NOBODY)
    (place / f"{PREFIX}link").symlink_to(others)
    folder = sockets_folder([place])
    assert {path.name for path in place.iterdir()} == {others.name, f"{PREFIX}link", folder.name}
    assert (others / LOCK).is_symlink()


def test_a_path_that_is_too_long_for_a_socket_is_passed_over(place: Path, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 60)
    deep.mkdir()
    folder = sockets_folder([deep, place])
    assert folder.parent == place
    longest = str(folder / ("u" * (NAME_LENGTH - 1)))
    assert len(longest) <= MAX_PATH
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(longest)
    with pytest.raises(RuntimeFault, match="set TMPDIR to a short path"):
        sockets_folder([deep])


@pytest.mark.system
def test_an_operators_own_folder_is_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_RPC_BASE_PATH", str(place))
    program, path = started()
    program.communicate(timeout=60)
    assert path.parent == place
    assert [each.name for each in place.iterdir()] == [path.name]


@pytest.mark.system
def test_what_is_to_be_compiled_is_computed_as_it_is_on_a_cpu() -> None:
    """The first call of an engine's process does not wait for a compiler."""
    program = (
        "import torch; torch.compile(lambda x: x + 1, backend=lambda *_: 1 / 0)(torch.ones(1))"
    )
    environment = os.environ | child_variables("cpu", ())
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[-1000:]


def test_an_engine_on_devices_sees_its_own_and_multiplies_float32_as_the_trainer_does() -> None:
    assert child_variables("cuda", ("1", "0")) == {
        "CUDA_VISIBLE_DEVICES": "1,0",
        "TRITON_F32_DEFAULT": "ieee",
    }
    assert "CUDA_VISIBLE_DEVICES" not in child_variables("cuda", ()), "what its parent sees"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-signal.SIGKILL, "was killed"),
        (-signal.SIGSEGV, "was ended by SIGSEGV"),
        (-64, "was ended by SIGRTMAX"),
        (1, "ended with exit code 1 (the runtime's log says why)"),
        (None, "failed (the runtime's log says why)"),
    ],
)
def test_how_a_core_ended_is_said_once_vllm_has_read_it(code: int | None, words: str) -> None:
    read = threading.Event()
    manager = SimpleNamespace(manager_stopped=read, processes=[SimpleNamespace(exitcode=code)])
    llm = SimpleNamespace(
        engine_core=SimpleNamespace(resources=SimpleNamespace(engine_manager=manager))
    )
    assert how_ended(llm) == "failed (the runtime's log says why)", (
        "to read it as well would take it from vLLM"
    )
    read.set()
    assert how_ended(llm) == words
