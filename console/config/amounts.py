"""Settings that are pairs of a name and a number.

TINKERSCRIPT_LIMITS, such as ``projects=10,keys=50,hours=24``: what one person and one new project
may have; ``none`` lifts one. A server that only this machine reaches has no limits unless they are
set.

projects      projects that one person owns
keys          keys of one person that are neither revoked nor expired
queued        queued sessions of one person, in all projects together
hours         how long a session may have a runtime, in all; then it is stopped in good order
sessions      sessions of a new project that have not ended
devices       devices of a new project in use at once
storage_gib   GiB of checkpoints and episodes of a new project

The last three are what a project begins with; ``manage.py set_quota`` changes them for one.

TINKERSCRIPT_KEEP_DAYS, such as ``checkpoints=30,records=400,episodes=90``: how many days a server
keeps what sessions leave; 0: for ever.

checkpoints  after it was stored, of one that is not pinned
records      after its session's end: logs, events and samples of its machine
episodes     after their session's end: rows, documents, archive, journal

TINKERSCRIPT_PRICES, such as ``gpu=2.40,cpu=0.05,currency=EUR``: what an hour of a device costs.
Without the setting no money is shown anywhere.

gpu       one GPU of a runtime, for an hour
cpu       a runtime that has no GPU, for an hour
currency  three letters as ISO 4217 has them; USD when it is not given

Both kinds are named, with 0 for what costs nothing: a sum in which a part has no price would be no
sum.
"""

import re
from dataclasses import dataclass, fields, replace

from django.core.exceptions import ImproperlyConfigured

from console.config.environment import read_pairs, read_text
from console.config.sign_up import is_loopback
from tinkerscript.wire.projects import DevicePrices

LIMITS, KEEP_DAYS, PRICES = "TINKERSCRIPT_LIMITS", "TINKERSCRIPT_KEEP_DAYS", "TINKERSCRIPT_PRICES"
MOST_DAYS = 36_500
PRICES_FORM = "gpu=2.40,cpu=0.05,currency=EUR"
PRICE = re.compile(r"\d{1,7}(\.\d{1,6})?", re.ASCII)


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


@dataclass(frozen=True)
class KeepDays:
    """In days; 0: for ever."""

    checkpoints: int = 0
    records: int = 400
    episodes: int = 0


def limits_read(public_url: str) -> Limits:
    """Raises ImproperlyConfigured."""
    limits = Limits() if is_loopback(public_url) else PUBLIC
    known = [field.name for field in fields(Limits)]
    for entry in filter(str.strip, read_text(LIMITS, "").split(",")):
        name, _, text = (part.strip() for part in entry.partition("="))
        number = None if text == "none" else _whole(text, low=1, high=10**9 - 1)
        if name not in known or (number is None and text != "none"):
            raise ImproperlyConfigured(
                f"{LIMITS}: {entry.strip()!r} is none of {', '.join(known)} with a "
                "number from 1, or none."
            )
        limits = replace(limits, **{name: number})
    return limits


def keep_days_read() -> KeepDays:
    """What the environment names, and the defaults of the others. Raises ImproperlyConfigured."""
    known = [field.name for field in fields(KeepDays)]
    given = read_pairs(KEEP_DAYS, form="checkpoints=30,records=400,episodes=90")
    for name, text in given.items():
        if name not in known or _whole(text, low=0, high=MOST_DAYS) is None:
            raise ImproperlyConfigured(
                f"{KEEP_DAYS}: {name}={text} is none of {', '.join(known)} with a number of "
                f"days from 0 to {MOST_DAYS}; 0 keeps for ever."
            )
    return KeepDays(**{name: int(text) for name, text in given.items()})


def prices_read() -> DevicePrices | None:
    """None where none are set. Raises ImproperlyConfigured."""
    given = read_pairs(PRICES, form=PRICES_FORM)
    if not given:
        return None
    currency = given.pop("currency", "USD")
    if not re.fullmatch(r"[A-Z]{3}", currency):
        raise ImproperlyConfigured(
            f"{PRICES}: currency={currency!r} is not three capital letters, such as EUR."
        )
    if wrong := [f"{kind}={price}" for kind, price in given.items() if not PRICE.fullmatch(price)]:
        raise ImproperlyConfigured(
            f"{PRICES}: {wrong[0]!r} is not a price of an hour, such as 2.40."
        )
    if given.keys() != {"gpu", "cpu"}:
        raise ImproperlyConfigured(
            f"{PRICES} prices {', '.join(sorted(given)) or 'nothing'}; it names gpu and cpu, and "
            f"may name a currency: {PRICES_FORM}."
        )
    return DevicePrices(gpu=float(given["gpu"]), cpu=float(given["cpu"]), currency=currency)


def _whole(text: str, *, low: int, high: int) -> int | None:
    """The number that ``text`` is; None for what is none from ``low`` to ``high``."""
    is_number = text.isascii() and text.isdigit()
    return int(text) if is_number and low <= int(text) <= high else None
