"""What every launcher promises, tried with each that is available here: processes, Docker, Slurm,
Kubernetes.

Kubernetes twice: a stand-in for its API, and a real cluster of one node where TESTS_KUBERNETES_BIN
names its programs.
"""

import secrets
import time

import pytest

from console.scheduling.launchers.options import LAUNCHERS
from console.scheduling.launchers.protocol import GATEWAY_PORT, RuntimeStatus
from console.scheduling.processes import wait_until
from launching.backends import WAIT, Backend

pytestmark = pytest.mark.system

WAIT_S = 30
POLITE = f"trap 'echo bye >bye; exit 0' TERM INT; echo up; {WAIT}"  # INT: Slurm's TERM is a notice
STUBBORN = f"trap '' TERM INT; echo up; {WAIT}"


def is_seen(launcher, handle, state: str) -> bool:
    return wait_until(lambda: launcher.inspect(handle).state == state, timeout_s=WAIT_S, poll_s=0.1)


def is_alive(launcher, handle) -> bool:
    return launcher.inspect(handle).is_alive


def test_what_was_started_is_seen_running_in_its_folder_with_its_environment(
    backend: Backend,
) -> None:
    launcher, handle = backend.start(f"pwd; echo $TINKERSCRIPT_LEASE; touch mine; {WAIT}")
    assert is_seen(launcher, handle, "running")
    assert wait_until(
        lambda: launcher.logs(handle, lines=9) == [handle["folder"], "tml-ls-x"], timeout_s=WAIT_S
    )
    assert launcher.logs(handle, lines=1) == ["tml-ls-x"]
    session = handle["launch"].partition("-")[0]
    assert wait_until((backend.folder / session / "mine").exists, timeout_s=WAIT_S)


def test_a_log_that_is_not_all_text_is_read_all_the_same(backend: Backend) -> None:
    launcher, handle = backend.start(f"printf 'caf\\351 \\303\\251\\n'; {WAIT}")
    assert launcher.logs(handle, lines=5) == [
        "caf\N{REPLACEMENT CHARACTER} \N{LATIN SMALL LETTER E WITH ACUTE}"
    ]


@pytest.mark.parametrize("code", [0, 3])
def test_what_ended_by_itself_is_seen_with_its_code(backend: Backend, code: int) -> None:
    launcher, handle = backend.start(f"echo up; exit {code}")
    assert is_seen(launcher, handle, "exited")
    assert launcher.inspect(handle).code == code
    assert launcher.logs(handle, lines=5) == ["up"]


def test_what_was_killed_is_seen_with_its_signal(backend: Backend) -> None:
    launcher, handle = backend.start(STUBBORN)
    assert is_seen(launcher, handle, "running")
    backend.kill(handle)
    assert is_seen(launcher, handle, "exited")
    assert launcher.inspect(handle).code == -9


def test_what_was_never_started_is_gone_and_not_running(backend: Backend) -> None:
    launcher = backend.launcher()
    fresh = backend.new_handle(launcher)
    assert launcher.inspect(fresh) == RuntimeStatus("gone")
    assert launcher.logs(fresh, lines=5) == []
    launcher.stop(fresh, grace_s=0)


def test_what_ends_when_asked_is_not_killed(backend: Backend) -> None:
    launcher, handle = backend.start(POLITE)
    assert is_seen(launcher, handle, "running")
    began = time.monotonic()
    launcher.stop(handle, grace_s=60)
    assert not is_alive(launcher, handle) and time.monotonic() - began < 50
    assert (backend.folder / handle["launch"].partition("-")[0] / "bye").exists()


@pytest.mark.parametrize("grace_s", [0, 1.5])
def test_what_does_not_end_when_asked_is_killed_after_its_grace(
    backend: Backend, grace_s: float
) -> None:
    launcher, handle = backend.start(STUBBORN.replace("sleep 0.1", "echo beat >beat; sleep 0.1"))
    assert is_seen(launcher, handle, "running")
    began = time.monotonic()
    launcher.stop(handle, grace_s=grace_s)
    assert grace_s <= time.monotonic() - began < grace_s + 30
    assert not is_alive(launcher, handle)
    beat = backend.folder / handle["launch"].partition("-")[0] / "beat"
    beat.unlink(missing_ok=True)
    assert not wait_until(beat.exists, timeout_s=0.5), "it is said to be over and goes on"


