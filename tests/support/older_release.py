"""Makes the database of release 0.1 in TINKERSCRIPT_DATA, takes it to this version, and uses what people had in it.

Run as a program: the migrations of a database are those of a process. Prints "upgraded" when everything was there.
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk")]
os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"

# The last migrations that 0.1 had; the apps that came later have none.
OLDER = {
    "console": "0018_unverified",
    "account": None,
    "mfa": None,
    "sessions": None,
    "usersessions": None,
    "admin": None,
}
PASSWORD, SECRET = "correct horse battery", "tml-ts_" + "k" * 43
CONFIG = {"grpo_n": 4, "tasks_per_batch": 2, "loss": "grpo", "clip_low": 0.2, "clip_high": 0.2, "learning_rate": 1e-6}


def older_make() -> None:
    """Tables of the older release, with a person, a key, two sessions and a checkpoint, through its own models."""
    from django.contrib.auth.hashers import make_password
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor
    from django.utils import timezone

    for app, last in OLDER.items():
        call_command("migrate", app, *([last] if last else []), interactive=False, verbosity=0)
    executor = MigrationExecutor(connection)
    names = [name for name in executor.loader.applied_migrations if name in executor.loader.graph.nodes]
    apps = executor.loader.project_state(names).apps

    def make(model: str, app: str = "console", **fields: Any) -> Any:
        return apps.get_model(app, model).objects.create(**fields)

    user = make("User", username="usr_1", email="vera@example.org", password=make_password(PASSWORD))
    make("EmailAddress", "account", user=user, email=user.email, verified=True, primary=True)
    project = make("Project", id="prj_0123456789abcdef", name="vera")
    make("Membership", project=project, user=user, role="owner", member_id="mem_1")
    sha256 = hashlib.sha256(SECRET.encode()).hexdigest()
    scopes = ["sessions:read", "sessions:write", "checkpoints:read"]
    make("ApiKey", id="key_1", project=project, user=user, prefix=SECRET[:12], sha256=sha256, scopes=scopes)
    copy = {"path": "journal-copy.sqlite3", "size_bytes": 3, "sha256": "0" * 64, "key": "sessions/ses_1/journal/0"}
    for number, (desired, state) in enumerate((("suspend", "suspended"), ("stop", "stopped")), 1):
        session = make(
            "Session",
            id=f"ses_{number}",
            project=project,
            base_model="SmolLM2-135M-Instruct",
            state=state,
            desired=desired,
            config=CONFIG,
            policy_version=3,
            journal=copy,
        )
        committed = {"kind": "state", "state": "committed", "step": 3, "committed_at": timezone.now()}
        make("Checkpoint", id=f"ckp_{number}", session=session, files=[], **committed)


def newer_use() -> None:
    """What those people do with this version."""
    from django.core.management import call_command
    from django.test import Client

    from console.sessions.models import Session
    from console.sessions.runtime.leases import lease_check, lease_issue, runtime_register

    call_command("migrate", interactive=False, verbosity=0)
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
    client = Client(headers={"Authorization": f"Bearer {SECRET}"})
    listed = client.get("/v1/sessions")
    assert listed.status_code == 200, listed.content
    states = {entry["id"]: entry["state"] for entry in listed.json()["items"]}
    assert states == {"ses_1": "suspended", "ses_2": "stopped"}
    view = client.get("/v1/sessions/ses_1").json()
    assert (view["policy_version"], view["config"]["clip_low"]) == (3, 0.2), view
    assert len(client.get("/v1/sessions/ses_1/checkpoints").json()["items"]) == 1
    resumed = client.post("/v1/sessions/ses_1/resume")
    assert resumed.status_code == 200, resumed.content
    body = {"email": "vera@example.org", "password": PASSWORD}
    signed_in = Client().post("/_allauth/browser/v1/auth/login", body, content_type="application/json")
    assert signed_in.status_code == 200, signed_in.content
    session = Session.objects.get(id="ses_1")
    Session.objects.filter(id="ses_1").update(state="provisioning")
    assignment = runtime_register(session=lease_check(token=lease_issue(session=session)))
    assert assignment.journal is not None and assignment.resume_from is not None and assignment.resume_from.step == 3


if __name__ == "__main__":
    import django

    django.setup()
    older_make()
    newer_use()
    print("upgraded")
