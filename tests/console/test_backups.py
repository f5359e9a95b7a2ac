"""A backup of one server becomes another server that knows the same people, sessions and checkpoints."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILL = """
import factories
from console.sessions import storage
from console.sessions.models import Checkpoint
from console.users.selectors import project_get
storage.bucket_ensure()
user = factories.user_make("alice")
project = project_get(user=user)
session, _ = factories.runtime_make(project)
stopping = factories.session_make(project, state="stopping", launch_handle={"launch": "old"})
checkpoint = Checkpoint.objects.create(session=session, kind="model", state="committed", step=1)
storage.put(f"sessions/{session.id}/checkpoints/{checkpoint.id}/model.safetensors", bytes(range(256)) * 9)
print(factories.key_make(project, user))
"""
LOOK = """
import hashlib, json, sys
from console.sessions import storage
from console.sessions.models import Session
from console.users.keys import key_authenticate
key = key_authenticate(secret=sys.argv[1])
sessions = Session.objects.filter(project=key.project)
rows = {s.state: [s.launch_handle, s.lease_sha256, s.checkpoints.count()] for s in sessions}
found = {k: hashlib.sha256(storage.get(k)).hexdigest() for k in storage.keys_under("sessions/")}
print(json.dumps({"email": key.user.email, "rows": rows, "objects": list(found.values())}))
"""


class Server:
    """A data folder and a bucket of one store; commands run as an operator runs them."""

    def __init__(self, data: Path, bucket: str, s3: str, credentials: dict[str, str]) -> None:
        private = ("TINKERSCRIPT_", "S3_", "DATABASE_URL")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(private)}
        self._environment = kept | credentials | {
            "TINKERSCRIPT_DATA": str(data), "S3_ENDPOINT_URL": s3, "S3_BUCKET": bucket,
            "DJANGO_SETTINGS_MODULE": "console.settings", "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}:{ROOT / 'tests'}",
        }  # fmt: skip
        self.data = data
        (data / "models" / "SmolLM2-135M-Instruct").mkdir(parents=True)  # a session is made of one that is there

    def manage(self, *arguments: str, fails: bool = False) -> str:
        return self._run(["manage.py", *arguments], fails)

    def python(self, script: str, *arguments: str) -> str:
        return self._run(["-c", f"import django; django.setup()\n{script}", *arguments], False)

    def _run(self, arguments: list[str], fails: bool) -> str:
        made = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=120
        )
        assert (made.returncode != 0) == fails, made.stderr
        return (made.stderr if fails else made.stdout).strip()


@pytest.fixture
def servers(s3: str, tmp_path: Path) -> tuple[Server, Server]:
    from console.sessions.storage import store_get

    store = store_get()
    credentials = {"S3_ACCESS_KEY": store.access_key, "S3_SECRET_KEY": store.secret_key, "S3_REGION": store.region}
    old, new = (Server(tmp_path / name, f"{name}-{tmp_path.name[-6:]}".replace("_", "-"), s3, credentials)
                for name in ("old", "new"))  # fmt: skip
    return old, new


def test_a_restored_server_has_the_same_people_keys_sessions_and_bytes(servers, tmp_path: Path) -> None:
    old, new = servers
    old.manage("migrate")
    api_key = old.python(FILL)
    assert "2 sessions and 1 objects" in old.manage("backup", str(tmp_path / "backup"))
    assert "not empty" in old.manage("backup", str(tmp_path / "backup"), fails=True)

    new.python("from console.sessions import storage; storage.bucket_ensure()")
    assert "2 sessions and 1 objects are back" in new.manage("restore", str(tmp_path / "backup"))
    told = json.loads(new.python(LOOK, api_key))
    before = json.loads(old.python(LOOK, api_key))
    assert told["email"] == "alice@example.com" and told["objects"] == before["objects"] != []
    assert told["rows"] == {"queued": [None, "", 1], "stopped": [None, "", 0]}, "no runtime of the old server is ours"
    assert (new.data / "secret_key").read_text() == (old.data / "secret_key").read_text()
    new.manage("verify_audit")

    assert "not empty" in new.manage("restore", str(tmp_path / "backup"), fails=True)
    assert "no whole backup" in new.manage("restore", str(tmp_path), fails=True)
