"""A disk that does not respond to a process that looks for the others of its group: named, and the
process lives on.
"""

import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpu_runtime.processes.rendezvous import rendezvous_open

# As a rank on another node, which says that it lives in a thread of its own; the disk is silent for
# its whole life.
RANK = """
import sys, threading, time
from gpu_runtime.processes import rendezvous
from gpu_runtime.training.rank_process import _process_group_make
from gpu_runtime.training.rank_spec import RankSpec
from tinkerscript.wire.config import SessionConfig
import torch.distributed
rendezvous.REACH_S = 2.0
def beat():
    while True:
        print("alive", flush=True)
        time.sleep(0.1)
threading.Thread(target=beat, daemon=True).start()
print("begins", flush=True)
_process_group_make(RankSpec("", SessionConfig(), 0, 2, sys.argv[1], "cpu", 1), "gloo")
"""
BEATS, END_S = 10, 60


@pytest.mark.system
def test_a_rank_whose_disk_is_silent_says_that_it_lives_until_it_names_the_disk(
    tmp_path: Path,
) -> None:
    """A lock that another process holds stands for it: torch waits for either with Python's lock
    held.
    """
    path = tmp_path / "ranks"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-c", RANK, path], capture_output=True, text=True, timeout=END_S
        )
    _, _, meanwhile = done.stdout.partition("begins")
    assert meanwhile.count("alive") >= BEATS
    assert done.returncode != 0
    assert f"RendezvousSilent: {path} could not be opened and locked within 2 s" in done.stderr


def test_what_holds_the_file_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "ranks"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        release = threading.Timer(0.2, fcntl.flock, (held, fcntl.LOCK_UN))
        began = time.monotonic()
        release.start()
        store = rendezvous_open(str(path), 2)
        assert time.monotonic() - began >= 0.2
        release.join()
    store.set("key", "value")
    assert store.get("key") == b"value"


def test_a_file_that_cannot_be_opened_is_said_as_the_system_says_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        rendezvous_open(str(tmp_path / "missing" / "ranks"), 2)


def test_on_several_machines_the_first_waits_at_the_port_that_it_has_already() -> None:
    """On one address alone, and without a moment in which another process could take the port."""
    with socket.create_server(("127.0.0.2", 0)) as listener:
        host, port = listener.getsockname()
        at = f"tcp://{host}:{port}"
        first = rendezvous_open(f"{at}#{os.dup(listener.fileno())}", 2)
    first.set("key", "value")
    assert rendezvous_open(at, 2).get("key") == b"value"
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
