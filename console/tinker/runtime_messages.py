"""The messages that announce a client's models and samplers to their runtime.

The checkpoint that one begins from may be deleted later: the message then has no files. A runtime
keeps the first message of a name; without one it records that the checkpoint could not be read.
"""

from console.sessions.models import Checkpoint
from console.tinker.checkpoints import checkpoint_files
from console.tinker.models import TinkerModel, TinkerSampler
from tinkerscript.wire.runtime import StoredFile
from tinkerscript.wire.tinker.messages import LoraOptions, ModelCreate, ModelSource, SamplerCreate

GONE = "gone"  # in place of the id of a checkpoint whose row is no more


def model_message(model: TinkerModel) -> ModelCreate:
    """The model's first operation."""
    source = None
    if model.source is not None:
        source = ModelSource(**model.source, files=_files(model.source["checkpoint_id"]))
    return ModelCreate(
        model_id=model.id,
        base_model=model.base_model,
        lora=LoraOptions.model_validate(model.lora),
        source=source,
        made_before=model.is_made,
    )


def sampler_message(sampler: TinkerSampler) -> SamplerCreate:
    """What a sampling session samples from."""
    message = SamplerCreate(sampling_session_id=sampler.id, base_model=sampler.base_model)
    if not sampler.model_path:
        return message
    return message.model_copy(
        update={
            "model_path": sampler.model_path,
            # without one it would sample from the base model
            "checkpoint_id": sampler.checkpoint_id or GONE,
            "files": _files(sampler.checkpoint_id),
        }
    )


def _files(checkpoint_id: str | None) -> list[StoredFile]:
    found = Checkpoint.objects.filter(id=checkpoint_id).first()
    return checkpoint_files(found) if found else []
