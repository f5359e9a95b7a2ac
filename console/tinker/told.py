"""What a runtime is told of the models and samplers that its client makes."""

from console.errors import NotFound
from console.sessions.models import Checkpoint
from console.tinker.checkpoints import checkpoint_files
from console.tinker.models import TinkerModel, TinkerSampler
from tinkerscript.wire.tinker.messages import LoraOptions, ModelCreate, ModelSource, SamplerCreate


def model_told(model: TinkerModel) -> ModelCreate:
    """The model's first operation. Raises NotFound when the state that it begins from is gone."""
    source = None
    if model.source is not None:
        stored = _stored(model.source["checkpoint_id"], model.source["path"])
        source = ModelSource(
            path=model.source["path"],
            checkpoint_id=stored.id,
            files=checkpoint_files(stored),
            optimizer=model.source["optimizer"],
        )
    return ModelCreate(
        model_id=model.id, base_model=model.base_model, lora=LoraOptions.model_validate(model.lora), source=source
    )


def sampler_told(sampler: TinkerSampler) -> SamplerCreate:
    """What a sampling session samples from. Raises NotFound when the checkpoint is gone."""
    told = SamplerCreate(sampling_session_id=sampler.id, base_model=sampler.base_model)
    if not sampler.model_path:
        return told
    stored = _stored(sampler.checkpoint_id, sampler.model_path)
    return told.model_copy(
        update={
            "model_path": sampler.model_path,
            "checkpoint_id": stored.id,
            "files": checkpoint_files(stored),
        }
    )


def _stored(checkpoint_id: str | None, path: str) -> Checkpoint:
    found = Checkpoint.objects.filter(id=checkpoint_id).first()
    if found is None:
        raise NotFound(f"The checkpoint {path} is gone.")
    return found
