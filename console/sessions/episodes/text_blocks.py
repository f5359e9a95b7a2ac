"""Which episodes may have a text: of each 64 of a session, which pieces of one to three bytes are
in their texts.

A list that is filtered by text or agent reads those episodes alone whose block has every piece of
what is looked for; so a text that no episode has costs a look at the blocks (about 100 bytes an
episode) and not at all texts. A block is a bitmap of hashed pieces: it may have too many, never too
few, and what it lets pass is compared as before.

Not SQLite's FTS5 or PostgreSQL's pg_trgm: the one keeps pieces of erased text until the index of
all sessions is merged as a whole; the other is an extension that an operator has to allow. This is
the same on both, goes with its session, and is made anew, exactly, when an episode is erased.
"""

import zlib
from collections.abc import Iterable

from django.db.models import BigIntegerField, ExpressionWrapper, F, Max, QuerySet

from console.sessions.episodes.models import EpisodeTextBlock
from console.sessions.models import EpisodeRecord, Session

BLOCK = 64  # episodes
BITS = 1 << 16
TEXTS = ("task", "prompt", "answer", "agents")
MOST_BLOCKS = 100_000  # of a session; of a larger one all episodes are read
MOST_NAMED = 10_000  # numbers in a query
MANY = 500  # blocks: of fewer each is looked at
LOOKED_AT = 50  # blocks of many, first: a text that all of these have is in most of the others


def blocks_extend(session: Session, records: Iterable[EpisodeRecord]) -> None:
    """Add the texts of ``records``, which are saved. The caller holds the session's row."""
    texts: dict[int, list[str]] = {}
    for record in records:
        texts.setdefault(record.seq // BLOCK, []).extend(_texts(record))
    kept = dict(
        EpisodeTextBlock.objects.filter(session=session, number__in=texts).values_list(
            "number", "bitmap"
        ),
    )
    # A release without blocks may have saved other episodes of one that is new.
    blocks = {
        number: _packed(new, zlib.decompress(kept[number]))
        if number in kept
        else _of_rows(session, number)
        for number, new in texts.items()
    }
    _save(
        session, {number: packed for number, packed in blocks.items() if packed != kept.get(number)}
    )


def block_remake(session: Session, number: int) -> None:
    """Make a block of the episodes that are there now. The caller holds the session's row."""
    _save(session, {number: _of_rows(session, number)})


def may_have(
    session: Session, episodes: QuerySet[EpisodeRecord], text: str
) -> QuerySet[EpisodeRecord]:
    """Those of ``episodes`` (of ``session``) whose block may have ``text``, in any case, in one of
    their texts.
    """
    newest = (
        EpisodeRecord.objects.filter(session=session).aggregate(newest=Max("seq"))["newest"] or 0
    )
    if newest // BLOCK >= MOST_BLOCKS:
        return episodes
    without = _blocks_without(session, text)
    within = [number for number in range(newest // BLOCK + 1) if number not in without]
    if min(len(without), len(within)) > MOST_NAMED:
        return episodes
    # All indexes end with ``seq``: this is looked at before a row is read.
    episodes = episodes.alias(block=ExpressionWrapper(F("seq") / BLOCK, BigIntegerField()))
    if len(within) < len(without):
        return episodes.filter(block__in=within)
    return episodes.exclude(block__in=without)


def _blocks_without(session: Session, text: str) -> set[int]:
    """Numbers of the blocks none of whose episodes has ``text``. One that is not kept may have it.

    Of none where all of some blocks, from the first to the last, may have it: to look at the others
    costs more than it saves.
    """
    data = _folded(text)
    longest = _pieces(data, (min(3, len(data)),))  # shorter ones follow from these
    wanted = [(bit >> 3, 1 << (bit & 7)) for bit in map(_bit, longest)]
    kept = EpisodeTextBlock.objects.filter(session=session)

    def without(blocks: QuerySet[EpisodeTextBlock]) -> tuple[int, set[int]]:
        found, looked = set(), 0
        for number, packed in blocks.values_list("number", "bitmap").iterator():
            bitmap, looked = zlib.decompress(packed), looked + 1
            if not all(bitmap[byte] & mask for byte, mask in wanted):
                found.add(number)
        return looked, found

    newest = kept.aggregate(newest=Max("number"))["newest"] or 0
    if newest >= MANY:
        some = kept.filter(number__in=range(0, newest + 1, (newest + 1) // LOOKED_AT))
        looked, missing = without(some)
        if looked >= LOOKED_AT and not missing:
            return set()
    return without(kept)[1]


def _save(session: Session, blocks: dict[int, bytes]) -> None:
    EpisodeTextBlock.objects.bulk_create(
        [
            EpisodeTextBlock(session=session, number=number, bitmap=packed)
            for number, packed in blocks.items()
        ],
        update_conflicts=True,
        unique_fields=["session", "number"],
        update_fields=["bitmap"],
    )


def _of_rows(session: Session, number: int) -> bytes:
    rows = EpisodeRecord.objects.filter(
        session=session, seq__range=(number * BLOCK, (number + 1) * BLOCK - 1)
    )
    return _packed((text for row in rows.only(*TEXTS) for text in _texts(row)), bytes(BITS // 8))


def _texts(record: EpisodeRecord) -> list[str]:
    return [text for name in TEXTS if (text := getattr(record, name))]


def _packed(texts: Iterable[str], before: bytes) -> bytes:
    bitmap = bytearray(before)
    pieces: set[bytes] = set()
    for text in set(texts):  # the episodes of a group have one prompt
        pieces |= _pieces(_folded(text), (1, 2, 3))
    for bit in map(_bit, pieces):
        bitmap[bit >> 3] |= 1 << (bit & 7)
    return zlib.compress(bitmap, 1)


def _folded(text: str) -> bytes:
    """Upper case, as PostgreSQL compares; SQLite does so for ASCII alone, which is included."""
    return text.upper().encode("utf-8", "surrogatepass")


def _pieces(data: bytes, lengths: Iterable[int]) -> set[bytes]:
    """The pieces of ``data`` of these lengths. What is found within ``data`` has no others."""
    return {data[at : at + length] for length in lengths for at in range(len(data) - length + 1)}


def _bit(piece: bytes) -> int:
    """Where a piece is in a bitmap."""
    return zlib.crc32(piece) % BITS
