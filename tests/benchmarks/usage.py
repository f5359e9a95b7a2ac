"""What GET /v1/usage takes in a project of 100,000 runtimes and as many recorded steps, over a
year, on SQLite.

    .venv/bin/python tests/benchmarks/usage.py

Prints the milliseconds of a request (median and worst of --rounds, within one process: no network)
before usage is added up, as on the first start after an upgrade, and after, as the server does it
within a minute; and what adding up took.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]
SESSIONS, PER_SESSION, KEYS, DAYS, AT_ONCE = 2_000, 50, 10, 365, 5_000


def fill(project, user) -> None:
    """Spans and steps of sessions that have ended, spread over the days."""
    from django.utils import timezone

    from console.live.models import EventRecord
    from console.sessions.models import RuntimeSpan, Session

    now = timezone.now()
    sessions = [
        Session(
            project=project,
            base_model="m",
            state="stopped",
            policy_version_high=PER_SESSION,
            tokens_trained=PER_SESSION * 1000,
        )
        for _ in range(SESSIONS)
    ]
    Session.objects.bulk_create(sessions)
    spans, steps = [], []
    for number, session in enumerate(sessions):
        for part in range(PER_SESSION):
            began = now - timedelta(
                days=DAYS * (1 - (number + part / PER_SESSION) / SESSIONS), hours=1
            )
            spans.append(
                RuntimeSpan(
                    project=project,
                    session_id=session.id,
                    key_id=f"key_{number % KEYS}",
                    person=user,
                    gpus=part % 3,
                    lease_sha256=f"{number}-{part}",
                    started_at=began,
                    seen_at=began + timedelta(minutes=50),
                )  # fmt: skip
            )
            steps.append(
                EventRecord(
                    session_id=session.id,
                    key=f"step {part}",
                    kind="metric",
                    data={"step": part, "tokens_trained": 1000},
                )
            )
    RuntimeSpan.objects.bulk_create(spans, batch_size=AT_ONCE)
    EventRecord.objects.bulk_create(steps, batch_size=AT_ONCE)


def measured(client, rounds: int) -> str:
    """The median and the worst, in milliseconds."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        answer = client.get("/v1/usage")
        times.append(1000 * (time.perf_counter() - begun))
        assert answer.status_code == 200, answer.content
        assert answer.json()["total"]["tokens_trained"] == SESSIONS * PER_SESSION * 1000
        assert abs(answer.json()["total"]["runtime_s"] - SESSIONS * PER_SESSION * 3000) < 1
    return f"median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TINKERSCRIPT_DATA": folder, "DJANGO_SETTINGS_MODULE": "console.settings"}
        import django

        django.setup()
        from django.core.management import call_command
        from django.test import Client

        from console.sessions.limits.usage import usage_sum
        from console.users.keys import key_create
        from console.users.models import Project
        from console.users.services import user_create
        from tinkerscript.wire.account import Scope

        call_command("migrate", verbosity=0)
        user = user_create(email="ada@example.org", password="correct-horse-7")
        project = Project.objects.get(memberships__user=user)
        _, secret = key_create(project=project, user=user, name="bench", scopes=[Scope.ADMIN])
        fill(project, user)
        client = Client(headers={"Authorization": f"Bearer {secret}"})
        print(
            f"{SESSIONS * PER_SESSION} spans and steps, before: {measured(client, min(rounds, 3))}"
        )
        begun = time.perf_counter()
        usage_sum()
        print(f"adding up: {time.perf_counter() - begun:.1f} s")
        print(f"after: {measured(client, rounds)}")


if __name__ == "__main__":
    main()
