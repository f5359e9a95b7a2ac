"""The runtime as it is, but for its engine and trainer: those are the fakes of ``tests/fakes.py``.

Started by the process launcher. Files in the session's folder steer it: while ``hold-POINT`` exists, it waits where a
fake reaches POINT (such as optim_step-2), having made ``at-POINT``; ``block-POINT`` blocks its main loop there;
``refuse-POINT`` refuses one step there; ``patience`` holds the seconds that the store may be away; ``deadlines`` is
JSON of phases and the seconds that each may go without progress.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.modules["torch"] = None  # the fakes need none, and importing it takes most of a runtime's start

from fakes import FakeEngine, FakeTrainer  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

from gpu_runtime import agent, run, watchdog  # noqa: E402
from gpu_runtime.__main__ import main  # noqa: E402
from gpu_runtime.deadlines import DEADLINES_S, Phase  # noqa: E402
from gpu_runtime.errors import StepRefused  # noqa: E402
from gpu_runtime.weights import store  # noqa: E402
from tinkerscript.wire.runtime import Assignment  # noqa: E402

HERE = Path.cwd()
agent.FAREWELL_S = 1.0  # a server that stops under a loop is not waited for
watchdog.EXIT_S = 2.0


@asynccontextmanager
async def fakes_open(assignment: Assignment) -> AsyncIterator[tuple[FakeEngine, FakeTrainer]]:
    """In place of vLLM and DeepSpeed."""
    model = Path(assignment.base_model_path)
    engine = FakeEngine(AutoTokenizer.from_pretrained(model), context_length=assignment.config.max_context_length)
    trainer = FakeTrainer(reach=reach, model_folder=model)
    engine.reach = reach
    yield engine, trainer


async def reach(point: str) -> None:
    name = point.replace(" ", "-")
    if (patience := HERE / "patience").exists():
        for transfer in (store.checkpoint_upload, store.journal_replicate, store.archive_upload):
            transfer.__kwdefaults__["patience_s"] = float(patience.read_text())
    if (refuse := HERE / f"refuse-{name}").exists():
        refuse.unlink()
        raise StepRefused(f"{point} was told to be refused")
    if (deadlines := HERE / "deadlines").exists():
        DEADLINES_S.update({Phase(phase): seconds for phase, seconds in json.loads(deadlines.read_text()).items()})
    block = HERE / f"block-{name}"
    while block.exists():
        (HERE / f"at-{name}").touch()
        time.sleep(0.01)
    hold = HERE / f"hold-{name}"
    if hold.exists():
        (HERE / f"at-{name}").touch()
    while hold.exists():
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    (HERE / "pid").write_text(str(os.getpid()))
    run.open_engine_and_trainer = fakes_open
    sys.exit(main())
