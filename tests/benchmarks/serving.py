"""The web server as `manage.py up` runs it, over a throw-away folder with one session that is
ready.

``serving.py GATEWAY_ADDRESS`` (in a process of its own, because settings are read once) makes the
folder's rows.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0


@dataclass(frozen=True)
class Served:
    """A server that answers. ``episode_key`` opens the relay, ``api_key`` the rest, ``lease`` the
    runtime's side.
    """

    address: str
    session_id: str
    episode_key: str
    api_key: str
    lease: str
    process: subprocess.Popen[bytes]


@contextmanager
def served(
    gateway_address: str,
    *,
    root: Path = ROOT,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Served]:
    """The web server of the checkout at ``root``; its one session's gateway is at
    ``gateway_address``.
    """
    with tempfile.TemporaryDirectory(prefix="tinkerscript-benchmark-") as folder:
        port = free_port()
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("TINKERSCRIPT_")
        } | {
            "TINKERSCRIPT_DATA": folder,
            "TINKERSCRIPT_PORT": str(port),
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "PYTHONPATH": os.pathsep.join(map(str, (root, root / "sdk", root / "tests"))),
            **(settings or {}),
        }
        script = root / Path(__file__).relative_to(ROOT)
        made = subprocess.run(
            [sys.executable, str(script), gateway_address],
            env=environment,
            cwd=root,
            capture_output=True,
            text=True,
        )
        if made.returncode:
            raise SystemExit(made.stderr)
        rows = json.loads(made.stdout.splitlines()[-1])
        own = rows.pop("command")
        with running(
            own, f"http://127.0.0.1:{port}/healthz", env=environment, root=root
        ) as process:
            yield Served(address=f"127.0.0.1:{port}", process=process, **rows)


@contextmanager
def running(
    command: list[str],
    health_url: str,
    *,
    env: dict[str, str],
    root: Path = ROOT,
    start_s: float = START_S,
) -> Iterator[subprocess.Popen[bytes]]:
    """A server's process, from its first good answer to its end."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=env, cwd=root, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + start_s
            while not _answers(health_url):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise SystemExit(
                        f"{command} does not serve:\n{log.read().decode(errors='replace')[-4000:]}"
                    )
                time.sleep(0.1)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def cpu_s(pid: int) -> float:
    """CPU seconds that a process and its living children have used."""
    root = psutil.Process(pid)
    times = [process.cpu_times() for process in (root, *root.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def quantile(samples: list[float], share: float) -> float:
    """The sample below which ``share`` of all lie."""
    return sorted(samples)[min(len(samples) - 1, int(share * len(samples)))]


def free_port() -> int:
    """One that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def _make_rows(gateway_address: str) -> dict[str, object]:
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from console.sessions.models import Session
    from console.users.models import ApiKey, Project
    from support import factories
    from tinkerscript.wire.account import Scope
    from tinkerscript.wire.episode_key import EpisodeClaim, session_key, sign

    call_command("migrate", interactive=False, verbosity=0)
    (settings.DATA / "models" / factories.BASE_MODEL).mkdir(parents=True)
    user = factories.user_make("owner")
    project = Project.objects.get(memberships__user=user)
    session, lease = factories.runtime_make(project)
    Session.objects.filter(id=session.id).update(address=gateway_address)
    api_key = factories.key_make(project, user, list(Scope))
    claim = EpisodeClaim(
        session.id, "ep_1", int(time.time()) + 3600, ApiKey.objects.get(project=project).id
    )
    return {
        "session_id": session.id,
        "episode_key": sign(session_key(settings.SECRET_KEY.encode(), session.id), claim),
        "api_key": api_key,
        "lease": lease,
        "command": [sys.executable, "-m", "console.server.uvicorn"],
    }


if __name__ == "__main__":
    print(json.dumps(_make_rows(sys.argv[1])))
