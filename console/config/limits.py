"""What one person and one new project may have: TINKERSCRIPT_LIMITS, such as
``projects=10,keys=50,hours=24``.

projects      projects that one person owns
keys          keys of one person that are neither revoked nor expired
queued        queued sessions of one person, in all projects together
hours         how long a session may have a runtime, in all; then it is stopped in good order
sessions      sessions of a new project that have not ended
devices       devices of a new project in use at once
storage_gib   GiB of checkpoints and episodes of a new project

``none`` lifts one. A server that only this machine reaches has no limits unless they are set. The
last three are what a project begins with; ``manage.py set_quota`` changes them for one.
"""

from dataclasses import dataclass, fields, replace

from django.core.exceptions import ImproperlyConfigured

from console.config.environment import read_text
from console.config.sign_up import is_loopback


@dataclass(frozen=True)
class Limits:
    """None is no limit."""

    projects: int | None = None
    keys: int | None = None
    queued: int | None = None
    hours: int | None = None
    sessions: int | None = None
    devices: int | None = None
    storage_gib: int | None = None


PUBLIC = Limits(projects=10, keys=100, queued=50, sessions=50, storage_gib=500)


def limits_read(public_url: str) -> Limits:
    """Raises ImproperlyConfigured."""
    limits = Limits() if is_loopback(public_url) else PUBLIC
    known = [field.name for field in fields(Limits)]
    for entry in read_text("TINKERSCRIPT_LIMITS", "").split(","):
        if not entry.strip():
            continue
        name, _, text = (part.strip() for part in entry.partition("="))
        if name not in known or not (
            text == "none" or (text.isascii() and text.isdigit() and 0 < int(text) < 10**9)
        ):
            raise ImproperlyConfigured(
                f"TINKERSCRIPT_LIMITS: {entry.strip()!r} is none of {', '.join(known)} with a "
                "number from 1, or none."
            )
        limits = replace(limits, **{name: None if text == "none" else int(text)})
    return limits
