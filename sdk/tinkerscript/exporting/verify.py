"""Whether a model's folder makes of texts what was trained: ids, conversations, theta. Files of
weights have to be there and whole; those that no training changes, a vision tower's, are read."""

import importlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinkerscript.wire.training.models.model_proof import NAME, digests, ids_of, thetas, written

from .folder_files import Json, json_read

MISSING = "it is missing"
ONE_FILE, INDEX, METADATA = "model.safetensors", "model.safetensors.index.json", "__metadata__"


@dataclass(frozen=True)
class Check:
    """One thing that was compared. ``problem`` is empty where it agrees."""

    name: str
    problem: str = ""


def folder_verify(folder: Path) -> list[Check]:
    """All that can be compared with the libraries that are there. Raises InvalidRequest for a
    folder without the record of what was trained, which every model that this version exports
    has."""
    proof, config = json_read(folder / NAME), json_read(folder / "config.json")
    found = digests(folder)
    checks = [
        Check(f"file {name}", _file_problem(found.get(name), digest))
        for name, digest in sorted(proof["files"].items())
    ]
    return [
        *checks,
        *_of_weights(folder),
        *_of_config(config, proof),
        *_of_library("tokenizers", _of_tokenizers, folder, proof),
        *_of_library("transformers", _of_transformers, folder, proof),
    ]


def _file_problem(found: str | None, digest: str) -> str:
    if found is None:
        return MISSING
    return "" if found == digest else "it is another file than the one that was trained with"


def _of_weights(folder: Path) -> Iterator[Check]:
    """A whole download has them all; a copy of it may not."""
    index, names = folder / INDEX, {ONE_FILE}
    if index.is_file():
        names = set(json_read(index)["weight_map"].values())
    for name in sorted(names):
        yield Check(f"file {name}", _shard_problem(folder / name))


def _shard_problem(path: Path) -> str:
    """Format: https://huggingface.co/docs/safetensors, eight bytes of the header's length, the
    header, and the tensors at the places that it names."""
    if not path.is_file():
        return MISSING
    found = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= found - 8:
            return f"it has no whole header in its {found} bytes"
        try:
            header = json.loads(file.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != METADATA]
        except (ValueError, LookupError, TypeError, AttributeError):
            return "its header is damaged"
    whole = 8 + length + max(ends, default=0)
    return "" if found == whole else f"it has {found} bytes, and {whole} are whole"


def _of_config(config: Json, proof: Json) -> Iterator[Check]:
    found, trained = thetas(config), proof["theta"]
    for name, value in sorted(trained.items()):
        yield _equal(f"config.json, {name}", found.get(name), value)
    main = trained.get("rope_parameters", trained.get("rope_parameters.full_attention"))
    if main is not None:
        yield _equal(
            "config.json, rope_theta beside rope_parameters", found.get("rope_theta"), main
        )
    yield _equal(
        "config.json, torch_dtype beside dtype", config.get("torch_dtype"), config.get("dtype")
    )


def _of_library(
    name: str, checks: Callable[[Any, Path, Json], Iterator[Check]], folder: Path, proof: Json
) -> Iterator[Check]:
    """What the library makes of the folder, where it is there. It fails at a damaged file with
    errors of many kinds, tokenizers with plain ones."""
    found = library(name)
    if found is None:
        return
    try:
        yield from checks(found, folder, proof)
    except Exception as failure:  # noqa: BLE001 - tokenizers raises no other
        said = " ".join(str(failure).split())
        yield Check(f"{name} {found.__version__}", f"it cannot read the folder: {_short(said)}")


def _of_tokenizers(found: Any, folder: Path, proof: Json) -> Iterator[Check]:
    if not (folder / "tokenizer.json").is_file():
        return
    tokenizer = found.Tokenizer.from_file(str(folder / "tokenizer.json"))
    for number, each in enumerate(proof["texts"]):
        ids = tokenizer.encode(each["text"], add_special_tokens=False).ids
        yield _equal(f"tokenizers {found.__version__}, ids of text {number}", ids, each["ids"])


def _of_transformers(found: Any, folder: Path, proof: Json) -> Iterator[Check]:
    name = f"transformers {found.__version__}"
    config = found.AutoConfig.from_pretrained(folder)
    trained = proof["theta"]
    main = trained.get("rope_parameters", trained.get("rope_parameters.full_attention"))
    if main is not None:
        yield _equal(f"{name}, theta", _theta(config), main)
    tokenizer = found.AutoTokenizer.from_pretrained(folder)
    for number, each in enumerate(proof["texts"]):
        yield _equal(f"{name}, ids of text {number}", ids_of(tokenizer, each["text"]), each["ids"])
    talk = proof["conversation"]
    yield _equal(f"{name}, conversation", written(tokenizer, talk["messages"]), talk["text"])


def _theta(config: Any) -> float | None:
    """As transformers 5 holds it, or 4."""
    read = config.get_text_config() if hasattr(config, "get_text_config") else config
    found = thetas({name: getattr(read, name, None) for name in ("rope_parameters", "rope_theta")})
    return next(
        (
            found[key]
            for key in ("rope_parameters", "rope_parameters.full_attention", "rope_theta")
            if key in found
        ),
        None,
    )


def _equal(name: str, found: Any, expected: Any) -> Check:
    return (
        Check(name)
        if found == expected
        else Check(name, f"{_short(found)}, and {_short(expected)} was trained")
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
