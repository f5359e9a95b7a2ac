"""The process launcher with real, tiny children: they are found again, ended whole, and no other
process is.
"""

import os
import platform
import resource
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console.scheduling import processes
from console.scheduling.launchers import process
from console.scheduling.launchers.process import ProcessLauncher
from console.scheduling.launchers.protocol import LauncherUnavailable, RuntimeStatus, SlowToEnd
from console.scheduling.processes import wait_until

pytestmark = pytest.mark.system

SLEEP = "import time; print('up', flush=True); time.sleep(60)"
POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), sys.exit(0)))
print("up", flush=True)
time.sleep(60)
"""
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
# A child of its own in the same session, another that leaves it; then the leader ends by itself.
FAMILY = """
import subprocess, sys, time
for leave in (False, True):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=leave)
    print(f"child {{child.pid}}", flush=True)  # one write: a runtime's output is not buffered
{then}
"""


@pytest.fixture
def launch(tmp_path):
    """``launch(program)``: a launcher and the handle of a runtime that has written its first
    line.
    """
    started = []

    def start(program: str, *, memory_bytes: int | None = None, **environment: str):
        launcher = ProcessLauncher([sys.executable, "-c", program], memory_bytes=memory_bytes)
        # A session of its own: a start ends whatever other launches of its session it finds on the
        # machine.
        handle = launcher.new_handle(
            session_id=f"ses_{secrets.token_hex(8)}",
            instance_id="0123abcd",
            folder=tmp_path / "ses_1",
        )
        handle = launcher.start(handle, environment=environment)
        started.append((launcher, handle))
        assert wait_until(lambda: launcher.logs(handle, lines=1) != [], timeout_s=60)
        return launcher, handle

    yield start
    for launcher, handle in started:
        launcher.stop(handle, grace_s=0)


def test_a_runtime_sees_its_devices_alone_and_gets_its_share_of_the_processors(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")  # the server's own
    names = (
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "TINKERSCRIPT_RUNTIME_GPUS",
        "TINKERSCRIPT_RUNTIME_CPUS",
    )
    program = f"import os, time; print([os.environ.get(name) for name in {names}], flush=True); time.sleep(60)"
    launcher = ProcessLauncher([sys.executable, "-c", program], cpus=6)
    names = {"session_id": "ses_seen", "instance_id": "0123abcd", "folder": tmp_path / "ses_seen"}
    handle = launcher.new_handle(**names, gpus=2, devices=["3", "1"])
    handle = launcher.start(handle, environment={})
    try:
        assert wait_until(lambda: launcher.logs(handle, lines=1) != [], timeout_s=60)
        assert launcher.logs(handle, lines=1) == [str(["3,1", "PCI_BUS_ID", "2", "6"])]
    finally:
        launcher.stop(handle, grace_s=0)


@pytest.mark.smoke
@pytest.mark.parametrize("chosen", ["", "/a/folder"])
def test_what_torch_compiles_is_kept_where_no_other_user_can_put_it(
    chosen, launch, settings, monkeypatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", chosen)
    program = (
        "import os, time; print(os.environ['TORCHINDUCTOR_CACHE_DIR'], flush=True); time.sleep(60)"
    )
    launcher, handle = launch(program)
    assert launcher.logs(handle, lines=1) == [chosen or str(settings.DATA / "compiled")]


def is_alive(pid: int) -> bool:
    stat = processes.stat_read(pid)
    return stat is not None and stat.state not in "ZX"


@pytest.mark.smoke
def test_a_runtime_runs_in_its_folder_with_its_environment_and_without_the_servers_secrets(
    launch, monkeypatch, tmp_path
):
    for name in (
        "S3_SECRET_KEY",
        "DATABASE_URL",
        "TINKERSCRIPT_SECRET_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "REDIS_URL",
    ):
        monkeypatch.setenv(name, "secret-value")
    program = "import os, time; print(os.getcwd()); print(sorted(os.environ.items()), flush=True); time.sleep(60)"
    launcher, handle = launch(program, TINKERSCRIPT_LEASE="tml-ls-x")
    assert wait_until(lambda: len(launcher.logs(handle, lines=9)) == 2, timeout_s=25)
    folder, environment = launcher.logs(handle, lines=9)
    assert folder == str(tmp_path / "ses_1")
    assert "tml-ls-x" in environment and "secret-value" not in environment
    assert os.getpgid(handle["pid"]) == handle["pid"] != os.getpgid(0)


def test_a_runtime_that_runs_is_seen_running_also_by_a_launcher_that_did_not_start_it(launch):
    launcher, handle = launch(SLEEP)
    assert launcher.inspect(handle) == ProcessLauncher().inspect(handle) == RuntimeStatus("running")


@pytest.mark.parametrize(
    ("end", "code"),
    [("raise SystemExit(3)", 3), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9)],
)
def test_how_a_child_ended_is_known_to_its_launcher_and_its_absence_by_another(launch, end, code):
    launcher, handle = launch(f"print('up', flush=True); {end}")
    assert wait_until(lambda: launcher.inspect(handle).state != "running", timeout_s=25)
    assert launcher.inspect(handle) == launcher.inspect(handle) == RuntimeStatus("exited", code)
    assert ProcessLauncher().inspect(handle) == RuntimeStatus("gone")
    launcher.stop(handle, grace_s=0)
    assert launcher.inspect(handle) == RuntimeStatus("gone")


def test_a_runtime_that_ends_when_asked_is_not_killed(launch):
    program = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, "
        "lambda *_: (print('bye', flush=True), sys.exit(0)));"
    )
    launcher, handle = launch(program + "print('up', flush=True); time.sleep(60)")
    launcher.stop(handle, grace_s=10)
    assert launcher.logs(handle, lines=1) == ["bye"] and not is_alive(handle["pid"])


def test_a_runtime_that_does_not_end_when_asked_is_killed_after_its_grace(launch):
    launcher, handle = launch(STUBBORN)
    began = time.monotonic()
    launcher.stop(handle, grace_s=0.3)
    assert 0.3 <= time.monotonic() - began < 25 and not is_alive(handle["pid"])


@pytest.mark.smoke
@pytest.mark.parametrize("then", ["time.sleep(60)", "sys.exit(1)"])
@pytest.mark.parametrize("by_another", [False, True])
def test_a_runtime_dies_with_everything_it_started(launch, then, by_another):
    launcher, handle = launch(FAMILY.format(then=then))
    assert wait_until(lambda: len(launcher.logs(handle, lines=9)) == 2, timeout_s=25)
    children = [int(line.split()[1]) for line in launcher.logs(handle, lines=9)]
    assert all(is_alive(pid) for pid in children)
    if then != "time.sleep(60)":
        assert wait_until(lambda: launcher.inspect(handle).state == "exited", timeout_s=25)
    (ProcessLauncher() if by_another else launcher).stop(handle, grace_s=0)
    assert not any(is_alive(pid) for pid in [handle["pid"], *children])


THREAD_LEFT = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("up", flush=True)
ctypes.CDLL(None).syscall({exit}, 0)  # exit of this thread alone
""".format(exit=60 if platform.machine() == "x86_64" else 93)


