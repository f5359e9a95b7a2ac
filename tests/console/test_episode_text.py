"""A filter by text or agent: it finds what the database finds, and reads those episodes alone that
may have it.
"""

import zlib

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from console.sessions.episodes import selectors, text_blocks
from console.sessions.episodes.models import EpisodeTextBlock
from console.sessions.models import EpisodeRecord, Session
from console.sessions.runtime import episode_reports, leases
from console.sessions.runtime.episode_erasure import episode_erase
from support import factories
from support.generated import any_speed_shared
from tinkerscript.wire.reading.trajectories import EpisodeRow, EpisodeRows, EpisodeSort

Filter = selectors.EpisodeFilter


@pytest.fixture
def running(project) -> Session:
    """A session with a runtime: the row as the runtime's lease opens it."""
    _session, token = factories.runtime_make(project)
    return leases.lease_check(token=token)


def row(number: int, **fields) -> EpisodeRow:
    return EpisodeRow(
        **(
            {"episode_id": f"epi_{number}", "seq": number, "fate": "trained", "begun_at": 1.0}
            | fields
        )
    )


def save(session: Session, *rows: EpisodeRow) -> None:
    episode_reports.rows_save(session=session, body=EpisodeRows(rows=list(rows)))


@pytest.fixture
def many(running) -> Session:
    """Ten blocks of episodes with the same words, and three that have some of their own."""
    own = {70: "a Xylophone", 400: "über die BRÜCKE", 639: "xylophones"}
    rows = [
        row(number, answer=own.get(number, "the usual"), agents=["solver"]) for number in range(640)
    ]
    for start in range(0, 640, 160):
        save(running, *rows[start : start + 160])
    return running


def read_by(session: Session, only: Filter) -> tuple[list[int], list[int]]:
    """What a filter finds, and the blocks whose episodes are compared for it."""
    found, _ = selectors.episode_list(
        project=session.project,
        session_id=session.id,
        only=only,
        sort=EpisodeSort.OLDEST,
        limit=1000,
    )
    narrowed = text_blocks.may_have(
        session, EpisodeRecord.objects.filter(session=session), only.text or only.agent
    )
    return [record.seq for record in found], sorted(
        {seq // 64 for seq in narrowed.values_list("seq", flat=True)}
    )


@pytest.mark.system
@pytest.mark.parametrize(
    ("only", "found", "read"),
    [
        (Filter(text="nowhere at all"), [], []),
        (Filter(agent="nobody"), [], []),
        (Filter(text="xylophone"), [70, 639], [1, 9]),
        (Filter(text="bRÜcke"), [400], [6]),
        (Filter(text="XY"), [70, 639], [1, 9]),
        (Filter(text="%"), [], []),
        (
            Filter(text="THE USUAL"),
            [n for n in range(640) if n not in (70, 400, 639)],
            list(range(10)),
        ),
        (Filter(text="y"), [70, 639], [1, 9]),
    ],
)
def test_a_text_is_looked_for_in_those_episodes_alone_that_may_have_it(
    many, only, found, read
) -> None:
    assert read_by(many, only) == (found, read)


def test_a_text_that_many_blocks_have_is_looked_for_in_all_and_the_others_as_before(
    many, monkeypatch
) -> None:
    """Of ten blocks five are looked at first: the even ones. Only where all of them have it are the
    others left out.
    """
    monkeypatch.setattr(text_blocks, "MANY", 9)
    monkeypatch.setattr(text_blocks, "LOOKED_AT", 5)
    unpacked = []
    decompress = zlib.decompress
    monkeypatch.setattr(
        text_blocks.zlib, "decompress", lambda packed: unpacked.append(packed) or decompress(packed)
    )
    for odd in (1, 3):
        EpisodeRecord.objects.filter(session=many, seq__range=(odd * 64, odd * 64 + 63)).update(
            answer="other"
        )
        text_blocks.block_remake(many, odd)
    usual = [n for n in range(640) if n not in (400, 639) and n // 64 not in (1, 3)]
    assert read_by(many, Filter(text="the usual")) == (usual, list(range(10))), (
        "two are read in vain"
    )
    assert len(unpacked) == 2 * 5, "both times five of ten"
    assert read_by(many, Filter(text="xylophone")) == ([639], [9])
    EpisodeTextBlock.objects.filter(number=4).delete()
    assert read_by(many, Filter(text="the usual")) == (
        usual,
        [n for n in range(10) if n not in (1, 3)],
    ), "four of five"


def test_a_text_is_found_in_episodes_of_a_release_that_kept_no_blocks(many) -> None:
    EpisodeTextBlock.objects.filter(number__in=[1, 9]).delete()
    assert read_by(many, Filter(text="xylophone")) == ([70, 639], [1, 9])
    save(many, row(71, answer="new"))  # the block is made of what was there too
    assert read_by(many, Filter(text="xylophone")) == ([70, 639], [1, 9])
    assert EpisodeTextBlock.objects.filter(number=1).exists()


def test_a_text_that_comes_later_is_found(many) -> None:
    save(many, row(71, answer="kangaroo"))
    assert read_by(many, Filter(text="kangaroo")) == ([71], [1])
    assert read_by(many, Filter(text="xylophone")) == ([70, 639], [1, 9])


@pytest.mark.system
@settings(any_speed_shared, max_examples=60)
@given(
    text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
    data=st.data(),
)
def test_no_text_that_the_database_finds_is_passed_over(running, text, data) -> None:
    within = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))
    wanted = data.draw(st.sampled_from([str, str.lower, str.upper, str.swapcase]))(
        text[min(within) : max(within)]
    )
    save(running, row(1, answer=text, task=None))
    if wanted:
        by_itself = EpisodeRecord.objects.filter(session=running, answer__icontains=wanted)
        assert len(read_by(running, Filter(text=wanted))[0]) == by_itself.count()
    EpisodeRecord.objects.all().delete()
    EpisodeTextBlock.objects.all().delete()


def test_what_an_erased_episode_said_is_in_no_block(many, s3) -> None:
    episode_erase(
        project=many.project, session_id=many.id, episode_id="epi_70", actor="a", key_id=None, request_id="r",
        by_runtime=True,
    )  # fmt: skip
    assert read_by(many, Filter(text="xylophone")) == ([639], [9])


def test_a_report_without_new_text_writes_no_block(many) -> None:
    with CaptureQueriesContext(connection) as queries:
        save(many, row(70, fate="waiting", answer="a Xylophone", agents=["solver"]))
    written = [one["sql"] for one in queries.captured_queries if "INSERT" in one["sql"]]
    assert len(written) == 1 and "episodetextblock" not in written[0]
