"""A session that Tinker clients drive: no episodes and no batches, but operations of models, and
samples.
"""

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpu_runtime.gateway.app import app_of
from gpu_runtime.gateway.tinker.checkpoints.store import CheckpointStore
from gpu_runtime.gateway.tinker.clients import Clients
from gpu_runtime.gateway.tinker.dialects import DialectRoutes
from gpu_runtime.gateway.tinker.ledger import Ledger
from gpu_runtime.gateway.tinker.routes import Samplers, TinkerRoutes
from gpu_runtime.gateway.tinker.samples.sampling import Samples
from gpu_runtime.gateway.tinker.work import ModelWork
from gpu_runtime.gateway.tinker.work_meter import WorkMeter
from gpu_runtime.health.status import Phase
from gpu_runtime.interfaces import SamplerEngine
from gpu_runtime.journal.journal import Journal
from gpu_runtime.loading.engine_and_trainer import may_load, open_sampler_and_trainer
from gpu_runtime.loading.tokenizer import renderer_load
from gpu_runtime.model_interfaces import ModelTrainer
from gpu_runtime.session import Parts, Session
from tinkerscript.wire.runtime import PHASE_TINKER, StopReason

# how long the control plane may be away when a runtime that ends reports its last work
FAREWELL_S = 5.0


@asynccontextmanager
async def tinker_open(session: Session) -> AsyncIterator["TinkerParts"]:
    """Load engine and trainer and build the rest. Raises RuntimeFault."""
    session.status.begin(Phase.LOADING, "loading the engine and the trainer")
    journal = await session.journal_open()
    may_load(session)
    async with open_sampler_and_trainer(session) as (engine, trainer):
        yield parts_build(session, journal, engine, trainer)


def parts_build(
    session: Session, journal: Journal, engine: SamplerEngine, trainer: ModelTrainer
) -> "TinkerParts":
    """Every part that needs no loading."""
    assignment, on_fault = session.assignment, session.faults.put_nowait
    session_id, relay_key, events = (
        assignment.session_id,
        assignment.relay_key,
        session.agent.events,
    )
    named = CheckpointStore(session)
    samplers = Samplers(journal, named, trainer.export_state)
    work = ModelWork(
        trainer,
        named,
        session.volume / "models",
        session_id=session_id,
        sampler_put=samplers.put,
        advance=session.status.advance,
    )
    ledger = Ledger(journal, work, events)
    samples = Samples(
        engine, samplers.find, session_id=session_id, events=events, on_fault=on_fault
    )
    routes = TinkerRoutes(ledger, samples, samplers, session_id=session_id, relay_key=relay_key)
    renderer = partial(renderer_load, assignment.base_model_path, assignment.config)
    dialects = DialectRoutes(
        engine,
        samplers.find,
        renderer,
        assignment.config,
        relay_key=relay_key,
        events=events,
        on_fault=on_fault,
    )
    return TinkerParts(
        session=session,
        app=app_of([*routes.routes(), *dialects.routes()]),
        engine=engine,
        trainer=trainer,
        waiting=PHASE_TINKER,
        journal=journal,
        ledger=ledger,
        samples=samples,
        dialects=dialects,
        meter=WorkMeter(events),
        clients=Clients(ledger, samplers),
    )


@dataclass(frozen=True, kw_only=True)
class TinkerParts(Parts):
    """``ledger`` does the operations of models, ``samples`` and ``dialects`` what is sampled."""

    journal: Journal
    ledger: Ledger
    samples: Samples
    dialects: DialectRoutes
    meter: WorkMeter
    clients: Clients

    async def restore(self) -> int:
        """Load the models as the journal has them."""
        self.session.status.begin(Phase.RESTORING, "loading the models of this session")
        await self.ledger.restore()
        return self.ledger.steps_done

    async def report(self) -> None:
        """What is done for the client, and when it was last heard."""
        status, phase, words = self.session.status, Phase.WAITING, self.waiting
        if not self.ledger.is_idle:
            phase, words = Phase.TRAINING, "training for a Tinker client"
        elif not self.samples.is_idle:
            words = "sampling for a Tinker client"
        active_at = max(
            part.last_activity_at for part in (self.ledger, self.samples, self.dialects)
        )
        status.update(last_activity_at=active_at, policy_version=self.ledger.steps_done)
        if phase is Phase.WAITING or words != status.phase:
            status.begin(phase, words)

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """The operations, the account of them, and which clients are over."""
        agent = self.session.agent
        return [self.ledger.run(), self.meter.run(agent), self.clients.run(agent)]

    async def close(self) -> None:
        """A state of each model where another runtime follows, and the rest of the account."""
        await self.samples.close()
        if self.session.agent.stop_reason is StopReason.SUSPEND:
            await self.ledger.save_all()
        await self.meter.report(self.session.agent, deadline_s=FAREWELL_S)
        self.journal.close()
