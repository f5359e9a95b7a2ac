"""Another user of the machine who connects to a rank is refused, before anything is sent between
the ranks.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpu_runtime.processes.foreign_peers import ForeignPeer, foreign_peers_refuse
from support.another_user import NOBODY, require_root

pytestmark = pytest.mark.system

# Imports what another user could not read, connects, sends the numbers by which gloo knows its
# peers, and stays.
CONNECTS = """
import encodings.idna, os, socket, struct, sys
os.setgroups([]); os.setgid({user}); os.setuid({user})
held = [(number, socket.create_connection(("127.0.0.1", int(port)))) for port in sys.argv[1:] for number in range(8)]
for number, connection in held:
    connection.sendall(struct.pack("<q", number))
print("connected", flush=True)
sys.stdin.read()
"""
# Rank 0 of two, whose other rank comes once somebody else is connected: its FileStore has nothing
# of it before.
RANK = """
import os, sys
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
from gpu_runtime.training.rank_process import _process_group_make
from gpu_runtime.training.rank_spec import RankSpec
from tinkerscript.wire.config import SessionConfig
rank = int(sys.argv[2])
if rank:
    print("ready", flush=True)
    sys.stdin.readline()
_process_group_make(RankSpec("", SessionConfig(), rank, 2, sys.argv[1], "cpu", 1), "gloo")
print("connected", flush=True)
"""

# Of an engine, whose groups vLLM makes: the second of them is the one that somebody else enters.
WORKER = """
import os, sys
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
import gpu_runtime.engine.vllm_worker
from torch import distributed
rank = int(sys.argv[2])
store = distributed.FileStore(sys.argv[1], 2)
distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
if rank:
    print("ready", flush=True)
    sys.stdin.readline()
distributed.new_group([0, 1], backend="gloo")
print("connected", flush=True)
"""


@contextmanager
def stranger(*ports: int) -> Iterator[None]:
    command = [sys.executable, "-c", CONNECTS.format(user=NOBODY), *map(str, ports)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "connected\n"
        try:
            yield
        finally:
            process.kill()


@pytest.mark.smoke
def test_a_connection_of_another_user_is_refused_and_one_of_our_own_is_not() -> None:
    require_root()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), server.accept()[0]:
            foreign_peers_refuse()
            with stranger(port), server.accept()[0], pytest.raises(ForeignPeer) as refused:
                foreign_peers_refuse()
    assert f"user {NOBODY} " in str(refused.value) and str(port) in str(refused.value)


@pytest.mark.smoke
def test_a_look_at_the_connections_leaves_no_descriptor_open() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    foreign_peers_refuse()
    os.close(write)
    assert os.read(read, 1) == b"", "the end of a pipe is seen: nobody else has its other end"
    os.close(read)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("program", "groups"), [(RANK, 1), (WORKER, 2)], ids=["a rank", "a worker of an engine"]
)
def test_who_takes_the_place_of_one_ends_the_start_before_anything_is_sent(
    tmp_path: Path, program: str, groups: int
) -> None:
    require_root()
    command = [sys.executable, "-c", program, str(tmp_path / "ranks")]
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }
    with (
        subprocess.Popen([*command, "0"], **pipes) as first,
        subprocess.Popen([*command, "1"], **pipes) as second,
    ):
        try:
            assert second.stdout.readline() == "ready\n"
            with stranger(*ports_of(first, groups)):
                said, errors = (
                    second.communicate("\n", timeout=60),
                    first.communicate(timeout=60)[1],
                )
        finally:
            first.kill()
            second.kill()
    assert "ForeignPeer" in errors and f"user {NOBODY} " in errors, (errors, said)


def ports_of(process: subprocess.Popen[str], count: int) -> list[int]:
    """Where it listens, once it does for so many groups."""
    import psutil

    while process.poll() is None:
        found = psutil.Process(process.pid).net_connections("tcp")
        ports = [each.laddr.port for each in found if each.status == psutil.CONN_LISTEN]
        if len(ports) == count:
            return ports
    raise AssertionError(process.stderr.read())
