"""Whether a model's folder makes of texts what was trained: ids, conversations, theta. Of weights
those are read that no training changes: a vision tower's."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinkerscript.wire.training.models.model_proof import NAME, digests, ids_of, thetas, written

from .folder_files import Json, json_read


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
    checks = [
        _equal(f"file {name}", digests(folder).get(name), digest)
        for name, digest in sorted(proof["files"].items())
    ]
    return [
        *checks,
        *_of_config(config, proof),
        *_of_tokenizers(folder, proof),
        *_of_transformers(folder, proof),
    ]


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


def _of_tokenizers(folder: Path, proof: Json) -> Iterator[Check]:
    found = library("tokenizers")
    if found is None or not (folder / "tokenizer.json").is_file():
        return
    tokenizer = found.Tokenizer.from_file(str(folder / "tokenizer.json"))
    for number, each in enumerate(proof["texts"]):
        ids = tokenizer.encode(each["text"], add_special_tokens=False).ids
        yield _equal(f"tokenizers {found.__version__}, ids of text {number}", ids, each["ids"])


def _of_transformers(folder: Path, proof: Json) -> Iterator[Check]:
    found = library("transformers")
    if found is None:
        return
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
