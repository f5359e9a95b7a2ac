"""Checkpoints that were ordered. One that cannot be made fails by itself, with its cause, and
training goes on."""

import logging

from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.runtime import CheckpointOrder

from .checkpoints import Checkpoints, checkpoint_give_up
from .control_plane.agent import Agent
from .episodes.batches import Batches
from .errors import DiskFull, InputUnusable, OutOfMemory, StoreUnavailable, UploadRefused
from .learner import Learner

log = logging.getLogger(__name__)

# What the next try of the same checkpoint would meet too. A store that is away only delays it.
FAILS = (InputUnusable, DiskFull, OutOfMemory, UploadRefused)


async def fulfil(
    agent: Agent, order: CheckpointOrder, batches: Batches, learner: Learner, checkpoints: Checkpoints
) -> None:
    """A model is exported after every full group has been trained."""
    try:
        if order.kind == CheckpointKind.STATE:
            await _made(agent, order, batches, learner, checkpoints)
            return
        with batches.stepping():
            while (batch := await batches.flush_batch()) is not None:
                await learner.train(batch)
                if agent.preempted.is_set():
                    return  # the next runtime is given the order
            await _made(agent, order, batches, learner, checkpoints)
    except StoreUnavailable as fault:  # the record shows it already; heartbeats will bring the order again
        log.warning("checkpoint %s waits for the store: %s", order.checkpoint_id, fault)


async def _made(
    agent: Agent, order: CheckpointOrder, batches: Batches, learner: Learner, checkpoints: Checkpoints
) -> None:
    make = checkpoints.save_state if order.kind == CheckpointKind.STATE else checkpoints.export_model
    try:
        await make(batches.policy_version, order.checkpoint_id)
    except FAILS as fault:
        await checkpoint_give_up(agent, order.checkpoint_id, fault)
        if isinstance(fault, OutOfMemory):  # its ranks were ended
            await learner.trainer_again(batches.policy_version)
