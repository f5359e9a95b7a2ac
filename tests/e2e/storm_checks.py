"""What must be true of every session after a storm: pure functions over what the books say, each
answer a sentence.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from tinkerscript.wire.sessions import Accounting

ENDED = ("stopped", "cancelled")
DIED, WOKEN = "the runtime's process ended", "woken by a request"
# what may have become of an episode whose end was acknowledged
KEPT = {"trained", "accepted", "stale"}


@dataclass(frozen=True)
class Move:
    """A line of the record: a session went from one state to another."""

    source: str | None
    target: str
    reason: str
    at: datetime


@dataclass
class Books:
    """What every book says of one session: server's record, leases, runtime's own journal, and who
    worked with it.
    """

    name: str
    story: str
    state: str
    moves: Sequence[Move]
    steps: Sequence[int] = ()  # of the metrics in the record
    shown: Accounting = Accounting()  # by the server
    ledger: Accounting = Accounting()  # by the runtime's journal
    fates: Mapping[str, str | None] = field(default_factory=dict)  # of every episode in the journal
    leases: Sequence[tuple[datetime, datetime]] = ()  # registered, last used
    lives: Sequence[str] = ()  # launches whose process began to live
    doubled: bool = False  # two processes lived at one time
    held: bool = False  # a lease or a handle is left
    acknowledged: Sequence[str] = ()  # episodes, by the laptop
    killed: int = 0  # its runtimes, by us


def names_problems(asked: Iterable[str], listed: Sequence[str]) -> list[str]:
    """Sessions that were asked for and are not there, or are there twice."""
    asked = set(asked)
    twice = sorted({name for name in listed if listed.count(name) > 1})
    lost, strange = sorted(asked - set(listed)), sorted(set(listed) - asked)
    said = {"lost": lost, "made twice": twice, "asked for by no one": strange}
    return [f"sessions {what}: {', '.join(names)}" for what, names in said.items() if names]


def problems(books: Books) -> list[str]:
    """Every promise that the books of one session show to be broken."""
    return [*_end_problems(books), *_lease_problems(books), *_episode_problems(books)]


def _end_problems(books: Books) -> list[str]:
    found = []
    if books.state not in ENDED:
        found.append(f"it is {books.state}")
    found += [
        f"it moved from {move.source} to {move.target}"
        for move in books.moves
        if move.source in ENDED
    ]
    if [move.source for move in books.moves] != [None, *(move.target for move in books.moves[:-1])]:
        found.append("its moves make no chain")
    if not books.moves or books.moves[-1].target != books.state:
        found.append("its last move does not lead to its state")
    found += [
        f"no reason is given for {m.target}"
        for m in books.moves
        if m.target in ENDED and not m.reason
    ]
    started = any(move.target == "provisioning" for move in books.moves)
    if books.state == "cancelled" and (started or books.story != "cancel"):
        found.append("it was cancelled, though it had started or no one asked for it")
    return found


def _lease_problems(books: Books) -> list[str]:
    found = []
    launches = sum(move.target == "provisioning" for move in books.moves)
    if launches != len(books.leases):
        found.append(f"{launches} launches and {len(books.leases)} leases")
    for number, (earlier, later) in enumerate(pairwise(books.leases), start=1):
        if earlier[1] > later[0]:
            found.append(
                f"lease {number} was used at {earlier[1]}, after the next runtime registered at {later[0]}"
            )
    if len(set(books.lives)) != len(books.lives) or len(books.lives) > launches:
        found.append(
            f"{len(books.lives)} runtimes lived for {launches} launches: {', '.join(books.lives)}"
        )
    if books.doubled:
        found.append("two runtimes lived at one time")
    if books.held:
        found.append("a lease or a runtime's handle is left")
    requeued = [
        move.reason for move in books.moves if move.target == "queued" and move.source is not None
    ]
    died = sum(reason.startswith(DIED) for reason in requeued)
    # of a reconciler that died between its two halves of a start
    if died > books.killed + launches - len(books.lives):
        found.append(f"its runtime died {died} times and was killed {books.killed} times")
    woken = WOKEN if books.story == "nap" else DIED
    found += [
        f"it was queued again: {why}" for why in requeued if not why.startswith((DIED, woken))
    ]
    return found


def _episode_problems(books: Books) -> list[str]:
    found = []
    said = {"server's": books.shown, "journal's": books.ledger}
    found += [
        f"the {whose} accounting does not balance: {book}"
        for whose, book in said.items()
        if not book.balances
    ]
    if len(set(books.acknowledged)) != len(books.acknowledged):
        found.append("an episode was acknowledged twice")
    lost = [episode for episode in books.acknowledged if books.fates.get(episode) not in KEPT]
    if lost:
        found.append(f"acknowledged episodes were lost: {', '.join(lost)}")
    if list(books.steps) != list(range(1, len(books.steps) + 1)):
        found.append(f"its steps are {list(books.steps)}")
    if books.ledger.begun != len(books.fates) or books.ledger.trained != list(
        books.fates.values()
    ).count("trained"):
        found.append(f"the journal holds {len(books.fates)} episodes and says {books.ledger}")
    return found
