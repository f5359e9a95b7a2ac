"""A ``config.json`` that transformers 4 reads as transformers 5 does: its keys beside those of 5.

Version 5 writes ``rope_parameters`` and ``dtype``. Version 4 reads ``rope_theta``,
``rope_scaling``, ``partial_rotary_factor`` and ``torch_dtype``. Where they are missing it takes its
own defaults and gives no warning. Version 5 reads both forms. Source: ``PretrainedConfig`` and
``modeling_rope_utils`` of 4.57 and 5.
"""

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
# Kinds of positions that version 4 computes. A model of another (Gemma 4: "proportional") is newer
# than it, and version 5 would take an incomplete ``rope_scaling`` for what counts.
KNOWN = {"default", "linear", "dynamic", "yarn", "longrope", "llama3"}


def older_keys_add(folder: Path) -> None:
    """To the ``config.json`` of ``folder``."""
    path = folder / "config.json"
    path.write_text(
        json.dumps(with_older_keys(json.loads(path.read_text())), indent=2, sort_keys=True) + "\n"
    )


def with_older_keys(config: Json) -> Json:
    """``config`` and that of each part of it (of text, of vision). What a key says already stands.

    Example: ``with_older_keys({"dtype": "float32"}) == {"dtype": "float32", "torch_dtype":
    "float32"}``.
    """
    found = {
        name: with_older_keys(value)
        if name.endswith("_config") and isinstance(value, dict)
        else value
        for name, value in config.items()
    }
    if isinstance(dtype := config.get("dtype"), str):
        found.setdefault("torch_dtype", dtype)
    rope = config.get("rope_parameters")
    if not isinstance(rope, dict):
        return found
    if "rope_theta" in rope or "rope_type" in rope:
        return _rope(rope) | found
    # By kinds of layers, as Gemma 3 has them: version 4 has a second theta for the local ones.
    whole, local = rope.get("full_attention"), rope.get("sliding_attention")
    if not isinstance(whole, dict) or whole.get("rope_type", "default") not in KNOWN:
        return found
    older = _rope(whole)
    if isinstance(local, dict) and "rope_theta" in local:
        older["rope_local_base_freq"] = local["rope_theta"]
    return older | found


def _rope(parameters: Json) -> Json:
    """``rope_parameters`` of one kind of layer in the form of version 4."""
    apart = ("rope_theta", "partial_rotary_factor")
    older = {name: parameters[name] for name in apart if name in parameters}
    scaling = {name: value for name, value in parameters.items() if name not in apart}
    is_scaled = scaling.get("rope_type", "default") != "default"
    return older | ({"rope_scaling": scaling} if is_scaled else {})
