"""The catalogue of base models: names that users choose, and where the weights of each are."""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from console.errors import InvalidRequest, UnknownBaseModel
from tinkerscript.wire.sessions import BaseModelView

CATALOGUE = Path(__file__).resolve().parent.parent / "models.toml"


@dataclass(frozen=True)
class BaseModel:
    """One entry. ``path`` is a folder or a Hugging Face id; lengths are in tokens, None where not known."""

    name: str
    path: str
    parameters: int | None = None
    context_length: int | None = None
    license: str = ""


def base_model_list() -> list[BaseModelView]:
    """Every name that a session can start from."""
    return [
        BaseModelView(
            name=model.name,
            parameters=model.parameters,
            context_length=model.context_length,
            license=model.license,
        )
        for model in _models().values()
    ]


def base_model_resolve(name: str) -> BaseModel:
    """The entry called ``name``; with DEBUG also any folder given by its path.

    Raises UnknownBaseModel (details.known lists the names), InvalidRequest when the weights are not on this machine.
    """
    models = _models()
    model = models.get(name)
    if model is None and settings.DEBUG and Path(name).is_absolute() and Path(name).is_dir():
        model = _folder(name, name)
    if model is None:
        raise UnknownBaseModel(
            f"There is no base model called {name!r}.",
            hint=f"Choose one of: {', '.join(models)}. More can be added with TINKERSCRIPT_MODELS.",
            details={"known": list(models)},
        )
    if Path(model.path).is_absolute() and not Path(model.path).is_dir():
        raise InvalidRequest(
            f"The weights of {name} are not on this server: {model.path} does not exist.",
            hint=f"Run `python -m gpu_runtime.bundled_model {model.path}` on the server, or correct its settings.",
        )
    return model


def _models() -> dict[str, BaseModel]:
    with CATALOGUE.open("rb") as file:
        entries = tomllib.load(file)["model"]
    models = {}
    for entry in entries:
        source = entry.pop("source")
        path = str(settings.DATA / "models" / entry["name"]) if source == "bundled" else source
        models[entry["name"]] = BaseModel(path=path, **entry)
    return models | {name: _folder(name, path) for name, path in settings.EXTRA_MODELS.items()}


def _folder(name: str, path: str) -> BaseModel:
    """What a folder says of itself; an unreadable one is found out when a runtime loads it, with the cause."""
    try:
        config = json.loads((Path(path) / "config.json").read_text())
    except (OSError, ValueError):
        config = {}
    length = config.get("max_position_embeddings") if isinstance(config, dict) else None
    return BaseModel(name=name, path=path, context_length=length if isinstance(length, int) else None)
