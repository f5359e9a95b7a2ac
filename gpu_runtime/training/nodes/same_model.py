"""Whether every node has the same base model: the same files, to the byte.

Below ZeRO 3 DeepSpeed would silently give every rank the weights of the first; under it each would
keep its own part of another model.
"""

import hashlib
from pathlib import Path

from gpu_runtime.errors import NodesDiffer

HASHED = ("*.json", "*.safetensors")


def model_digest(folder: Path) -> str:
    """A hash of configuration, tokenizer and weights; of nothing where there is no such folder."""
    whole = hashlib.sha256()
    for path in sorted(path for pattern in HASHED for path in folder.glob(pattern)):
        with path.open("rb") as file:
            whole.update(
                f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode()
            )
    return whole.hexdigest()


def same_model_verify(model: str, node: str) -> None:
    """A collective of all ranks, before any has loaded the model. Raises NodesDiffer on each, with
    the nodes' names.
    """
    import torch.distributed as dist

    found: list[tuple[str, str]] = [("", "")] * dist.get_world_size()
    dist.all_gather_object(found, (node, model_digest(Path(model))))
    first = found[0]
    if others := sorted({name for name, digest in found if digest != first[1]}):
        raise NodesDiffer(
            f"the base model in {model} is not the same on every node: on {', '.join(others)} its "
            "files are others"
            f" than on {first[0]}"
        )
