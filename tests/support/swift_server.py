"""A private OpenStack Swift with its S3 interface: a second real server, of other authors, for the
tests of the store.

It stands in ``.venv-swift``, which ``tests/environments/build.py swift`` makes; without it those
tests skip. All that differs from SeaweedFS is set to differ here: the region, the bucket, and a key
with a colon in it.
"""

import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from console.object_store.client import Store

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-swift"
PROGRAM = Path(__file__).with_name("swift_process.py")
START_S = 60.0
ACCOUNT, USER, REGION, BUCKET = "tests", "console", "eu-north-7", "swift-bucket"
# Its own deadlines, of half a second and more, are for machines that do nothing else; a server that
# missed one is avoided for a minute.
COMMON = """[DEFAULT]
swift_dir = {folder}
devices = {folder}/devices
mount_check = false
disable_fallocate = true
log_level = ERROR
conn_timeout = 20
node_timeout = 20
container_update_timeout = 20

"""
STORAGE = """[pipeline:main]
pipeline = {name}-server

[app:{name}-server]
use = egg:swift#{name}
log_requests = false
"""
PROXY = """[pipeline:main]
pipeline = catch_errors s3api tempauth bulk slo proxy-server

[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true

[filter:catch_errors]
use = egg:swift#catch_errors

[filter:s3api]
use = egg:swift#s3api
location = {region}

[filter:tempauth]
use = egg:swift#tempauth
user_{account}_{user} = {secret} .admin

[filter:bulk]
use = egg:swift#bulk

[filter:slo]
use = egg:swift#slo
"""


@contextmanager
def swift(folder: Path) -> Iterator[Store]:
    """A server with everything under ``folder``, and who may write there. Skips the test where it
    cannot run.
    """
    if not list(VENV.glob("lib/python*/site-packages/swift/proxy")):
        pytest.skip("OpenStack Swift is not in .venv-swift: run tests/environments/build.py swift")
    try:
        os.setxattr(folder, "user.swift", b"x")
    except OSError as error:
        pytest.skip(f"OpenStack Swift needs extended attributes, and {folder} has none: {error}")
    secret = secrets.token_hex(16)
    _configure(folder, secret)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [VENV / "bin/python", "-I", PROGRAM, folder],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield Store(
                f"http://127.0.0.1:{_port(folder, process)}",
                f"{ACCOUNT}:{USER}",
                secret,
                BUCKET,
                REGION,
            )
        finally:
            process.kill()
            process.wait(25)


def settings_of(store: Store) -> dict[str, str]:
    """The server's settings that name this store."""
    return {f"S3_{field.upper()}": value for field, value in asdict(store).items()}


def _configure(folder: Path, secret: str) -> None:
    (folder / "devices" / "disk").mkdir(parents=True)
    (folder / "swift.conf").write_text(
        f"[swift-hash]\nswift_hash_path_suffix = {secrets.token_hex(8)}\n"
    )
    common = COMMON.format(folder=folder)
    for name in ("account", "container", "object"):
        (folder / f"{name}-server.conf").write_text(common + STORAGE.format(name=name))
    proxy = PROXY.format(region=REGION, account=ACCOUNT, user=USER, secret=secret)
    (folder / "proxy-server.conf").write_text(common + proxy)


def _port(folder: Path, process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + START_S
    while not (folder / "port").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"Swift does not start: {(folder / 'log').read_text()[-2000:]}")
        time.sleep(0.05)
    return int((folder / "port").read_text())
