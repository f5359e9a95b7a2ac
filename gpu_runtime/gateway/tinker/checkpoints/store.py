"""Named checkpoints of Tinker clients in the object store, under names that the control plane
gives.
"""

import asyncio
from pathlib import Path

from gpu_runtime.errors import ControlPlaneRefused
from gpu_runtime.gateway.tinker.data import UserMistake
from gpu_runtime.session import Session
from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.runtime import ResumePoint
from tinkerscript.wire.tinker.messages import (
    ModelSource,
    NamedCheckpoint,
    NamedCheckpointOpen,
    NamedState,
    NamedStateFind,
)

OPEN_S = 300.0  # how long the control plane may be away when a checkpoint gets its name


class CheckpointStore:
    """Where named checkpoints go and come from. The session's volume keeps what was fetched or
    stored.
    """

    def __init__(self, session: Session) -> None:
        self._agent, self._store, self._volume = session.agent, session.store, session.volume
        self._fetching: dict[str, asyncio.Lock] = {}

    async def store(self, wanted: NamedCheckpointOpen, folder: Path, seq_id: int) -> int:
        """Publish ``folder`` under its name; its bytes. Raises UserMistake where that is taken,
        StoreUnavailable.
        """
        try:
            opened = await self._agent.call(
                "/v1/runtime/named-checkpoints", wanted, NamedCheckpoint, deadline_s=OPEN_S
            )
        except ControlPlaneRefused as refused:
            raise UserMistake(f"the checkpoint {wanted.name!r} was refused: {refused}") from refused
        if opened.refusal or opened.checkpoint_id is None:
            raise UserMistake(opened.refusal)
        if not opened.is_stored:
            kind = CheckpointKind.STATE if wanted.segment == "weights" else CheckpointKind.MODEL
            await self._store.checkpoint_upload(
                folder, kind, seq_id, opened.checkpoint_id, on_progress=self._agent.status.advance
            )
        files = await asyncio.to_thread(
            lambda: [path for path in folder.rglob("*") if path.is_file()]
        )
        return sum(path.stat().st_size for path in files)

    async def find(self, model_id: str, path: str, *, optimizer: bool) -> ModelSource:
        """A saved state by its path. Raises UserMistake where the model's client may read none
        there.
        """
        wanted = NamedStateFind(model_id=model_id, path=path)
        try:
            found = await self._agent.call(
                "/v1/runtime/named-states", wanted, NamedState, deadline_s=OPEN_S
            )
        except ControlPlaneRefused as refused:
            raise UserMistake(f"{path} was refused: {refused}") from refused
        if found.checkpoint_id is None:
            raise UserMistake(found.refusal)
        return ModelSource(
            path=path, checkpoint_id=found.checkpoint_id, files=found.files, optimizer=optimizer
        )

    async def fetch(self, source: ModelSource) -> Path:
        """The folder of a stored checkpoint. Raises StoreUnavailable, after minutes of tries,
        DiskFull.
        """
        folder = self._volume / "checkpoints" / source.checkpoint_id
        lock = self._fetching.setdefault(source.checkpoint_id, asyncio.Lock())
        async with lock:
            if folder.exists():
                return folder
            point = ResumePoint(checkpoint_id=source.checkpoint_id, step=0, files=source.files)
            await self._store.checkpoint_fetch(
                point, folder, on_progress=self._agent.status.advance
            )
        return folder
