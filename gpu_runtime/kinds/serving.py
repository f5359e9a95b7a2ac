"""A session that serves a model: an engine and no trainer, and nothing that an end could lose."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gpu_runtime.engine.replicas import Replicas
from gpu_runtime.gateway.serving import ServedModel
from gpu_runtime.health.status import Phase
from gpu_runtime.loading.engine_and_trainer import may_load, open_engine
from gpu_runtime.loading.tokenizer import renderer_load
from gpu_runtime.session import Parts, Session
from tinkerscript.wire.runtime import PHASE_SERVING


@asynccontextmanager
async def serving_open(session: Session) -> AsyncIterator["ServingParts"]:
    """Load the engine and build the rest. Raises ModelUnsupported, PlacementImpossible,
    EngineDead.
    """
    assignment = session.assignment
    session.status.begin(Phase.LOADING, "loading the engine")
    may_load(session)
    async with open_engine(session) as loaded:
        engine = Replicas.of(loaded)
        engine.version = assignment.serves.step if assignment.serves else 0
        model = ServedModel(
            engine,
            renderer_load(assignment.base_model_path, assignment.config),
            assignment,
            version=engine.version,
            on_fault=session.faults.put_nowait,
        )
        yield ServingParts(
            session=session,
            app=model.app(),
            engine=engine,
            clock=engine,
            waiting=PHASE_SERVING,
            ending="ending",
            model=model,
        )


@dataclass(frozen=True, kw_only=True)
class ServingParts(Parts):
    """``engine`` and the ``model`` that it serves."""

    model: ServedModel
    engine: Replicas

    async def restore(self) -> int:
        """Nothing: the engine has loaded the weights that it serves."""
        return self.engine.version

    async def report(self) -> None:
        """When the last call was."""
        self.session.status.advance()
        self.session.status.update(last_activity_at=self.model.last_activity_at)
