"""The archive of episodes comes home whole, part by part, and never mixed with that of another
session.
"""

from datetime import UTC, datetime

import pytest
from sdk.http_parts import Answer, ranged

from tinkerscript import Conflict, DownloadCorrupt, PathInUse
from tinkerscript.downloads import fetch
from tinkerscript.wire.episodes import EpisodeAnnotation, EpisodeExport, Thumb

FIRST, SECOND = "part-000001.parquet", "part-000002.parquet"


@pytest.fixture(autouse=True)
def parts(server, monkeypatch) -> list[bytes]:
    monkeypatch.setattr(fetch, "CHUNK_BYTES", 4096)
    server.parts = [b"first" * 10_000, b"second" * 10_000]
    return server.parts


def contents(folder) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def test_every_part_arrives_and_is_returned_in_order(session, parts, tmp_path) -> None:
    assert session.download_episodes(tmp_path / "e") == [
        tmp_path / "e" / FIRST,
        tmp_path / "e" / SECOND,
    ]
    assert contents(tmp_path / "e") == parts


def test_a_second_download_fetches_what_is_new_alone(server, session, parts, tmp_path) -> None:
    session.download_episodes(tmp_path)
    parts.append(b"third")
    assert len(session.download_episodes(tmp_path)) == 3
    assert contents(tmp_path) == parts and len(server.seen("GET /store/.*")) == 3


def test_a_cut_transfer_resumes_and_an_expired_url_is_renewed(
    server, session, parts, tmp_path
) -> None:
    cuts = [20_000]

    def cut_and_expire(path, data, request):
        answer = ranged(data, request)
        if path == FIRST and cuts:
            answer.headers["X-Announce-Length"] = str(len(answer.body))
            answer.body = answer.body[: cuts.pop()]
            server.signature += 1
        return answer

    server.store = cut_and_expire
    session.download_episodes(tmp_path)
    assert contents(tmp_path) == parts
    assert any(
        r.headers["range"] not in ("bytes=0-", "") for r in server.seen(f"GET /store/{FIRST}")
    )


def test_a_part_with_a_wrong_hash_takes_no_name_and_neither_does_any_other(
    server, session, tmp_path
) -> None:
    server.store = lambda path, data, request: (
        Answer(200, b"x" * len(data)) if path == SECOND else Answer(200, data)
    )
    with pytest.raises(DownloadCorrupt, match=SECOND):
        session.download_episodes(tmp_path)
    assert not list(tmp_path.glob("part-*"))


@pytest.mark.parametrize("name", [FIRST, "part-000009.parquet"])
def test_a_folder_with_parts_of_another_session_is_refused(session, tmp_path, name) -> None:
    (tmp_path / name).write_bytes(b"other")
    (tmp_path / "notes.txt").write_bytes(b"mine")
    with pytest.raises(PathInUse, match=name):
        session.download_episodes(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", name]
    with pytest.raises(PathInUse, match="is a file"):
        session.download_episodes(tmp_path / "notes.txt")


def test_nothing_archived_yet_writes_nothing(server, session, tmp_path) -> None:
    server.parts = []
    with pytest.raises(Conflict, match="archived yet"):
        session.download_episodes(tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_the_urls_can_be_had_without_the_files(session) -> None:
    export = session.episode_urls()
    assert (
        isinstance(export, EpisodeExport)
        and [file.part for file in export.files] == [1, 2]
        and export.episodes == 4
    )


def test_what_people_said_of_episodes_is_beside_them_as_it_is_now(
    server, session, tmp_path
) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    said = EpisodeAnnotation(
        episode_id="epi_1", by="a@example.com", thumb=Thumb.UP, comment="look\nhere", at=at
    )
    server.annotations = [
        said.model_copy(update={"episode_id": f"epi_{number}"}) for number in range(5)
    ]
    session.download_episodes(tmp_path)
    lines = (tmp_path / "annotations.jsonl").read_text().splitlines()
    assert [EpisodeAnnotation.model_validate_json(line) for line in lines] == server.annotations, (
        "every page"
    )
    server.annotations = []
    session.download_episodes(tmp_path)
    assert not (tmp_path / "annotations.jsonl").exists()
