"""Checkpoints that were ordered. One that cannot be made fails by itself, with its cause, and training goes on."""

import logging
from typing import TYPE_CHECKING

from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.runtime import CheckpointFailure, CheckpointOrder

from .control_plane.agent import Agent
from .episodes.batches import Batches
from .errors import (
    ControlPlaneRefused,
    DiskFull,
    InputUnusable,
    OutOfMemory,
    RuntimeFault,
    StoreUnavailable,
    UploadRefused,
)

if TYPE_CHECKING:
    from .learner import Learner

log = logging.getLogger(__name__)

# What the next try of the same checkpoint would meet too. A store that is away only delays it.
FAILS = (InputUnusable, DiskFull, OutOfMemory, UploadRefused)
FAIL_S = 60.0  # for the control plane to take it


async def fulfil(agent: Agent, order: CheckpointOrder, batches: Batches, learner: "Learner") -> None:
    """A model is exported after every full group has been trained."""
    try:
        if order.kind == CheckpointKind.STATE:
            await _made(agent, order, batches, learner)
            return
        with batches.stepping():
            while (batch := await batches.flush_batch()) is not None:
                await learner.train(batch)
                if agent.preempted.is_set():
                    return  # the next runtime is given the order
            await _made(agent, order, batches, learner)
    except StoreUnavailable as fault:  # the record shows it already; heartbeats will bring the order again
        log.warning("checkpoint %s waits for the store: %s", order.checkpoint_id, fault)


async def _made(agent: Agent, order: CheckpointOrder, batches: Batches, learner: "Learner") -> None:
    make = learner.save_state if order.kind == CheckpointKind.STATE else learner.export_model
    try:
        await make(batches.policy_version, order.checkpoint_id)
    except FAILS as fault:
        await checkpoint_give_up(agent, order.checkpoint_id, fault)
        if isinstance(fault, OutOfMemory):  # its ranks were ended
            await learner.trainer_again(batches.policy_version)


async def upload_failed(agent: Agent, checkpoint_id: str | None, fault: StoreUnavailable) -> None:
    """The files of a checkpoint did not reach the store: an ordered one fails, or heartbeats bring it again."""
    if checkpoint_id is not None and isinstance(fault, UploadRefused):
        await checkpoint_give_up(agent, checkpoint_id, fault)
    elif checkpoint_id is not None:
        agent.order_failed(checkpoint_id)


async def checkpoint_give_up(agent: Agent, checkpoint_id: str, fault: RuntimeFault) -> None:
    """Put on the record why a checkpoint fails, and make no further one for the same order."""
    log.error("checkpoint %s fails: %s: %s", checkpoint_id, fault.code, fault)
    agent.order_done(checkpoint_id)
    body = CheckpointFailure(checkpoint_id=checkpoint_id, reason=f"{fault} {fault.hint}".strip()[:4000])
    try:
        await agent.send("/v1/runtime/failed-checkpoints", body, deadline_s=FAIL_S)
    except ControlPlaneRefused as refused:  # a server of an earlier version: it shows the order as it was
        log.warning("%s", refused)