@pytest.mark.parametrize(
    "program", [SLEEP, THREAD_LEFT], ids=["all of it is there", "its first thread is gone"]
)
@pytest.mark.parametrize("by_another", [False, True])
def test_a_runtime_that_is_slow_to_end_is_not_taken_for_gone(
    launch, monkeypatch, program, by_another
):
    """As a process is that waits in a driver: here a signal has no effect for a while."""
    launcher, handle = launch(program)
    if program == THREAD_LEFT:
        assert wait_until(
            lambda: Path(f"/proc/{handle['pid']}/stat").read_text().split()[2] == "Z", timeout_s=60
        )
    launcher = ProcessLauncher() if by_another else launcher
    monkeypatch.setattr(process, "KILL_WAIT_S", 0.1)
    with monkeypatch.context() as patch:
        patch.setattr(processes, "signal_send", lambda *_: True)
        for _ in range(2):
            with pytest.raises(LauncherUnavailable, match="slow to end"):
                launcher.stop(handle, grace_s=0)
            assert launcher.inspect(handle).state == "running"
        if program == SLEEP:  # the kernel shows no environment of the other
            session_id, instance_id, _ = handle["launch"].split("-")
            folder = Path(handle["folder"])
            other = launcher.new_handle(
                session_id=session_id, instance_id=instance_id, folder=folder
            )
            for wait_s in (0.1, 60.0):  # the second time it only looks
                patch.setattr(process, "KILL_WAIT_S", wait_s)
                with pytest.raises(SlowToEnd, match="slow to end"):
                    launcher.start(other, environment={})

    def is_over() -> bool:
        try:
            launcher.stop(handle, grace_s=0)
        except LauncherUnavailable:
            return False
        return True

    assert wait_until(is_over, timeout_s=60) and launcher.inspect(handle).state == "gone"


