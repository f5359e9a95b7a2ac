"""Whether a model's folder is what was trained: the bytes of weights and tokenizer, and what the
libraries here make of texts: ids, conversations, theta."""

import importlib
from collections.abc import Callable, Iterator
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
    found, exported = digests(folder), proof["files"]
    checks = [
        Check(f"file {name}", _file_problem(found.get(name), exported.get(name)))
        for name in sorted(found | exported)
    ]
    return [
        *checks,
        *_of_config(config, proof),
        *_of_library("tokenizers", _of_tokenizers, folder, proof),
        *_of_library("transformers", _of_transformers, folder, proof),
    ]


def _file_problem(found: str | None, exported: str | None) -> str:
    if found is None:
        return "it is missing"
    if exported is None:
        return "the export had no such file"  # a loader may take it in place of another
    return "" if found == exported else "its bytes are others than those of the export"


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
