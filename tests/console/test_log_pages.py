"""A reader of a log gets every line once, whatever was written, cut off or left unfinished between
two looks.
"""

import random

import pytest

from console.errors import InvalidRequest
from console.live.log_pages import ANCHOR_LINES, LogPart, cursor_at, last_page, next_page

LINES = [f"{number} line" for number in range(100)]


def after(cursor: str, *parts: LogPart, lines: int = 5000, containing: str = ""):
    return next_page(parts, after=cursor, lines=lines, containing=containing)


def test_a_reader_gets_every_line_once_whatever_it_asks_for_and_however_much_is_cut_off() -> None:
    for seed in range(200):
        draw = random.Random(seed)
        whole = [f"{draw.choice('abc')} {number}" for number in range(draw.randrange(1, 120))]
        written, gone, part = draw.randrange(len(whole) + 1), 0, "a"
        window = min(written, max(3, ANCHOR_LINES))  # as few lines as a first look reads
        page = last_page(
            LogPart(part, whole[max(0, written - window) : written]), lines=3, containing=""
        )
        seen = whole[: max(0, written - 3)] + page.lines
        while len(seen) < len(whole):
            written = draw.randrange(written, len(whole) + 1)
            gone = draw.randrange(gone, max(gone, len(seen) - ANCHOR_LINES) + 1)
            page = after(
                page.cursor, LogPart(part, whole[gone:written]), lines=draw.randrange(1, 9)
            )
            assert not page.is_cut and not page.continues
            seen += page.lines
        assert seen == whole


def test_a_line_that_was_not_finished_goes_on() -> None:
    cursor = last_page(LogPart("a", ["one", "tw"]), lines=9, containing="").cursor
    page = after(cursor, LogPart("a", ["one", "two", "three"]))
    assert (page.lines, page.continues) == (["o", "three"], True)
    assert after(cursor, LogPart("a", ["one", "tw"])).lines == []


def test_a_search_that_the_beginning_of_a_line_did_not_meet_returns_it_whole() -> None:
    cursor = last_page(LogPart("a", ["half"]), lines=9, containing="err").cursor
    page = after(cursor, LogPart("a", ["half an error", "no"]), containing="err")
    assert (page.lines, page.continues) == (["half an error"], False)
    cursor = last_page(LogPart("a", ["err"]), lines=9, containing="err").cursor
    page = after(cursor, LogPart("a", ["error", "no"]), containing="err")
    assert (page.lines, page.continues) == (["or"], True)


def test_what_is_cut_off_is_said_to_be_so_and_the_reader_goes_on_with_what_there_is() -> None:
    cursor = cursor_at(LogPart("a", LINES[:50]), 50)
    page = after(cursor, LogPart("a", LINES[90:]))
    assert page.is_cut and page.lines == LINES[90:]
    page = after(cursor, LogPart("b", ["other"]), LogPart("c", ["later"]))
    assert page.is_cut and page.lines == ["other", "later"]
    assert after(page.cursor, LogPart("b", ["other"]), LogPart("c", ["later", "more"])).lines == [
        "more"
    ]


def test_a_reader_goes_on_into_the_runtimes_that_followed_and_stops_where_it_has_enough() -> None:
    parts = [LogPart("a", LINES), LogPart("b", ["x", "y"]), LogPart("c", ["z"])]
    page = after(cursor_at(parts[0], 98), *parts, lines=3)
    assert page.lines == ["98 line", "99 line", "x"]
    page = after(page.cursor, *parts, lines=3)
    assert page.lines == ["y", "z"]
    assert after(page.cursor, *parts).lines == [] and not after(page.cursor, *parts).is_cut


def test_an_empty_log_has_a_place_too() -> None:
    page = last_page(LogPart("a", []), lines=9, containing="")
    assert after(page.cursor, LogPart("a", ["first"])).lines == ["first"]
    assert after(page.cursor).cursor == page.cursor


@pytest.mark.parametrize("cursor", ["", "5", "a.1.2", "a.1.2.zz", "a b.1.2." + "0" * 16])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="no place of a log"):
        after(cursor, LogPart("a", LINES))
