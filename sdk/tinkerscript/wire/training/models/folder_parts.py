"""Whether the files of a model's folder belong to one another: configuration, weights, towers.

By the headers of its files alone, so that a folder whose parts come from two models is refused
before anything is started. What no header shows is found when the model is loaded
(``gpu_runtime.training.policy``) and rehearsed.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tinkerscript.wire.training.models.weight_files import Stored

# How names of the embedding of tokens end.
EMBEDDINGS = (
    "embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight", "backbone.embeddings.weight",
)  # fmt: skip
HEADS = ("lm_head.weight", "embed_out.weight")
# Of embeddings that are not as wide as the layers.
OTHER_WIDTHS = ("word_embed_proj_dim", "embedding_size", "embed_dim")
# The field of a tower, with words of which each name of its weights has one.
TOWERS = {
    "vision_config": ("vision", "visual", "image", "img", "vit."),
    "audio_config": ("audio", "speech", "sound", "conformer"),
}
TOWER_MODULES = {"visual", "vision_tower", "vision_model", "audio_tower"}
BESIDE = ("vision", "visual", "audio", "mtp")  # in names of layers that are not the text's
LAYER = re.compile(r"^(.*?)(?:layers|h|blocks)\.(\d+)\.")
COUNTS = ("num_hidden_layers", "n_layer", "num_layers")
IDS = ("bos_token_id", "eos_token_id", "pad_token_id")


def parts_refusal(
    whole: Mapping[str, Any],
    fields: Mapping[str, Any],
    stored: Mapping[str, Stored],
    generation: Mapping[str, Any],
) -> str | None:
    """Which two parts of a folder do not fit, with file and field; None where nothing shows.

    ``whole`` is config.json, ``fields`` the same with its text part's fields in their place,
    ``stored`` the weights by their names, ``generation`` generation_config.json.
    """
    return next(
        (
            why
            for why in (
                _vocabulary(fields, stored),
                _width(fields, stored),
                _head(whole, fields, stored),
                _layers(fields, stored),
                _tower(whole, stored),
                _special(whole, fields, generation),
            )
            if why
        ),
        None,
    )


def _vocabulary(fields: Mapping[str, Any], stored: Mapping[str, Stored]) -> str | None:
    size = fields.get("vocab_size")
    for kinds in (EMBEDDINGS, HEADS):
        found = {name: it for name, it in _named(stored, kinds) if len(it.shape) == 2}
        if isinstance(size, int) and found and all(it.shape[0] != size for it in found.values()):
            name, it = next(iter(found.items()))
            return (
                f"config.json has vocab_size {size}, and {it.file} has {name} of {it.shape[0]} "
                "tokens; take both from the same model"
            )
    return None


def _width(fields: Mapping[str, Any], stored: Mapping[str, Stored]) -> str | None:
    width = fields.get("hidden_size")
    found = dict(_named(stored, EMBEDDINGS))
    if not isinstance(width, int) or not found or any(fields.get(name) for name in OTHER_WIDTHS):
        return None
    if all(it.shape[1:] != (width,) for it in found.values()):
        name, it = next(iter(found.items()))
        return (
            f"config.json has hidden_size {width}, and {it.file} has {name} of shape "
            f"{list(it.shape)}; take both from the same model"
        )
    return None


def _head(
    whole: Mapping[str, Any], fields: Mapping[str, Any], stored: Mapping[str, Stored]
) -> str | None:
    """A head of its own that no file has would be filled with noise."""
    told = [
        part["tie_word_embeddings"] for part in (whole, fields) if "tie_word_embeddings" in part
    ]
    embeddings = dict(_named(stored, EMBEDDINGS))
    if not told or any(told) or not embeddings:
        return None
    size = fields.get("vocab_size")
    others = {name: it for name, it in stored.items() if name not in embeddings}
    if any(
        size in it.shape or "head" in name
        for name, it in others.items()
        if not any(word in name for word in BESIDE)
    ):
        return None
    return (
        "config.json has tie_word_embeddings false, and no file of weights has a head (lm_head); "
        "take all files of the model, or set the field to true where its head is its embedding"
    )


def _layers(fields: Mapping[str, Any], stored: Mapping[str, Stored]) -> str | None:
    field = next((name for name in COUNTS if isinstance(fields.get(name), int)), None)
    stacks = defaultdict[str, dict[int, str]](dict)
    for name, it in stored.items():
        found = LAYER.match(name)
        if found and not any(word in found[1] for word in BESIDE):
            stacks[found[1]].setdefault(int(found[2]), it.file)
    if field is None or not stacks:
        return None
    count, layers = fields[field], max(stacks.values(), key=len)
    if missing := sorted(set(range(count)) - set(layers)):
        return (
            f"config.json has {field} {count}, and no file of weights has layer {missing[0]} "
            f"(counted from 0); take both from the same model"
        )
    # layers that predict further tokens stand behind the others, and are not trained
    if any("nextn" in name or "mtp" in name for name in fields):
        return None
    if more := sorted(set(layers) - set(range(count))):
        return (
            f"config.json has {field} {count}, and {layers[more[0]]} has layer {more[0]} (counted "
            "from 0), which would be left out; take both from the same model"
        )
    return None


def _tower(whole: Mapping[str, Any], stored: Mapping[str, Stored]) -> str | None:
    if not stored:
        return None
    for field, words in TOWERS.items():
        if whole.get(field) and not any(word in name for name in stored for word in words):
            return (
                f"config.json has {field}, and no file of weights has that tower; take all files "
                "of the model, or the folder of its text model"
            )
    of_towers = (name for name in stored if TOWER_MODULES & set(name.split(".")))
    words = tuple(word for each in TOWERS.values() for word in each)
    if (name := next(of_towers, None)) and not any(word in key for key in whole for word in words):
        return (
            f"{stored[name].file} has {name}, and config.json has no vision_config and no "
            "audio_config: exports would lose that tower; take the configuration of the whole model"
        )
    return None


def _special(
    whole: Mapping[str, Any], fields: Mapping[str, Any], generation: Mapping[str, Any]
) -> str | None:
    """Ids of tokens that the head does not have: a model would never end its answer."""
    size = fields.get("vocab_size")
    told = [("config.json", name, fields.get(name, whole.get(name))) for name in IDS]
    told.append(("generation_config.json", "eos_token_id", generation.get("eos_token_id")))
    for file, name, value in told:
        for each in value if isinstance(value, list) else [value]:
            if isinstance(size, int) and type(each) is int and each >= size > 0:
                return (
                    f"{file} has {name} {each}, and its vocab_size is {size}: its tokens end at "
                    f"{size - 1}; correct the field"
                )
    return None


def _named(stored: Mapping[str, Stored], ends: tuple[str, ...]) -> Iterator[tuple[str, Stored]]:
    return (
        (name, it)
        for name, it in stored.items()
        if name.endswith(ends) and not any(word in name for word in BESIDE)
    )
