"""How long a server keeps what sessions leave: TINKERSCRIPT_KEEP_DAYS, such as
``checkpoints=30,records=400,episodes=90``. Each is a number of days; 0: for ever.

checkpoints  after it was stored, of one that is not pinned
records      after its session's end: logs, events and samples of its machine
episodes     after their session's end: rows, documents, archive, journal
"""

from dataclasses import dataclass, fields

from django.core.exceptions import ImproperlyConfigured

from console.config.environment import read_pairs

NAME = "TINKERSCRIPT_KEEP_DAYS"
MOST = 36_500


@dataclass(frozen=True)
class KeepDays:
    """In days; 0: for ever."""

    checkpoints: int = 0
    records: int = 400
    episodes: int = 0


def keep_days_read() -> KeepDays:
    """What the environment names, and the defaults of the others. Raises ImproperlyConfigured."""
    known = [field.name for field in fields(KeepDays)]
    given = read_pairs(NAME, form="checkpoints=30,records=400,episodes=90")
    for name, text in given.items():
        if name not in known or not (text.isascii() and text.isdigit() and int(text) <= MOST):
            raise ImproperlyConfigured(
                f"{NAME}: {name}={text} is none of {', '.join(known)} with a number of days from 0 "
                f"to {MOST}; 0 keeps for ever."
            )
    return KeepDays(**{name: int(text) for name, text in given.items()})
