"""A backup of one server becomes another server that knows the same people, sessions and
checkpoints.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import Settings

from console.errors import Conflict, InvalidRequest
from console.object_store import seaweedfs
from console.object_store.client import Store
from console.operations import backups
from console.operations.backups import FORMAT, MARK, backup_restore, backup_write
from console.scheduling import processes
from console.sessions.models import Session
from console.users.keys import key_authenticate
from console.users.models import Project, User
from support import factories
from tinkerscript.wire.sessions import SessionState

ROOT = Path(__file__).resolve().parents[2]
MIGRATE = "from django.core.management import call_command; call_command('migrate', verbosity=0)\n"
FILL = """
from support import factories
from console.object_store import client as object_store
from console.sessions.models import Checkpoint
from console.users.selectors import project_get
from console.operations.backups import store_available
user = factories.user_make("alice")
project = project_get(user=user)
session, _ = factories.runtime_make(project)
stopping = factories.session_make(project, state="stopping", launch_handle={"launch": "old"})
checkpoint = Checkpoint.objects.create(session=session, kind="model", state="committed", step=1)
with store_available():
    object_store.put(f"sessions/{session.id}/checkpoints/{checkpoint.id}/model.safetensors", bytes(range(256)) * 9)
print(factories.key_make(project, user))
"""
LOOK = """
import hashlib, json, sys
from console.object_store import client as object_store
from console.sessions.models import Session
from console.operations.backups import store_available
from console.users.keys import key_authenticate
key = key_authenticate(secret=sys.argv[1])
sessions = Session.objects.filter(project=key.project)
rows = {s.state: [s.launch_handle, s.lease_sha256, s.checkpoints.count()] for s in sessions}
with store_available():
    found = {k: hashlib.sha256(object_store.get(k)).hexdigest() for k in object_store.keys_under("sessions/")}
print(json.dumps({"email": key.user.email, "rows": rows, "objects": list(found.values())}))
"""


SLEEP = "import time; print('up', flush=True); time.sleep(300)"
LAUNCH = f"""
import sys
from pathlib import Path
from django.conf import settings
from console.scheduling.launchers.process import ProcessLauncher
from console.scheduling.processes import wait_until
from console.scheduling.reconcile import Reconciler
from console.sessions.models import Session
from console.sessions.services import session_wake
session = Session.objects.get(base_model="SmolLM2-135M-Instruct", state=sys.argv[1])
if session.state == "suspended":
    session_wake(session=session)
