"""How settings are read from the environment. A malformed value stops start-up and is named."""

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured

from tinkerscript.processes.port_owner import trusted_users

PREFIX = "TINKERSCRIPT_"
DEFAULT_PORTS = {"http": 80, "https": 443}
HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?")
# Not the server's, and set where it runs all the same: the client's, and what launchers give to
# runtimes.
OTHERS = frozenset(
    PREFIX + name
    for name in (
        "API_KEY", "BASE_URL", "LAUNCH", "LEASE", "RUNTIME_ADDRESS", "RUNTIME_DIR", "RUNTIME_LISTEN", "SERVER_URL",
    )
)  # fmt: skip
_KEEP = (
    "Set TINKERSCRIPT_KEEP_DAYS=checkpoints=30,records=400,episodes=90, with those that you need."
)
_OIDC = (
    "Set TINKERSCRIPT_OIDC_OPTIONS=name=Example Lab,scopes=openid profile email groups,"
    "groups_claim=groups,trusted_domains=lab.example.org, with those that you need."
)
_KUBERNETES = (
    "Set TINKERSCRIPT_KUBERNETES=namespace=runtimes,claim=data,context=lab, with those that you "
    'need. In a place of TINKERSCRIPT_PLACES: kubernetes = "namespace=runtimes,claim=data".'
)
# Settings of earlier releases, by the start of their names without PREFIX, and what to use instead.
REMOVED = {
    "SHARED_COUNTS": "Web processes count together in Redis alone: set REDIS_URL, and "
    "remove this one.",
    "SECRET_KEY_PREVIOUS": "TINKERSCRIPT_SECRET_KEY takes both keys: the new one, a space, the one "
    "before it.",
    "AUDIT_KEY": "Write the key to the file audit_key of TINKERSCRIPT_DATA, readable by the "
    "server's user alone, and remove this one.",
    "SIGN_UP_DOMAINS": "Set TINKERSCRIPT_SIGN_UP=example.org,lab.example.org.",
    "MAIL_FROM": "Name the sender in TINKERSCRIPT_SMTP_URL: "
    "smtp://user:password@host:587?from=tinkerscript@example.org.",
    "CHECKPOINT_DAYS": _KEEP,
    "RECORD_DAYS": _KEEP,
    "EPISODE_DAYS": _KEEP,
    "OIDC_NAME": _OIDC,
    "OIDC_TRUSTED_DOMAINS": _OIDC,
    "OIDC_GROUPS_CLAIM": _OIDC,
    "OIDC_SCOPES": _OIDC,
    "DISABLE_SERVER_SIDE_CURSORS": "Write ?pool_mode=transaction behind DATABASE_URL.",
    "DOCKER_NETWORK": "The network of runtimes is always tinkerscript-runtimes: remove this one.",
    "KUBERNETES_NAMESPACE": _KUBERNETES,
    "KUBERNETES_CLAIM": _KUBERNETES,
    "KUBERNETES_CONTEXT": _KUBERNETES,
    "SAML_": (
        "SAML is not supported any more. Use OpenID Connect (TINKERSCRIPT_OIDC_ISSUER): Keycloak, "
        "Authentik or Dex "
        "translate from SAML to it (docs/operations/identity-provider.md)."
    ),
}
_read: set[str] = set()


def unknown_refuse() -> None:
    """Every setting was read by now. Raises ImproperlyConfigured for a variable of ours that none
    of them is.
    """
    known = sorted(_read | OTHERS)
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known:
            if instead := removed_find(name):
                raise ImproperlyConfigured(f"{name}: {instead}")
            near = get_close_matches(name, known, n=1, cutoff=0.6)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise ImproperlyConfigured(
                f"{name} is no setting of this server.{meant} docs/operations lists them all."
            )


def removed_find(name: str) -> str | None:
    """What to use instead of a variable that an earlier release had; None for any other."""
    starts = (start for start in REMOVED if name.startswith(PREFIX + start))
    return REMOVED.get(next(starts, ""))


def read_text(
    name: str, default: str, *, among: tuple[str, ...] = (), source: Mapping[str, str] = os.environ
) -> str:
    """A variable's text, one of ``among`` where that is given. An empty variable counts as absent.

    ``source`` has the variables: the environment, or those that a file gives a place
    (console/scheduling/launchers/places.py).
    """
    _read.add(name)
    value = source.get(name, "").strip() or default
    if among and value not in among:
        raise ImproperlyConfigured(f"{name}={value!r} is not one of {', '.join(among)}.")
    return value