def test_a_pid_that_was_given_to_someone_else_is_never_signalled(launch, tmp_path):
    launcher, handle = launch(SLEEP)
    bystander = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
    )
    try:
        recycled = handle | {"pid": bystander.pid, "launch": "another"}
        assert launcher.inspect(recycled) == RuntimeStatus("gone")
        launcher.stop(recycled, grace_s=0.1)
        assert not processes.signal_send(bystander.pid, handle["start_time"] - 1, signal.SIGKILL)
        assert bystander.poll() is None
        assert launcher.inspect(handle) == RuntimeStatus("running")
    finally:
        bystander.kill()
        bystander.wait()


def test_a_runtime_whose_start_was_not_written_down_is_found_by_its_plan(launch):
    launcher, handle = launch(SLEEP)
    fresh = {name: handle[name] for name in ("launch", "folder")}
    successor = ProcessLauncher()
    assert successor.inspect(fresh) == RuntimeStatus("running")
    successor.stop(fresh, grace_s=5)
    assert successor.inspect(fresh) == RuntimeStatus("gone") and not is_alive(handle["pid"])


def test_a_killed_runtime_leaves_no_weights_in_memory(launch, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "SHARED_MEMORY", tmp_path / "shm")
    launcher, handle = launch(SLEEP)
    kept = tmp_path / "shm" / "tinkerscript-ses_12-a"
    for folder in (
        kept,
        tmp_path / "shm" / "tinkerscript-ses_1-b",
        tmp_path / "shm" / "tinkerscript-ses_1-rehearsal-c",
    ):
        folder.mkdir(parents=True)
        (folder / "weights").write_bytes(b"1")
    os.kill(handle["pid"], signal.SIGKILL)
    launcher.stop(handle, grace_s=0)
    assert list((tmp_path / "shm").iterdir()) == [kept]


def test_stopping_what_is_gone_is_no_error(launch):
    launcher, handle = launch(SLEEP)
    for _ in range(2):
        launcher.stop(handle, grace_s=1)


def test_the_log_of_a_second_launch_follows_the_first(launch):
    launcher, first = launch("print('first', flush=True)")
    launcher.stop(first, grace_s=5)
    launcher, second = launch("print('second', flush=True)")
    assert wait_until(lambda: launcher.logs(second, lines=40) == ["first", "second"], timeout_s=25)
    assert launcher.logs(second, lines=1) == ["second"]
    assert launcher.logs({"folder": "/nowhere"}, lines=5) == []


def test_a_program_that_does_not_exist_is_an_os_error(tmp_path):
    launcher = ProcessLauncher(["/no/such/program"])
    with pytest.raises(OSError):
        launcher.start(
            launcher.new_handle(session_id="s", instance_id="0123abcd", folder=tmp_path / "s"),
            environment={},
        )


def test_a_runtime_leaves_no_core_and_goes_before_the_server_when_memory_runs_out(launch):
    _, handle = launch(SLEEP)
    assert resource.prlimit(handle["pid"], resource.RLIMIT_CORE) == (0, 0)
    assert resource.prlimit(handle["pid"], resource.RLIMIT_NOFILE)[0] >= 1024
    assert Path(f"/proc/{handle['pid']}/oom_score_adj").read_text().strip() == "500"


def test_a_process_of_a_runtime_gets_no_more_memory_than_it_may_have(launch, tmp_path):
    program = "import os, time; print('up', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.02)\n"
    program += "kept = bytearray(1 << 30); print('got it', flush=True)"
    bounded, handle = launch(program, memory_bytes=512 << 20)
    unbounded, other = launch(program)
    (tmp_path / "ses_1" / "go").touch()
    assert wait_until(lambda: bounded.inspect(handle).state == "exited", timeout_s=60)
    assert wait_until(lambda: unbounded.inspect(other).state == "exited", timeout_s=60)
    assert (bounded.inspect(handle).code, unbounded.inspect(other).code) == (1, 0)
    assert {"MemoryError", "got it"} <= set(bounded.logs(handle, lines=99))


LISTEN = """
import socket, time
own = socket.create_server(("127.0.0.1", 0))
print(own.getsockname()[1], flush=True)
time.sleep(60)
"""


def test_a_runtime_is_reached_on_a_port_that_it_listens_on_and_on_no_others(launch) -> None:
    launcher, handle = launch(LISTEN)
    port = int(launcher.logs(handle, lines=1)[0])
    assert launcher.address(handle, port=port) == f"127.0.0.1:{port}"
    assert ProcessLauncher().address(handle, port=port) == f"127.0.0.1:{port}", (
        "a new server finds it too"
    )
    with socket.create_server(("127.0.0.1", 0)) as database:
        assert launcher.address(handle, port=database.getsockname()[1]) == ""