def test_stopping_twice_is_no_error(backend: Backend) -> None:
    launcher, handle = backend.start(POLITE)
    for _ in range(2):
        launcher.stop(handle, grace_s=0)
    assert not is_alive(launcher, handle)


def test_starting_twice_starts_one(backend: Backend) -> None:
    program = f"echo start >>starts; {POLITE}"
    launcher, handle = backend.start(program)
    fresh = {name: handle[name] for name in ("launch", "folder", "gpus", "devices")}
    again = launcher.start(fresh, environment={"PROGRAM": program})
    by_another = backend.launcher().start(fresh, environment={"PROGRAM": program})
    assert handle == again == by_another
    assert is_seen(launcher, handle, "running")
    launcher.stop(handle, grace_s=5)
    starts = backend.folder / handle["launch"].partition("-")[0] / "starts"
    assert starts.read_text() == "start\n"


def test_a_new_server_finds_a_runtime_by_its_handle_alone(backend: Backend) -> None:
    _, handle = backend.start(POLITE)
    fresh = {name: handle[name] for name in ("launch", "folder", "gpus", "devices")}
    successor = backend.launcher()
    assert is_seen(successor, fresh, "running") and is_seen(successor, handle, "running")
    assert successor.logs(fresh, lines=5) == ["up"]
    successor.stop(fresh, grace_s=10)
    assert not is_alive(successor, fresh) and not is_alive(backend.launcher(), handle)


def test_an_orphan_of_an_older_lease_is_found_and_ended_and_no_one_else(backend: Backend) -> None:
    session_id = f"ses_{secrets.token_hex(8)}"
    launcher = backend.launcher()
    _, orphan = backend.start(STUBBORN, launcher, backend.new_handle(launcher, session_id))
    _, neighbour = backend.start(STUBBORN)
    # A copy of this server, such as a restored backup, has a session of the same name.
    _, of_a_copy = backend.start(
        STUBBORN, launcher, backend.new_handle(launcher, session_id, instance_id="2" * 8)
    )
    successor = backend.launcher()
    _, handle = backend.start(POLITE, successor, backend.new_handle(successor, session_id))
    assert is_seen(successor, handle, "running")
    assert not is_alive(backend.launcher(), orphan)
    assert is_alive(backend.launcher(), neighbour) and is_alive(backend.launcher(), of_a_copy)


def test_a_runtime_knows_nothing_of_the_servers_secrets(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret_names = (
        "S3_SECRET_KEY",
        "DATABASE_URL",
        "TINKERSCRIPT_SECRET_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "REDIS_URL",
    )
    for name in secret_names:
        monkeypatch.setenv(name, "secret-value")
    launcher, handle = backend.start(f"env; echo end; {WAIT}")
    assert wait_until(lambda: "end" in launcher.logs(handle, lines=99), timeout_s=WAIT_S)
    environment = "\n".join(launcher.logs(handle, lines=99))
    assert "tml-ls-x" in environment and "secret-value" not in environment


def test_where_a_runtime_is_does_not_depend_on_what_it_says(backend: Backend) -> None:
    launcher, handle = backend.start(POLITE)
    assert is_seen(launcher, handle, "running")
    assert launcher.address(handle, port=22) == "", "a port of the machine, not of the runtime"
    if not LAUNCHERS[launcher.name].runs_here:  # else it has to listen: test_process.py
        host, _, port = launcher.address(handle, port=GATEWAY_PORT).rpartition(":")
        assert host and port == str(GATEWAY_PORT)
        assert backend.launcher().address(handle, port=GATEWAY_PORT) == f"{host}:{port}"
