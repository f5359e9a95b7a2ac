"""The catalogue of base models: names that users choose, and where the weights of each are."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings

from console.catalogue.memory_estimate import ModelShape
from console.errors import InvalidRequest, UnknownBaseModel
from tinkerscript.wire.sessions import BaseModelView
from tinkerscript.wire.training.device_memory import token_values
from tinkerscript.wire.training.model_refusals import positions_count, window_reached
from tinkerscript.wire.training.models.quantised import weights_count

# Written last into a folder under DATA/models that an operator brought, which is not there yet without
# it: where the model came from, the SHA-256 of every file, and what loading it showed.
RECORD = "base_model.json"
CATALOGUE = Path(__file__).with_name("models.toml")


@dataclass(frozen=True)
class BaseModel:
    """One entry. ``path`` is a folder or a Hugging Face id; lengths are in tokens, None where not
    known.
    """

    name: str
    path: str
    parameters: int | None = None
    context_length: int | None = None
    license: str = ""
    tools: bool | None = None
    thoughts: bool | None = None


def base_model_list() -> list[BaseModelView]:
    """Every name that a session can start from."""
    models = _models()
    return [
        BaseModelView(
            name=model.name,
            parameters=_size(models, model.name),
            context_length=model.context_length,
            license=model.license,
            tools=model.tools,
            thoughts=model.thoughts,
            images=_has_images(model.path),
        )
        for model in models.values()
    ]


def _has_images(path: str) -> bool | None:
    config = _config(path)
    return bool(config.get("vision_config")) if config else None


def base_model_resolve(name: str) -> BaseModel:
    """The entry called ``name``; with DEBUG also any folder given by its path.

    Raises UnknownBaseModel (details.known lists the names), InvalidRequest when the weights are not
    on this machine.
    """
    return _resolve(_models(), name)


def _resolve(models: Mapping[str, BaseModel], name: str) -> BaseModel:
    model = models.get(name)
    if model is None and settings.DEBUG and Path(name).is_absolute() and Path(name).is_dir():
        model = _folder(name, name)
    if model is None:
        raise UnknownBaseModel(
            f"There is no base model called {name!r}.",
            hint=f"Choose one of: {', '.join(models)}. More can be added with `manage.py "
            "add_model`.",
            details={"known": list(models)},
        )
    if Path(model.path).is_absolute() and not Path(model.path).is_dir():
        raise InvalidRequest(
            f"The weights of {name} are not on this server: {model.path} does not exist.",
            hint=f"Run `python -m gpu_runtime.bundled_model {model.path}` on the server, or "
            "correct its settings.",
        )
    return model


def base_model_sizes(names: Iterable[str]) -> dict[str, int | None]:
    """The numbers of weights of the entries called so; None where one is not known, or the entry is
    not there any more. The catalogue is read once for all of them.
    """
    models = _models()
    return {name: _size(models, name) for name in names}


def _size(models: Mapping[str, BaseModel], name: str) -> int | None:
    try:
        model = _resolve(models, name)
        changed_at = 0 if model.parameters else Path(model.path).stat().st_mtime_ns
    except (UnknownBaseModel, InvalidRequest, OSError):
        return None
    return model.parameters or _weights_of(model.path, changed_at) or None


@lru_cache(maxsize=256)
def _weights_of(path: str, _changed_at: int) -> int:
    """Kept: every page of sessions asks for it, and a large folder has many headers."""
    return weights_count(Path(path))


def _models() -> dict[str, BaseModel]:
    with CATALOGUE.open("rb") as file:
        entries = tomllib.load(file)["model"]
    models = {}
    for entry in entries:
        source = entry.pop("source")
        path = str(settings.DATA / "models" / entry["name"]) if source == "bundled" else source
        models[entry["name"]] = BaseModel(path=path, **entry)
    for name, record in added_models().items():
        path = str(settings.DATA / "models" / name)
        models[name] = BaseModel(
            name,
            path,
            record["parameters"],
            record["context_length"],
            tools=record.get("tools"),
            thoughts=record.get("thoughts"),
        )
    return models | {name: _folder(name, path) for name, path in settings.EXTRA_MODELS.items()}


def added_models() -> dict[str, dict[str, Any]]:
    """The record of every model that an operator added, by name."""
    found = {}
    for path in sorted((settings.DATA / "models").glob(f"*/{RECORD}")):
        record = json.loads(path.read_text())
        found[record["name"]] = record
    return found


def base_model_shape(model: BaseModel) -> ModelShape | None:
    """What a memory estimate needs; None for a model that is neither on this machine nor of a known
    size.
    """
    config = _config(model.path)
    parameters = model.parameters or weights_count(Path(model.path))
    if not parameters:
        return None
    nested = config.get("text_config")
    whole = config | (nested if isinstance(nested, dict) else {})
    fields = {k: v for k, v in whole.items() if type(v) is int}
    hidden, layers = fields.get("hidden_size", 0), fields.get("num_hidden_layers", 0)
    heads = fields.get("num_attention_heads", 0)
    key_heads = fields.get("num_key_value_heads", heads)
    of_token = token_values(whole, has_windows=window_reached(whole, 1 << 62) > 0)
    return ModelShape(
        parameters,
        hidden,
        layers,
        fields.get("vocab_size", 0),
        of_token.count,
        heads,
        key_heads,
        fields.get("intermediate_size", 0),
        keeps_else=not of_token.is_whole,
    )


def _folder(name: str, path: str) -> BaseModel:
    return BaseModel(name=name, path=path, context_length=positions_count(Path(path)))


def _config(path: str) -> dict[str, Any]:
    """The folder's config.json; {} for an unreadable one, whose cause a runtime reports when it
    loads it.
    """
    try:
        config = json.loads((Path(path) / "config.json").read_text())
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}
