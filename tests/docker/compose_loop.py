"""The whole of docker/compose.yaml for real: images that are there, one session in a container, a
step, a download.

    docker/build.sh server cpu
    python tests/docker/compose_loop.py --address 192.0.2.10 --models .data/models [--keep]

It needs an engine (DOCKER_HOST names it), Docker Compose, images for PostgreSQL and Redis (pulled
unless they are there), a folder of base models with SmolLM2-135M-Instruct, and root, because user
10001 owns what the service keeps. ``address`` is this machine's as containers reach it; its ports
8000 and 8333 must be free. Prints what it took, and removes everything again, volumes too, unless
``--keep``.
"""

import argparse
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "sdk")]

from openai import OpenAI  # noqa: E402

from tinkerscript import TinkerScript, WorkflowOutput  # noqa: E402

MODEL = "SmolLM2-135M-Instruct"
USER = 10_001
UP_S, EXEC_S, DOWN_S = 300, 60, 120
SOCKET = Path("/var/run/docker.sock")


def settings_write(path: Path, *, address: str, data: Path, memory_gib: int) -> None:
    """docker/example.env, filled in."""
    given = {
        "TINKERSCRIPT_ADDRESS": address,
        "TINKERSCRIPT_DATA": str(data),
        "DOCKER_GID": str(SOCKET.stat().st_gid),
        "TINKERSCRIPT_RUNTIME_MEMORY_GIB": str(memory_gib),
    }
    names = [
        line.partition("=")[0]
        for line in (ROOT / "docker/example.env").read_text().splitlines()
        if "=" in line
    ]
    lines = [
        f"{name}={given.get(name) or secrets.token_hex(32)}"
        for name in names
        if not name.startswith("#")
    ]
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n")


def data_make(folder: Path, models: Path) -> None:
    """The folder that compose wants, with the base model in it."""
    target = folder / "models" / MODEL
    shutil.copytree(models / MODEL, target)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, USER, USER)


class Compose:
    """``docker compose`` on our file with these settings."""

    def __init__(self, settings: Path) -> None:
        self._command = [
            "docker",
            "compose",
            "--env-file",
            str(settings),
            "-f",
            str(ROOT / "docker/compose.yaml"),
        ]

    def run(self, *words: str, timeout_s: float) -> str:
        """Standard output; what the command says otherwise goes to ours. Raises
        CalledProcessError.
        """
        done = subprocess.run(
            [*self._command, *words],
            stdout=subprocess.PIPE,
            text=True,
            timeout=timeout_s,
            check=True,
        )
        return done.stdout


@contextmanager
def timed(what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"{what:<40} {time.monotonic() - started:6.1f} s", flush=True)


def loop(base_url: str, api_key: str, folder: Path) -> None:
    """One session, one step of two episodes, and the model comes home."""
    with timed("a session is ready"):
        session = TinkerScript(
            MODEL,
            base_url=base_url,
            api_key=api_key,
            grpo_n=2,
            tasks_per_batch=1,
            max_context_length=256,
            max_tokens=8,
        )
    try:
        with timed("two episodes"):
            for reward in (0.0, 1.0):
                url, key = session.begin_episode(task="greeting")
                with OpenAI(base_url=url, api_key=key) as client:
                    client.chat.completions.create(
                        model=MODEL, messages=[{"role": "user", "content": "Say hello."}]
                    )
                session.end_episode(WorkflowOutput(reward=reward))
        with timed("a step, the export and the download"):
            tuned = session.download_tuned_model(folder / "tuned")
        files = sorted(path.name for path in Path(tuned.path).iterdir())
        assert "model.safetensors" in files and session.status().policy_version == 1, (
            files,
            session.status(),
        )
        print(f"downloaded: {', '.join(files)}")
    finally:
        with timed("the session is closed"):
            session.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--address", required=True, help="this machine, as containers reach it")
    parser.add_argument("--models", type=Path, default=ROOT / ".data/models")
    parser.add_argument("--memory-gib", type=int, default=12, help="of the runtime")
    parser.add_argument("--keep", action="store_true", help="leave everything running")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tinkerscript-compose-"))
    data = folder / "data"
    data_make(data, options.models)
    folder.chmod(0o755)
    settings_write(
        folder / "env", address=options.address, data=data, memory_gib=options.memory_gib
    )
    compose = Compose(folder / "env")
    try:
        with timed("up"):
            compose.run(
                "up", "-d", "--no-build", "--wait", "web", "reconcile", "store", timeout_s=UP_S
            )
        made = (
            "exec",
            "-T",
            "web",
            "python3",
            "manage.py",
            "create_api_key",
            "compose@example.com",
        )
        loop(f"http://{options.address}:8000", compose.run(*made, timeout_s=EXEC_S).strip(), folder)
    except BaseException:
        print(compose.run("logs", "--no-color", "--tail", "25", timeout_s=EXEC_S), file=sys.stderr)
        raise
    finally:
        if not options.keep:
            with timed("down"):
                compose.run("down", "-v", timeout_s=DOWN_S)
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
