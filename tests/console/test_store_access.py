"""Another user of the machine gets nothing out of the embedded store, nor into it: every listening
port is tried.
"""

import contextlib
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.test import override_settings

from console.errors import StorageUnavailable
from console.object_store import client, seaweedfs
from console.scheduling.processes import wait_until
from support.another_user import readable_copy, require_root, run_as_nobody
from support.strangers_port import strangers_port

pytestmark = pytest.mark.system

SECRET = b"what a tenant trained"
KEY = "sessions/ses_1/model.safetensors"
# Ports and sockets in, what each of them says to a stranger out.
PROBE = """
import json, http.client, socket, ssl, sys
ports, sockets = json.loads(sys.argv[1]), json.loads(sys.argv[2])
paths = ["/", "/dir/status", "/dir/assign", "/col/delete?collection=tinkerscript", "/vol/status", "/status", "/metrics",
         "/ui/index.html", "/buckets/?pretty=y", "/tinkerscript", "/tinkerscript/sessions/ses_1/model.safetensors"]
anyone = ssl._create_unverified_context()
def ask(make, method, path):
    connection = make()
    try:
        connection.request(method, path, body=b"forged" if method == "PUT" else None)
        answer = connection.getresponse()
        return [answer.status, answer.read(200).decode(errors="replace")]
    except (OSError, http.client.HTTPException) as error:
        return [0, type(error).__name__]
    finally:
        connection.close()
said = {}
for port in ports:
    makers = {"http": lambda: http.client.HTTPConnection("127.0.0.1", port, timeout=5),
              "https": lambda: http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=anyone)}
    for scheme, make in makers.items():
        for method in ("GET", "PUT", "DELETE"):
            for path in paths:
                said[f"{method} {scheme}://127.0.0.1:{port}{path}"] = ask(make, method, path)
for path in sockets:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
            said[path] = [200, "connected"]
        except OSError as error:
            said[path] = [0, type(error).__name__]
print(json.dumps(said))
"""


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """The settings name a server of their own."""
    with override_settings(DATA=tmp_path / "data", S3_ENDPOINT_URL=""):
        (tmp_path / "data").mkdir(mode=0o700)
        yield tmp_path / "data"


def store_start(data: Path) -> subprocess.Popen[bytes]:
    with (data.parent / "weed.log").open("ab") as log:
        process = seaweedfs.start(data, log=log.fileno())
    client.ready_wait(timeout_s=60, stopped=lambda: process.poll() is not None)
    return process


def store_end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(25)


