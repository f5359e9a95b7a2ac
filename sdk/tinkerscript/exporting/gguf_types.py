"""How each weight of a model is stored in a GGUF file, and its rows so stored.

Source of the mixture ``q4_k_m``: src/llama-quant.cpp of llama.cpp, ``llama_tensor_get_type_impl``
and ``tensor_type_fallback``.
"""

import re
from dataclasses import dataclass

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType as Stored

FILE_TYPES = {
    "f16": gguf.LlamaFileType.MOSTLY_F16,
    "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
    "q4_k_m": gguf.LlamaFileType.MOSTLY_Q4_K_M,
}
BASE = {"f16": Stored.F16, "q8_0": Stored.Q8_0, "q4_k_m": Stored.Q4_K}
# For rows that are no whole number of blocks of 256; what is left then is F16.
FALLBACK = {Stored.Q4_K: Stored.Q5_0, Stored.Q5_K: Stored.Q5_1, Stored.Q6_K: Stored.Q8_0}
# the `gguf` package reads these and does not write them
OF_LIBGGUF = (Stored.Q4_K, Stored.Q5_K, Stored.Q6_K)


@dataclass(frozen=True)
class Shape:
    """What of a model decides how its weights are stored."""

    layers: int
    is_tied: bool
    is_grouped: bool  # fewer heads of keys and values than of queries


def stored_as(name: str, columns: int, dimensions: int, kind: str, shape: Shape) -> Stored:
    """The type of the weight ``name`` (as llama.cpp calls it), whose rows have ``columns`` numbers.

    ``kind`` is one of BASE. Norms and biases stay in 32 bits.
    """
    if dimensions == 1:
        return Stored.F32
    wanted = BASE[kind]
    if wanted is Stored.Q4_K:
        wanted = _mixed(name, shape)
    for allowed in (wanted, FALLBACK.get(wanted, Stored.F16)):
        if columns % gguf.GGML_QUANT_SIZES[allowed][0] == 0:
            return allowed
    return Stored.F16


def rows_stored(values: np.ndarray, stored: Stored) -> np.ndarray:
    """``values`` (32 bits) in blocks of ``stored``. The package `libgguf` is needed for OF_LIBGGUF
    alone.
    """
    if stored in OF_LIBGGUF:
        import libgguf

        return libgguf.quantize_rows(values, stored)
    return gguf.quants.quantize(values, stored)


def _mixed(name: str, shape: Shape) -> Stored:
    """The type of a weight of ``q4_k_m``: in 4 bits; the output, and two weights of some layers, in
    6.
    """
    if name == "output.weight" or (shape.is_tied and name == "token_embd.weight"):
        return Stored.Q6_K
    found = re.fullmatch(r"blk\.(\d+)\.(attn_v|ffn_down)\.weight", name)
    if found is None:
        return Stored.Q4_K
    layer, eighth = int(found[1]), shape.layers // 8
    if layer < eighth or layer >= 7 * shape.layers // 8 or (layer - eighth) % 3 == 2:
        return Stored.Q6_K
    # what llama.cpp takes for a model of 70B
    if found[2] == "attn_v" and shape.layers == 80 and shape.is_grouped:
        return Stored.Q5_K
    return Stored.Q4_K