def read_int(
    name: str, default: int, *, low: int, high: int, source: Mapping[str, str] = os.environ
) -> int:
    """A whole number between ``low`` and ``high``."""
    value = read_text(name, str(default), source=source)
    if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
        raise ImproperlyConfigured(f"{name}={value!r} is not a whole number from {low} to {high}.")
    return int(value)


def read_url(name: str, default: str, *, schemes: tuple[str, ...]) -> str:
    """A URL with one of ``schemes``, without its last slash. Of http and https, its scheme and host
    are in small letters, and a port that is the scheme's own is left out, as browsers write it.
    """
    value = read_text(name, default).rstrip("/")
    scheme, separator, rest = value.partition("://")
    scheme = scheme.lower()
    if value and (scheme not in schemes or not separator or not rest):
        raise ImproperlyConfigured(
            f"{name}={value!r} is not a URL that starts with {' or '.join(schemes)}://."
        )
    if scheme not in DEFAULT_PORTS:
        return value
    try:
        parts = urlsplit(value)
        host, port = parts.hostname or "", parts.port
        if not HOST_NAME.fullmatch(host):
            ip_address(host)  # the rest is IPv6 in brackets
            host = f"[{host}]"
        elif host.rpartition(".")[2].isdigit():
            ip_address(host)  # 127.1 is an address to some programs, and a name to others
    except ValueError:
        raise ImproperlyConfigured(
            f"{name}={value!r} has no host and port that can be reached: write {scheme}://NAME, "
            f"{scheme}://NAME:8000 or {scheme}://[IPv6]:8000, a name of other than ASCII letters "
            "in its xn-- form."
        ) from None
    user, at, _ = parts.netloc.rpartition("@")
    own = port is None or port == DEFAULT_PORTS[scheme]
    netloc = user + at + (host if own else f"{host}:{port}")
    return urlunsplit((scheme, netloc, *parts[2:]))


def read_origin(name: str, default: str) -> str:
    """A URL of http or https that names a host, and nothing beside it."""
    value = read_url(name, default, schemes=("http", "https"))
    parts = urlsplit(value)
    if any(parts[2:]) or "@" in parts.netloc:
        raise ImproperlyConfigured(
            f"{name}={value!r} is more than scheme, host and port. The server has an origin of its "
            "own: give it a name or a port, and not a path of another's."
        )
    host = parts.hostname or ""
    is_address = ":" in host or host.rpartition(".")[2].isdigit()
    if is_address and ip_address(host).is_unspecified:
        raise ImproperlyConfigured(
            f"{name}={value!r} is where a server listens, and no address that a client "
            "reaches: write the machine's name or address."
        )
    return value


def read_pairs(name: str, *, form: str, source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """``key=value,key=value`` as a dict; ``form`` is what an entry looks like, for the message."""
    pairs = {}
    for entry in filter(None, read_text(name, "", source=source).split(",")):
        key, separator, value = (part.strip() for part in entry.partition("="))
        if not (separator and key and value):
            raise ImproperlyConfigured(f"{name}: {entry!r} does not read {form}.")
        pairs[key] = value
    return pairs


def read_users(name: str) -> list[int]:
    """Accounts of this machine, by name or number, as numbers."""
    try:
        return sorted(trusted_users(read_text(name, "")))
    except ValueError as error:
        raise ImproperlyConfigured(str(error)) from None


def read_models(name: str) -> dict[str, str]:
    """``name=/folder,name=/folder`` as a dict. Each folder is there, with the configuration of a
    model in it.
    """
    models = read_pairs(name, form="name=/absolute/folder")
    for model, folder in models.items():
        if not Path(folder).is_absolute():
            raise ImproperlyConfigured(
                f"{name}: {model}={folder!r} does not read name=/absolute/folder."
            )
        if not (Path(folder) / "config.json").is_file():
            near = get_close_matches(Path(folder).name, _siblings(Path(folder)), n=1)
            meant = f" Beside it is {near[0]}." if near else ""
            raise ImproperlyConfigured(f"{name}: {model}: there is no {folder}/config.json.{meant}")
    return models


def _siblings(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.parent.iterdir()]
    except OSError:
        return []
