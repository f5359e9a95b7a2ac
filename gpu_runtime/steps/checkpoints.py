"""Checkpoints of a session: states and models, saved here and then stored.

A checkpoint is one once its manifest is in the store. A kill before that leaves nothing that
counts; it is made again.
"""

import asyncio
import contextlib
import logging
import shutil
from pathlib import Path

from gpu_runtime.archive.archive import Archive
from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.errors import ControlPlaneRefused, RuntimeFault, StoreUnavailable, UploadRefused
from gpu_runtime.health.status import Phase
from gpu_runtime.health.volume import folder_written
from gpu_runtime.session import Session
from gpu_runtime.steps.comparison import Loaded
from gpu_runtime.steps.resumed_state import state_folder
from gpu_runtime.trajectories.stored_calls import StoredCalls
from gpu_runtime.weights.model_card import card_write
from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.runtime import CheckpointFailure

log = logging.getLogger(__name__)

FAIL_S = 60.0  # for the control plane to take it that a checkpoint cannot be made
FLUSH_S = 600.0  # as long as the control plane may be away
STATES_KEPT = 2  # local copies; the store keeps them all


class Checkpoints:
    """Its methods are called by the learner's task, one after the other. One upload goes on beside
    it.
    """

    def __init__(
        self, session: Session, loaded: Loaded, archive: Archive, stored: StoredCalls
    ) -> None:
        self._session, self._status, self._loaded = session, session.status, loaded
        self._archive, self._stored = archive, stored
        self._upload: asyncio.Task[None] | None = None

    async def save_state(self, step: int, checkpoint_id: str | None = None) -> None:
        """A resumable checkpoint: on this volume when the call returns, in the store soon after, in
        the background.
        """
        # A state that the store did not take is made up for by this one; the session's record shows
        # that it was missed.
        with contextlib.suppress(StoreUnavailable):
            await self.settle()
        folder = state_folder(self._session.volume, step)
        if not folder.exists():  # else it was fetched, or saved before
            await self._loaded.comparison.passed()
        if not folder.exists():
            self._status.begin(Phase.SAVING, f"saving the state of step {step}")
            async with (
                folder_written(folder, self._status.advance) as staging,
                self._loaded.writing(),
            ):
                await self._loaded.trainer.save_state(staging)
        self._upload = asyncio.create_task(
            self._publish(folder, CheckpointKind.STATE, step, checkpoint_id)
        )

    async def export_model(self, step: int, checkpoint_id: str) -> None:
        """A Hugging Face folder in the store, for the order ``checkpoint_id``."""
        await self._loaded.comparison.passed()
        self._status.begin(Phase.SAVING, f"exporting the model of step {step}")
        folder = self._session.volume / "export"
        async with folder_written(folder, self._status.advance) as staging:
            async with self._loaded.writing():
                await self._loaded.trainer.export_model(staging)
            changes, assignment = self._archive.journal.changes, self._session.assignment
            card_write(assignment, changes.config_at(assignment.config, step), step, staging)
        await self._publish(folder, CheckpointKind.MODEL, step, checkpoint_id)
        shutil.rmtree(folder)

    async def settle(self) -> None:
        """Wait until the upload under way is committed. Raises what it raised."""
        upload, self._upload = self._upload, None
        if upload is not None:
            await upload

    async def save_when_due(self, step: int) -> None:
        """``save_state`` where the session wants one of this step."""
        if step % self._session.assignment.config.checkpoint_every_steps == 0:
            await self.save_state(step)

    async def _publish(
        self, folder: Path, kind: CheckpointKind, step: int, checkpoint_id: str | None
    ) -> None:
        try:
            if kind == CheckpointKind.STATE:
                # The next runtime begins at a committed state: what is older must be out of here
                # before it.
                await self._session.agent.flush(FLUSH_S)
            # The journal too; and a reader who sees a checkpoint finds in the archive what it was
            # trained on.
            await self._archive.publish(on_progress=self._part_stored)
            committed = await self._session.store.checkpoint_upload(
                folder, kind, step, checkpoint_id, on_progress=self._part_stored
            )
        except StoreUnavailable as fault:
            await upload_failed(self._session.agent, checkpoint_id, fault)
            raise
        self._session.agent.order_done(committed)
        for old in sorted(self._session.volume.glob("state-*"))[:-STATES_KEPT]:
            shutil.rmtree(old)
        if kind == CheckpointKind.STATE:
            await self._stored.prune(step)

    def _part_stored(self) -> None:
        # beside a step, an upload must not hide that the step stands still
        if not self._loaded.trains:
            self._status.advance()


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
    body = CheckpointFailure(
        checkpoint_id=checkpoint_id, reason=f"{fault} {fault.hint}".strip()[:4000]
    )
    try:
        await agent.send("/v1/runtime/failed-checkpoints", body, deadline_s=FAIL_S)
    except ControlPlaneRefused as refused:  # the order is gone, or it was made meanwhile
        log.warning("%s", refused)
