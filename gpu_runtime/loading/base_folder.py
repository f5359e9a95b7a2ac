"""Where the base model of a session lies on this machine, fetched if a checkpoint stands in its
place, and computed in full if it is quantised.

A ``model`` checkpoint is a Hugging Face folder. What a Tinker client saved is a state or an
adapter: its weights are added to the base model, once for this volume, by the trainer of such
models in a process that ends with it. So are the weights of a quantised folder, in bfloat16.
"""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.health.status import Phase
from gpu_runtime.health.volume import folder_written
from gpu_runtime.model_interfaces import InvalidTrainingInput
from gpu_runtime.placement import dtype_name, gpus_visible
from gpu_runtime.session import Session
from gpu_runtime.training.models.process import ModelTrainerProcess
from tinkerscript.wire.runtime import Assignment
from tinkerscript.wire.training.model_refusals import quantised_plan
from tinkerscript.wire.training.models.quantised import weights_count


async def base_fetched(session: Session) -> Session:
    """``session`` with the folder that it begins from.

    Raises CheckpointDeleted, StoreUnavailable, DiskFull, ModelUnsupported, TrainerFailed.
    """
    assignment, advance = session.assignment, session.status.advance
    if quantised_plan(Path(assignment.base_model_path)) is not None:
        session.status.begin(Phase.RESTORING, "computing the quantised weights in full")
        assignment = _with_base(assignment, await _in_full(session))
    if assignment.serves is None:
        return replace(session, assignment=assignment)
    session.status.begin(Phase.RESTORING, "fetching the model")
    folder = session.volume / "checkpoints" / assignment.serves.checkpoint_id
    await session.store.checkpoint_fetch(assignment.serves, folder, on_progress=advance)
    if not (folder / "config.json").exists():
        folder = await _merged(assignment, folder, advance)
    return replace(session, assignment=_with_base(assignment, folder))


def _with_base(assignment: Assignment, folder: Path) -> Assignment:
    return assignment.model_copy(update={"base_model_path": str(folder)})


async def _in_full(session: Session) -> Path:
    """The quantised base of ``session`` in bfloat16, once for this volume."""
    base = Path(session.assignment.base_model_path)
    folder = session.volume / "base" / base.name
    if folder.exists():
        return folder
    size_bytes = 2 * weights_count(base)
    async with folder_written(folder, session.status.advance, size_bytes) as staging:
        await dequantised(base, staging)
    return folder


async def dequantised(base: Path, target: Path) -> None:
    """Write ``base`` in full to the empty folder ``target``, in a process whose memory goes back.

    Raises ModelUnsupported for a folder that is not what it says.
    """
    module = "gpu_runtime.weights.dequantise"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, str(base), str(target), stderr=asyncio.subprocess.PIPE
    )
    try:
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:  # nobody waits for it any more
            process.kill()
            await process.wait()
    if process.returncode:
        lines = errors.decode(errors="replace").strip().splitlines() or ["without a word"]
        raise ModelUnsupported(f"{base.name} cannot be computed in full: {lines[-1]}")


async def _merged(assignment: Assignment, saved: Path, advance: Callable[[], None]) -> Path:
    """The base model with the weights of ``saved``, as a Hugging Face folder."""
    folder = saved.with_name(f"{saved.name}-merged")
    if folder.exists():
        return folder
    dtype = dtype_name(assignment.config, "cuda" if gpus_visible() else "cpu")
    config = assignment.config.model_copy(update={"dtype": dtype})
    trainer = ModelTrainerProcess(assignment.base_model_path, config, "cpu", on_progress=advance)
    try:
        async with folder_written(folder, advance) as staging:
            await trainer.export_merged(saved, staging)
    except InvalidTrainingInput as refused:  # the client's files, which no other try changes
        raise ModelUnsupported(
            f"{saved.name} cannot be added to {assignment.base_model}: {refused}"
        ) from refused
    finally:
        await trainer.close()
    return folder
