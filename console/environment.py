"""How settings are read from the environment. A malformed value stops start-up and is named."""

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def read_text(name: str, default: str, *, among: tuple[str, ...] = ()) -> str:
    """A variable's text, one of ``among`` where that is given. An empty variable counts as absent."""
    value = os.environ.get(name, "").strip() or default
    if among and value not in among:
        raise ImproperlyConfigured(f"{name}={value!r} is not one of {', '.join(among)}.")
    return value


def read_int(name: str, default: int, *, low: int, high: int) -> int:
    """A whole number between ``low`` and ``high``."""
    value = read_text(name, str(default))
    if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
        raise ImproperlyConfigured(f"{name}={value!r} is not a whole number from {low} to {high}.")
    return int(value)


def read_url(name: str, default: str, *, schemes: tuple[str, ...]) -> str:
    """A URL with one of ``schemes``, without its last slash."""
    value = read_text(name, default).rstrip("/")
    scheme, separator, rest = value.partition("://")
    if value and (scheme not in schemes or not separator or not rest):
        raise ImproperlyConfigured(f"{name}={value!r} is not a URL that starts with {' or '.join(schemes)}://.")
    return value


def read_pairs(name: str, *, form: str) -> dict[str, str]:
    """``key=value,key=value`` as a dict; ``form`` is what an entry looks like, for the message."""
    pairs = {}
    for entry in filter(None, read_text(name, "").split(",")):
        key, separator, value = (part.strip() for part in entry.partition("="))
        if not (separator and key and value):
            raise ImproperlyConfigured(f"{name}: {entry!r} does not read {form}.")
        pairs[key] = value
    return pairs


def read_models(name: str) -> dict[str, str]:
    """``name=/folder,name=/folder`` as a dict."""
    models = read_pairs(name, form="name=/absolute/folder")
    for model, folder in models.items():
        if not Path(folder).is_absolute():
            raise ImproperlyConfigured(f"{name}: {model}={folder!r} does not read name=/absolute/folder.")
    return models