reconciler = Reconciler(ProcessLauncher([sys.executable, "-c", {SLEEP!r}]))
assert wait_until(reconciler.reconcile_once, timeout_s=60), "the lease of the reconciler that was copied did not end"
reconciler.close()
session.refresh_from_db()
print(session.id, session.launch_handle["pid"], session.launch_handle["start_time"])
"""
QUEUE = """
from support import factories
from console.users.selectors import project_get
factories.session_make(project_get(user=factories.user_make("alice")))
"""


class Server:
    """A data folder and a bucket of one store; commands run as an operator runs them."""

    def __init__(self, data: Path, **s3: str) -> None:
        private = ("TINKERSCRIPT_", "S3_", "DATABASE_URL")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(private)}
        self._environment = kept | s3 | {
            "TINKERSCRIPT_DATA": str(data), "DJANGO_SETTINGS_MODULE": "console.settings",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}:{ROOT / 'tests'}",
        }  # fmt: skip
        self.data = data
        # a session is made of one that is there
        (data / "models" / "SmolLM2-135M-Instruct").mkdir(parents=True)

    def manage(self, *arguments: str) -> str:
        return self._run(["manage.py", *arguments])

    def python(self, script: str, *arguments: str) -> str:
        return self._run(["-c", f"import django; django.setup()\n{script}", *arguments])

    def _run(self, arguments: list[str]) -> str:
        made = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()


@pytest.fixture
def servers(swift_store: Store, tmp_path: Path) -> tuple[Server, Server]:
    """Two servers with a bucket each in one store that is not theirs."""
    there = {"S3_ENDPOINT_URL": swift_store.endpoint_url, "S3_REGION": swift_store.region}
    there |= {"S3_ACCESS_KEY": swift_store.access_key, "S3_SECRET_KEY": swift_store.secret_key}
    bucket = tmp_path.name[-6:].replace("_", "-")
    old, new = (
        Server(tmp_path / name, S3_BUCKET=f"{name}-{bucket}", **there) for name in ("old", "new")
    )
    return old, new


def check_restored(old: Server, new: Server, folder: Path) -> None:
    """Fill, back up, restore, compare. Everything that the old server has is there while it is
    read.
    """
    api_key = old.python(MIGRATE + FILL)
    assert "2 sessions and 1 objects" in old.manage("backup", str(folder))
    shutil.rmtree(new.data / "models")
    told = new.manage("restore", str(folder))
    assert (
        "2 sessions and 1 objects are back" in told
        and "not here yet: the base models SmolLM2-135M-Instruct" in told
    )
    looked = json.loads(new.python(LOOK, api_key))
    before = json.loads(old.python(LOOK, api_key))
    assert looked["email"] == "alice@example.com" and looked["objects"] == before["objects"] != []
    assert looked["rows"] == {"suspended": [None, "", 1], "stopped": [None, "", 0]}, (
        "no runtime of the old server is ours"
    )
    assert (new.data / "secret_key").read_text() == (old.data / "secret_key").read_text()
    new.manage("verify_audit")  # with the key that wrote the log


@pytest.mark.nightly  # the next one shows it for the store that the server starts
def test_a_server_with_a_store_elsewhere_is_restored_with_the_same_people_keys_sessions_and_bytes(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    check_restored(*servers, tmp_path / "backup")


@pytest.mark.system
def test_backup_and_restore_start_the_embedded_store_themselves(tmp_path: Path) -> None:
    weed_required()
    check_restored(Server(tmp_path / "old"), Server(tmp_path / "new"), tmp_path / "backup")
    assert processes_in(tmp_path) == []


# Above, what was restored has no handle and no lease of a runtime; here it starts one of its own
# beside the living.
@pytest.mark.system
@pytest.mark.parametrize(
    "copied", [pytest.param("restored", marks=pytest.mark.nightly), "copied by hand"]
)
def test_a_copy_of_a_server_leaves_the_runtimes_of_the_living_one_alone(
    tmp_path: Path, copied: str
) -> None:
    weed_required()
    old, new = Server(tmp_path / "old"), Server(tmp_path / "new")
    old.python(MIGRATE + QUEUE)
    session_id, *of_old = old.python(LAUNCH, "queued").split()
    runtimes = [tuple(map(int, of_old))]
    try:
        if copied == "restored":
            old.manage("backup", str(tmp_path / "backup"))
            new.manage("restore", str(tmp_path / "backup"))
        else:
            shutil.copytree(old.data, new.data, dirs_exist_ok=True)
            forget = "from console.scheduling.instance import *; print(foreign_runtimes_forget())"
            assert new.python(forget) == f"['{session_id}']" and old.python(forget) == "[]"
        assert processes.is_running(*runtimes[0])
        same_session, *of_new = new.python(LAUNCH, "suspended").split()
        runtimes.append(tuple(map(int, of_new)))
        assert same_session == session_id
        assert processes.is_running(*runtimes[0]), "the copy ended a runtime of the living server"
        assert processes.is_running(*runtimes[1])
    finally:
        for runtime in runtimes:
            processes.signal_send(*runtime, signal.SIGKILL)


class Bucket:
    """An object store in memory, as backups use it."""

    HEALTH_KEY = "health"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {self.HEALTH_KEY: b""}

    def keys_under(self, prefix: str) -> Iterator[str]:
        return iter([key for key in sorted(self.objects) if key.startswith(prefix)])

    def download(self, key: str, path: Path) -> bool:
        path.write_bytes(self.objects[key])
        return True

    def upload(self, path: Path, key: str) -> None:
        self.objects[key] = path.read_bytes()


@pytest.mark.django_db(transaction=True)  # it begins one of its own, of another isolation
def test_a_backup_has_every_row_and_object_and_the_secret_and_comes_back(
    project: Project,
    alice: User,
    tmp_path: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old, new = Bucket(), Bucket()
    monkeypatch.setattr(backups, "object_store", old)
    api_key = factories.key_make(project, alice)
    session = factories.session_make(project, state=SessionState.READY)
    settings.DATA = tmp_path / "old"
    settings.DATA.mkdir()
    (settings.DATA / "secret_key").write_text("signs")
    (settings.DATA / "audit_key").write_text("codes")
    old.objects["sessions/a/b"] = bytes(range(256))
    assert backup_write(tmp_path / "backup") == {"sessions": 1, "objects": 1}

    User.objects.all().delete()
    Project.objects.all().delete()
    with connection.cursor() as cursor:
        # the log is only added to, by what we write
        cursor.execute("DELETE FROM console_auditrecord")
    assert not Session.objects.exists()
    monkeypatch.setattr(backups, "object_store", new)
    monkeypatch.setattr(
        backups,
        "call_command",
        lambda name, *given, **options: (
            # this database has its migrations
            None if name == "migrate" else call_command(name, *given, **options)
        ),
    )
    settings.DATA = tmp_path / "new"
    settings.DATA.mkdir()
    assert backup_restore(tmp_path / "backup") == {"sessions": 1, "objects": 1}
    assert key_authenticate(secret=api_key).user.email == alice.email
    assert Session.objects.get().id == session.id and Session.objects.get().state == "suspended"
    assert new.objects["sessions/a/b"] == old.objects["sessions/a/b"]
    assert (settings.DATA / "secret_key").read_text() == "signs"
    assert (settings.DATA / "audit_key").read_text() == "codes"


@pytest.mark.django_db
def test_what_is_not_empty_is_neither_written_nor_restored_over(
    tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Conflict, match="is not empty"):
        backup_write(tmp_path)
    with pytest.raises(InvalidRequest, match="holds no whole backup"):
        backup_restore(tmp_path)
    (tmp_path / MARK).write_text(json.dumps({"format": FORMAT}))
    with pytest.raises(Conflict, match="This server is not empty"):
        backup_restore(tmp_path)
    User.objects.all().delete()
    bucket = Bucket()
    bucket.objects["sessions/a/b"] = b"of another server"
    monkeypatch.setattr(backups, "object_store", bucket)
    with pytest.raises(Conflict, match="This server is not empty"):
        backup_restore(tmp_path)


def weed_required() -> None:
    try:
        seaweedfs.weed_path()
    except seaweedfs.WeedMissing as error:
        pytest.skip(str(error))


def processes_in(folder: Path) -> list[int]:
    """Every process that works in a folder under this one."""
    found = []
    for process in processes.processes_list():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process.pid}/cwd").readlink().is_relative_to(folder):
                found.append(process.pid)
    return found
