"""What the control plane is sent of a checkpoint that cannot be made."""

import logging

from tinkerscript.wire.runtime import CheckpointFailure

from ..errors import ControlPlaneRefused, RuntimeFault, StoreUnavailable, UploadRefused
from .agent import Agent

log = logging.getLogger(__name__)

FAIL_S = 60.0  # for the control plane to take it


async def upload_failed(agent: Agent, checkpoint_id: str | None, fault: StoreUnavailable) -> None:
    """The files of a checkpoint did not reach the store: an ordered one fails, or heartbeats bring
    it again."""
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
    except ControlPlaneRefused as refused:  # the order is gone, or it was made meanwhile
        log.warning("%s", refused)
