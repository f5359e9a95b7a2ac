"""A long record written to a session's tables at once: ``python long_record.py SESSION STEPS
OTHERS``.

In a process of its own with the settings of the server whose session it is. Of ``OTHERS`` entries a
ninth are states that were committed, the others changes of the phase.
"""

import math
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def long_record(session_id: str, steps: int, others: int, environment: dict[str, str]) -> None:
    """Write it. ``environment`` is that of the server; the session has ended."""
    arguments = [sys.executable, __file__, session_id, str(steps), str(others)]
    subprocess.run(arguments, cwd=ROOT, env=environment, check=True, timeout=300)


def main(session_id: str, steps: int, others: int) -> None:
    import django

    django.setup()
    from console.live.models import EventRecord
    from console.sessions.models import Session
    from tinkerscript.wire.reading.points import MEASURES

    names, noise = sorted(MEASURES), random.Random(1)

    def step_entry(step: int) -> EventRecord:
        data = {name: noise.random() for name in names}
        data |= {"step": step, "reward_mean": math.tanh(step / steps), "groups": 8}
        return EventRecord(session_id=session_id, key=f"step {step}", kind="metric", data=data)

    def other_entry(step: int, at: int) -> EventRecord:
        if at % 9 == 0:
            made = {"name": "checkpoint_committed", "kind": "state", "step": step, "size_bytes": 1}
            return EventRecord(session_id=session_id, kind="event", data=made)
        moved = {
            "from": "ready",
            "to": "ready",
            "phase": f"training step {step}",
            "reason": "",
            "deadline_s": 600,
        }
        return EventRecord(session_id=session_id, kind="state", data=moved)

    rows = []
    for step in range(1, steps + 1):
        rows += [step_entry(step), *(other_entry(step, at + step) for at in range(others // steps))]
    EventRecord.objects.bulk_create(rows, batch_size=2000)
    Session.objects.filter(id=session_id).update(policy_version=steps)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
