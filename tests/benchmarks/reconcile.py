"""What one tick of the reconciler costs, with simulated sessions and a launcher that answers at
once.

    python tests/benchmarks/reconcile.py

Target: under 100 ms on 2 cores with 10,000 queued and 1,000 running sessions, growing no worse than
linearly. The database is SQLite in a folder of its own; nothing is launched. ``full``: every place
is taken; ``one free``: there is a place more, and one session is started; ``one ended``: a session
has ended, and the next is started in its place.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIZES = [
    (1_250, 125),
    (2_500, 250),
    (5_000, 500),
    (10_000, 1_000),
    (20_000, 2_000),
    (30_000, 1_000),
    (100_000, 1_000),
]
PROJECTS = 50
TICKS = 15


class Simulated:
    """Every runtime runs."""

    name = "process"

    def new_handle(
        self, *, session_id: str, instance_id: str, folder: Path, gpus: int, devices: list
    ) -> dict:
        return {"launch": session_id, "folder": str(folder)}

    def address(self, handle: dict, *, port: int) -> str:
        return f"127.0.0.1:{port}"

    def start(self, handle: dict, *, environment: dict) -> dict:
        return handle

    def others_end(self, handle: dict) -> None:
        """Nothing is left of one that was replaced."""

    def inspect(self, handle: dict):
        from console.scheduling.launchers.protocol import RuntimeStatus

        return RuntimeStatus("running")

    def stop(self, handle: dict, *, grace_s: float) -> None:
        raise AssertionError("nothing here should be stopped")

    def logs(self, handle: dict, *, lines: int) -> list[str]:
        return []


def fill(queued: int, running: int) -> None:
    """Rows as they are in a busy server."""
    from datetime import timedelta

    from django.utils import timezone

    from console.sessions.models import Session
    from console.users.models import Project
    from tinkerscript.wire.config import SessionConfig
    from tinkerscript.wire.sessions import Accounting

    Session.objects.all().delete()
    projects = list(Project.objects.all()) or [
        Project.objects.create(name=f"{i}") for i in range(PROJECTS)
    ]
    now, config = timezone.now(), SessionConfig().model_dump(mode="json")
    common = {"base_model": "SmolLM2-135M-Instruct", "config": config}
    rows = [
        Session(project=projects[i % PROJECTS], priority=i % 3, **common) for i in range(queued)
    ]
    rows += [
        Session(
            project=projects[i % PROJECTS], state="ready", phase="waiting for episodes",
            launch_handle={"launch": f"{i}"}, lease_sha256=f"{i:064x}",
            lease_expires_at=now + timedelta(hours=1), progress_at=now, last_activity_at=now,
            accounting=Accounting(begun=9, open=i % 2).model_dump(), **common,
        )
        for i in range(running)
    ]  # fmt: skip
    Session.objects.bulk_create(rows, batch_size=500)


def measure(places: int, *, is_over: bool = False) -> float:
    """Median milliseconds of CPU time of a tick: the machine may be busy with other things."""
    from django.conf import settings

    from console.scheduling.reconcile import Reconciler
    from console.sessions.models import Session
    from console.sessions.states import Actor
    from console.sessions.transitions import session_move
    from tinkerscript.wire.sessions import SessionState

    settings.MAX_RUNTIMES = places
    reconciler, times_ms = Reconciler(Simulated(), disk_free=lambda: 1 << 50), []
    for _ in range(TICKS):
        if is_over:
            ended = Session.objects.filter(state="ready").order_by("id")[0]
            failed = {
                "source": SessionState.READY,
                "target": SessionState.FAILED,
                "actor": Actor.RECONCILER,
            }
            session_move(session_id=ended.id, launch_handle=None, **failed)
        else:
            settings.MAX_RUNTIMES += 1 if places else 0
        began = time.process_time()
        assert reconciler.reconcile_once()
        times_ms.append(1000 * (time.process_time() - began))
    reconciler.close()
    return statistics.median(times_ms)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TINKERSCRIPT_DATA": folder, "DJANGO_SETTINGS_MODULE": "console.settings"}
        sys.path[:0] = [str(ROOT), str(ROOT / "sdk")]
        import django
        from django.core.management import call_command

        django.setup()
        from tinkerscript.processes import machine_share

        call_command("migrate", verbosity=0)
        # what is started is looked for
        Path(folder, "models", "SmolLM2-135M-Instruct").mkdir(parents=True)
        print(f"{machine_share.cpus()} cores; median of {TICKS} ticks\n")
        print(
            f"{'queued':>8}{'running':>9}{'full, ms':>12}{'one free, ms':>15}{'one ended, ms':>15}"
        )
        for queued, running in SIZES:
            fill(queued, running)
            full_ms, free_ms = measure(0), measure(running)
            ended_ms = measure(running + TICKS, is_over=True)
            print(
                f"{queued:>8}{running:>9}{full_ms:>12.1f}{free_ms:>15.1f}{ended_ms:>15.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
