"""The runtime as it is, but for its engine and trainer: those are the fakes of
``tests/support/fakes.py``.

Started by the process launcher. Files in the session's folder steer it: while ``hold-POINT``
exists, it waits where a fake reaches POINT (such as optim_step-2), having made ``at-POINT``;
``block-POINT`` blocks its main loop there; ``refuse-POINT`` refuses one step there; ``patience``
holds the seconds that the store may be away; ``deadlines`` is JSON of phases and the seconds that
each may go without progress.
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
# the fakes need none: a runtime that loads it here by mistake fails at once
sys.modules["torch"] = None

from gpu_runtime import run, start  # noqa: E402
from gpu_runtime.__main__ import main  # noqa: E402
from gpu_runtime.control_plane import agent, watchdog  # noqa: E402
from gpu_runtime.errors import StepRefused  # noqa: E402
from gpu_runtime.health.status import DEADLINES_S, Phase  # noqa: E402
from gpu_runtime.kinds import episodes, serving, tinker  # noqa: E402
from gpu_runtime.loading import tokenizer  # noqa: E402
from gpu_runtime.object_store.uploads import ObjectStore  # noqa: E402
from gpu_runtime.session import Session  # noqa: E402
from gpu_runtime.steps.comparison import Comparison  # noqa: E402
from support.fakes import WEIGHTS, FakeEngine, FakeTrainer  # noqa: E402
from support.light_tokenizer import LightTokenizer  # noqa: E402
from support.tinker_fakes import FakeModelTrainer, FakeSamplerEngine  # noqa: E402

HERE = Path.cwd()
STORES: list["WatchedStore"] = []
agent.FAREWELL_S = 1.0  # a server that stops under a loop is not waited for
watchdog.EXIT_S = 2.0


class WatchedStore(ObjectStore):
    """One whose patience can be changed from outside while it is used."""

    def __init__(self, agent: agent.Agent) -> None:
        super().__init__(agent)
        STORES.append(self)


class ExportingTrainer(FakeTrainer):
    """Its models can be begun from: a folder without config.json is taken for an adapter."""

    async def export_model(self, folder: Path) -> None:
        await super().export_model(folder)
        (folder / "config.json").write_text("{}")


@asynccontextmanager
async def fakes_open(session: Session) -> AsyncIterator[tuple[FakeEngine, FakeTrainer, Comparison]]:
    """In place of vLLM and DeepSpeed."""
    assignment = session.assignment
    model = Path(assignment.base_model_path)
    engine = FakeEngine(LightTokenizer(model), context_length=assignment.config.max_context_length)
    trainer = ExportingTrainer(reach=reach, model_folder=model)
    engine.reach = reach
    yield engine, trainer, Comparison()


@asynccontextmanager
async def tinker_fakes_open(
    session: Session,
) -> AsyncIterator[tuple[FakeSamplerEngine, FakeModelTrainer]]:
    """The same for a session that a Tinker client drives."""
    assignment, length = session.assignment, session.assignment.config.max_context_length
    words = FakeEngine(LightTokenizer(Path(assignment.base_model_path)), context_length=length)
    yield FakeSamplerEngine(context_length=length, words=words), FakeModelTrainer(reach=reach)


@asynccontextmanager
async def served_fake_open(session: Session) -> AsyncIterator[FakeEngine]:
    """An engine alone, whose answers depend on the weights of the folder, where a fake trainer left
    some.
    """
    assignment, folder = session.assignment, session.assignment.base_model_path
    engine = FakeEngine(
        LightTokenizer(Path(folder)), context_length=assignment.config.max_context_length
    )
    if (weights := Path(folder) / WEIGHTS).exists():
        engine.weights_text = weights.read_text()
    yield engine


async def reach(point: str) -> None:
    name = point.replace(" ", "-")
    if (patience := HERE / "patience").exists():
        for store in STORES:
            store.patience_s = float(patience.read_text())
    if (refuse := HERE / f"refuse-{name}").exists():
        refuse.unlink()
        raise StepRefused(f"{point} is to be refused, says the test")
    if (deadlines := HERE / "deadlines").exists():
        DEADLINES_S.update(
            {Phase(phase): seconds for phase, seconds in json.loads(deadlines.read_text()).items()}
        )
    block = HERE / f"block-{name}"
    while block.exists():
        (HERE / f"at-{name}").touch()
        time.sleep(0.01)
    hold = HERE / f"hold-{name}"
    if hold.exists():
        (HERE / f"at-{name}").touch()
    while hold.exists():
        await asyncio.sleep(0.01)


def run_with_fakes() -> int:
    """The runtime's main; its exit status."""
    (HERE / "pid").write_text(str(os.getpid()))
    episodes.open_engine_and_trainer, tinker.open_sampler_and_trainer = (
        fakes_open,
        tinker_fakes_open,
    )
    serving.open_engine = served_fake_open
    tokenizer.tokenizer_load, run.ObjectStore = LightTokenizer, WatchedStore
    # Not the fork server either: to import torch and vLLM, of which the fakes use nothing, took
    # most of a core for as long as a short session lives.
    start.imports_begin = lambda: None
    return main()


if __name__ == "__main__":
    sys.exit(run_with_fakes())
