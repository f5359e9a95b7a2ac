"""Further places where runtimes run, beside the one that TINKERSCRIPT_LAUNCHER describes: clusters,
from a TOML file.

    [lab]
    kind = "h100x8"
    launcher = "slurm"
    max_runtimes = 4
    runtime_gpus = 8
    runtime_cpus = 64
    runtime_memory_gib = 400
    slurm_options = "--partition=gpu"

A table is a place. Its keys are ``kind``, ``max_runtimes``, and the launcher's settings: their
variables' names in small letters without ``TINKERSCRIPT_``. A session names a place, or a kind that
several places may have.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from console.config.environment import PREFIX, removed_find
from console.scheduling.launchers.options import (
    CHOICE,
    LAUNCHERS,
    VARIABLES,
    LauncherOptions,
    launcher_options_read,
)
from tinkerscript.wire.config import HERE, PLACE_PATTERN

VARIABLE = "TINKERSCRIPT_PLACES"
CLUSTERS = [name for name, row in LAUNCHERS.items() if not row.names_devices]
OWN_KEYS = {"kind", "launcher", "max_runtimes"}
MOST_RUNTIMES = 10_000


@dataclass(frozen=True)
class Place:
    """A cluster that runs up to ``max_runtimes`` runtimes of this server."""

    name: str
    kind: str
    max_runtimes: int
    options: LauncherOptions


def tables_read(path: str) -> dict[str, dict[str, Any]]:
    """The tables of the file as they are; none without a file. Raises ImproperlyConfigured."""
    if not path:
        return {}
    try:
        tables = tomllib.loads(Path(path).expanduser().read_text())
    except OSError as error:
        raise ImproperlyConfigured(
            f"{VARIABLE}={path!r} cannot be read: {error.strerror}."
        ) from None
    except ValueError as error:  # TOML's and UTF-8's
        raise ImproperlyConfigured(f"{VARIABLE}={path!r} is no TOML file: {error}.") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ImproperlyConfigured(
                f"{VARIABLE}: {name} stands outside a table; a place begins with [name]."
            )
    return tables


def launchers_named(tables: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The launchers of these places, before anything of them is checked."""
    return {str(table.get("launcher", "")) for table in tables.values()}


def places_read(
    tables: Mapping[str, Mapping[str, Any]], *, server_url: str, s3_endpoint_url: str
) -> dict[str, Place]:
    """The places by name. Raises ImproperlyConfigured, with the place's name, for what one could
    not run with.
    """
    places = {}
    for name, table in tables.items():
        try:
            places[name] = _place(
                name, table, server_url=server_url, s3_endpoint_url=s3_endpoint_url
            )
        except ImproperlyConfigured as error:
            raise ImproperlyConfigured(f"{VARIABLE}, place {name}: {error}") from None
    if both := {place.kind for place in places.values()} & {HERE, *places}:
        raise ImproperlyConfigured(
            f"{VARIABLE}: {', '.join(sorted(both))} is the name of a place and a kind."
        )
    return places


def _place(name: str, table: Mapping[str, Any], *, server_url: str, s3_endpoint_url: str) -> Place:
    if name == HERE:
        raise ImproperlyConfigured(
            f"{HERE!r} is the place that {CHOICE} and the other variables describe."
        )
    known = OWN_KEYS | {variable.removeprefix(PREFIX).lower() for variable in VARIABLES}
    if unknown := sorted(set(table) - known):
        if instead := removed_find(PREFIX + unknown[0].upper()):
            raise ImproperlyConfigured(f"{unknown[0]}: {instead}")
        raise ImproperlyConfigured(
            f"{unknown[0]!r} is no key of a place; there are {', '.join(sorted(known))}."
        )
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ImproperlyConfigured(f"{key} is {value!r}; give a text or a whole number.")
    kind, most = str(table.get("kind", "")), table.get("max_runtimes")
    for text in (name, kind):
        if not re.fullmatch(PLACE_PATTERN, text):
            raise ImproperlyConfigured(
                f"{text!r} is no name of a place or kind: small letters, digits and hyphens."
            )
    if not isinstance(most, int) or not 1 <= most <= MOST_RUNTIMES:
        raise ImproperlyConfigured(
            f"max_runtimes is {most!r}; give a whole number from 1 to {MOST_RUNTIMES}."
        )
    if table.get("launcher") not in CLUSTERS:
        raise ImproperlyConfigured(
            f"launcher is {table.get('launcher')!r}; a further place is a cluster, of "
            f"{', '.join(CLUSTERS)}."
        )
    source = {
        PREFIX + key.upper(): str(value) for key, value in table.items() if key not in OWN_KEYS
    }
    options = launcher_options_read(
        server_url=server_url,
        s3_endpoint_url=s3_endpoint_url,
        most=most,
        source=source | {CHOICE: table["launcher"]},
    )
    return Place(name, kind, most, options)
