"""A quantised folder as a plain one in bfloat16: ``python -m gpu_runtime.weights.dequantise FOLDER
TARGET``.

Tensor by tensor, so that memory holds one file's weights: names, and whatever is not quantised,
stay as they are. Which folders: METHODS of ``tinkerscript.wire.training.models.quantised``.
"""

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from gpu_runtime.failures.input_errors import said
from tinkerscript.wire.training.models.quantised import (
    BLOCKS,
    SCALES,
    quantisation_of,
    quantised_refusal,
)
from tinkerscript.wire.training.models.weight_files import INDEX, Stored, weights_stored

DTYPE = torch.bfloat16
# Scales of activations and of keys and values, which are no weights.
BESIDE = ("activation_scale", "input_scale", "output_scale", "k_scale", "v_scale", "q_scale")
FULL = ("F64", "F32", "F16", "BF16", "I64", "I32", "BOOL")  # types of tensors that are not packed


class DequantiseError(Exception):
    """The folder cannot be computed in full; the message names the tensor."""


class Converter(Protocol):
    """As compressed-tensors' own."""

    def get_dependencies(self, weight_name: str) -> set[str]:
        """The names of what is needed beside a tensor to compute it in full."""
        ...

    def process(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights that ``tensors``, one with what it needs, are packed of."""
        ...


def folder_dequantise(folder: Path, target: Path) -> None:
    """Write the model of ``folder`` to ``target``, which is there and empty. Raises
    DequantiseError.
    """
    whole = json.loads((folder / "config.json").read_text())
    found = quantisation_of(whole)
    if refusal := quantised_refusal(whole, folder):
        raise DequantiseError(refusal)
    stored = weights_stored(folder)
    if found is None or not stored:
        raise DequantiseError(f"{folder.name} is not quantised, or has no weights in safetensors")
    converter = _converter(folder, found, stored)
    beside = {name for each in stored for name in converter.get_dependencies(each)}
    kept = [name for name in stored if name not in beside and not name.endswith(BESIDE)]
    places = dict[str, str]()
    for file in sorted({stored[name].file for name in kept}):
        tensors = dict(_in_full(folder, converter, stored, file, kept))
        save_file(tensors, target / file, metadata={"format": "pt"})
        places |= dict.fromkeys(tensors, file)
    size = sum((target / file).stat().st_size for file in set(places.values()))
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(places.items()))}
    if (folder / INDEX).exists():
        (target / INDEX).write_text(json.dumps(index, indent=2) + "\n")
    (target / "config.json").write_text(json.dumps(_plain(whole), indent=2) + "\n")
    for path in folder.iterdir():
        is_written = path.name in (INDEX, "config.json") or path.suffix == ".safetensors"
        if path.is_file() and not is_written:
            shutil.copyfile(path, target / path.name)


@contextmanager
def in_full(folder: Path) -> Iterator[Path]:
    """``folder`` itself if it is plain, else what it is in full, beside it for as long as the block
    lasts. Raises DequantiseError."""
    if quantisation_of(json.loads((folder / "config.json").read_text())) is None:
        yield folder
        return
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-in-full-") as target:
        folder_dequantise(folder, Path(target))
        yield Path(target)


def _in_full(
    folder: Path,
    converter: Converter,
    stored: Mapping[str, Stored],
    file: str,
    kept: list[str],
) -> Iterator[tuple[str, Tensor]]:
    """Of the tensors ``kept`` those in ``file``, with what they need from any file."""
    with ExitStack() as opened:
        files = dict[str, Any]()

        def read(name: str) -> Tensor:
            if name not in stored:
                raise DequantiseError(f"no file of weights has {name}, which its neighbours need")
            path = stored[name].file
            if path not in files:
                files[path] = opened.enter_context(safe_open(folder / path, "pt"))
            tensor: Tensor = files[path].get_tensor(name)
            return tensor

        for name in kept:
            if stored[name].file != file:
                continue
            needs = converter.get_dependencies(name)
            is_full = stored[name].dtype in FULL
            # compressed-tensors wants a scale for the weight of every module, norms too
            if is_full and not any(each in stored for each in needs):
                yield name, read(name)
                continue
            if not needs:
                raise DequantiseError(
                    f"{file} has {name} of type {stored[name].dtype}, and no scale for it"
                )
            try:
                yield from converter.process({each: read(each) for each in (name, *needs)}).items()
            except (ValueError, KeyError, RuntimeError) as error:
                raise DequantiseError(f"{file}: {name} is not packed as told: {error}") from error


def _converter(folder: Path, found: Mapping[str, Any], stored: Mapping[str, Stored]) -> Converter:
    if found["quant_method"] == "fp8":
        return Fp8(stored, found.get("weight_block_size"))
    if found["quant_method"] == "mxfp4":
        return Mxfp4(stored)
    from compressed_tensors.entrypoints.convert import CompressedTensorsDequantizer

    made: Converter = CompressedTensorsDequantizer(folder, dtype=DTYPE)
    return made


class Fp8:
    """A weight in FP8 beside its scale: one, or one for each block of a grid over it."""

    def __init__(self, stored: Mapping[str, Stored], block: Sequence[int] | None) -> None:
        self._stored, self._block = stored, block

    def get_dependencies(self, weight_name: str) -> set[str]:
        """The scale."""
        names = (f"{weight_name}_scale_inv", f"{weight_name}_scale")
        return set([each for each in names if each in self._stored][:1])

    def process(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """W[i, j] = Q[i, j] * S[i // rows of a block, j // columns of a block]."""
        (name, packed), (_, scale) = tensors.items()
        return {name: fp8_in_full(packed, scale, self._block)}


def fp8_in_full(packed_ON: Tensor, scale_GH: Tensor, block: Sequence[int] | None = None) -> Tensor:
    """``packed_ON`` [..., out, in] times its scales in bfloat16.

    A scale is of a ``block`` of rows and columns, the last of which may be cut off; of equal parts
    where the folder tells no block, or another one. Source: ``weight_dequant`` of DeepSeek-V3's
    own inference code.
    """
    scale_GH = scale_GH.float()
    if scale_GH.numel() == 1:
        return (packed_ON.float() * scale_GH.reshape(())).to(DTYPE)
    for axis, told in zip((-2, -1), block or (0, 0), strict=True):
        size, parts = packed_ON.shape[axis], scale_GH.shape[axis]
        of_each = told if told and -(-size // told) == parts else size // parts
        if of_each * parts < size:
            raise ValueError(f"{size} numbers have no {parts} blocks")
        scale_GH = scale_GH.repeat_interleave(of_each, axis).narrow(axis, 0, size)
    return (packed_ON.float() * scale_GH).to(DTYPE)


class Mxfp4:
    """Experts of GPT-OSS: blocks of 32 numbers in four bits, with one exponent for each block."""

    def __init__(self, stored: Mapping[str, Stored]) -> None:
        self._stored = stored

    def get_dependencies(self, weight_name: str) -> set[str]:
        """The exponents."""
        scales = weight_name.removesuffix(BLOCKS) + SCALES
        return {scales} if weight_name.endswith(BLOCKS) and scales in self._stored else set()

    def process(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """By transformers' own function."""
        from transformers.integrations.mxfp4 import convert_moe_packed_tensors

        (name, blocks), (_, scales) = tensors.items()
        full = convert_moe_packed_tensors(blocks, scales, dtype=DTYPE)
        return {name.removesuffix(BLOCKS): full.contiguous()}


def _plain(whole: Mapping[str, Any]) -> dict[str, Any]:
    """config.json without its quantisation, its weights of DTYPE."""
    others = {
        name: _plain(value) if name == "text_config" else value
        for name, value in whole.items()
        if name not in ("quantization_config", "compression_config")
    }
    names = [name for name in ("dtype", "torch_dtype") if name in others]
    return others | dict.fromkeys(names, str(DTYPE).removeprefix("torch."))


if __name__ == "__main__":
    try:
        folder_dequantise(Path(sys.argv[1]), Path(sys.argv[2]))
    except (DequantiseError, OSError) as error:
        raise SystemExit(f"error: {said(error)}") from error