@pytest.fixture
def store(data: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = store_start(data)
    yield process
    store_end(process)


def listening(process: subprocess.Popen[bytes]) -> tuple[list[int], list[str]]:
    """The TCP ports and Unix sockets on which a process listens, as the kernel lists them."""
    links = (entry.readlink().name for entry in Path(f"/proc/{process.pid}/fd").iterdir())
    inodes = {link[len("socket:[") : -1] for link in links if link.startswith("socket:")}
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    ports = [
        int(line[1].rpartition(":")[2], 16)
        for line in lines
        if line[3] == "0A" and line[9] in inodes
    ]
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    cwd = Path(f"/proc/{process.pid}/cwd").readlink()
    return sorted(ports), [
        str(cwd / row[7]) for row in rows if len(row) == 8 and row[6] in inodes and row[3][3] == "1"
    ]


@pytest.mark.smoke
def test_no_port_or_socket_of_the_store_serves_another_user(store: subprocess.Popen[bytes]) -> None:
    require_root()
    client.put(KEY, SECRET)
    every_role = lambda: len(listening(store)[0]) >= 2 * len(seaweedfs.ROLES)  # noqa: E731
    assert wait_until(every_role, timeout_s=30), "every role listens, and for gRPC too"
    assert (
        f"GOMEMLIMIT={seaweedfs.MEMORY_BYTES >> 20}MiB\0"
        in Path(f"/proc/{store.pid}/environ").read_text()
    )
    ports, sockets = listening(store)
    assert sockets
    with readable_copy() as folder:
        probe = run_as_nobody(
            ["python3", "-c", PROBE, json.dumps(ports), json.dumps(sockets)], cwd=folder
        )
    assert probe.returncode == 0, probe.stdout
    said = json.loads(probe.stdout)
    refused = {0, 401, 403, 405}
    served = {
        a: said
        for a, said in said.items()
        if said[0] not in refused and "to an HTTPS server" not in said[1]
    }
    # The S3 port says that it is there, without a body.
    assert served == {
        f"GET http://127.0.0.1:{seaweedfs.ports_get(django_settings.DATA)['s3']}/status": [200, ""]
    }
    assert client.get(KEY) == SECRET


def test_weed_shell_of_another_user_lists_and_removes_nothing(
    store: subprocess.Popen[bytes],
) -> None:
    require_root()
    client.put(KEY, SECRET)
    master = seaweedfs.ports_get(django_settings.DATA)["master"]
    command = ["./weed", "shell", f"-master=127.0.0.1:{master}.{master + seaweedfs.GRPC_OFFSET}"]
    with readable_copy(seaweedfs.weed_path()) as folder:
        listed = run_as_nobody(
            ["timeout", "10", *command],
            cwd=folder,
            stdin="fs.ls -l /buckets/tinkerscript/sessions\n",
        )
        run_as_nobody(
            ["timeout", "10", *command],
            cwd=folder,
            stdin="lock\nfs.rm -rf /buckets/tinkerscript/sessions\n",
        )
    assert "ses_1" not in listed.stdout
    assert client.get(KEY) == SECRET


def test_sockets_of_killed_stores_go_at_the_next_start_and_no_others(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as stack:
        # a socket's path has 107 characters at most
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        monkeypatch.setattr(seaweedfs, "SOCKETS", folder)
        paths = {
            name: folder / f"seaweedfs-{name}-grpc-31000.sock"
            for name in ("killed", "new", "served")
        }
        for name, path in paths.items():
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(path))
            if name == "served":
                listener.listen()
            else:
                listener.close()
            if name != "new":
                os.utime(path, (0, 0))
        store_end(store_start(data))
        assert sorted(path.name.split("-")[1] for path in folder.glob("*.sock")) == [
            "new",
            "served",
        ]


def test_what_an_unguarded_store_wrote_is_served_by_a_guarded_one(data: Path) -> None:
    ports, credentials = seaweedfs.ports_get(data), seaweedfs.credentials_get(data)
    (data / "s3" / "data").mkdir()
    identity = {"name": "console", "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
    keys = {"accessKey": credentials["access_key"], "secretKey": credentials["secret_key"]}
    (data / "s3" / "old.json").write_text(
        json.dumps({"identities": [identity | {"credentials": [keys]}]})
    )
    older = [
        seaweedfs.weed_path(), "-logtostderr=true", "mini", "-dir=data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
        "-master.telemetry=false", "-master.peers=none", "-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0",
        "-s3.port.lance=0", "-s3.config=old.json", "-filer.localSocket=filer.sock", "-s3.localSocket=s3.sock",
        *(f"-{role}.port={port}" for role, port in ports.items()),
    ]  # fmt: skip
    with (data.parent / "old.log").open("wb") as log:
        process = subprocess.Popen(
            older, cwd=data / "s3", stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        client.ready_wait(timeout_s=60, stopped=lambda: process.poll() is not None)
        client.put(KEY, SECRET)
        with pytest.raises(seaweedfs.StoreUnguarded, match="asks for no certificate"):
            seaweedfs.guards_verify(data, timeout_s=30)
    finally:
        process.terminate()
        process.wait(30)
    process = store_start(data)
    try:
        assert client.get(KEY) == SECRET
        seaweedfs.guards_verify(data, timeout_s=30)
    finally:
        store_end(process)


def test_a_port_whose_socket_another_user_made_is_not_used(
    store: subprocess.Popen[bytes], data: Path
) -> None:
    """SeaweedFS has a socket for each role in a folder that everybody writes to, and only its owner
    removes a file.
    """
    require_root()
    client.put(KEY, SECRET)
    store_end(store)
    before = seaweedfs.ports_get(data)
    socket = (
        seaweedfs.SOCKETS / f"seaweedfs-filer-grpc-{before['filer'] + seaweedfs.GRPC_OFFSET}.sock"
    )
    assert run_as_nobody(["rm", "-f", socket], cwd=Path("/")).returncode, (
        "its own is removed by no one else"
    )
    socket.unlink()
    assert run_as_nobody(["touch", socket], cwd=Path("/")).returncode == 0
    try:
        again = store_start(data)
        try:
            assert seaweedfs.ports_get(data)["filer"] != before["filer"]
            assert client.get(KEY) == SECRET, "what it keeps does not depend on its ports"
        finally:
            store_end(again)
    finally:
        socket.unlink()


def test_credentials_are_still_asked_for_by_s3(store: subprocess.Popen[bytes], data: Path) -> None:
    client.put(KEY, SECRET)
    credentials = data / "s3" / "credentials.json"
    kept = credentials.read_text()
    credentials.write_text(json.dumps(json.loads(kept) | {"secret_key": "another"}))
    with pytest.raises(StorageUnavailable):
        client.get(KEY)
    credentials.write_text(kept)
    assert client.get(KEY) == SECRET


def test_an_object_is_neither_sent_to_nor_taken_from_a_port_that_another_user_took(
    settings,
) -> None:
    require_root()
    settings.S3_ACCESS_KEY = settings.S3_SECRET_KEY = "of-the-store"
    with strangers_port(forged="forged") as stranger:
        settings.S3_ENDPOINT_URL = f"http://{stranger.address}"
        for ask in (lambda: client.put(KEY, SECRET), lambda: client.get(KEY)):
            with pytest.raises(
                StorageUnavailable, match=f"port {stranger.port} of 127.0.0.1 is another user's"
            ):
                ask()
        assert stranger.sent() == b""
