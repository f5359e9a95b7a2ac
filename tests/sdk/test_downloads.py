"""Bringing a model home: parallel, resumed, verified, never half."""

import errno
import hashlib
import os
import shutil
import threading
import time
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest
from sdk.http_parts import Answer, ranged

from support.ports import free_port
from support.waiting import wait_until
from tinkerscript import (
    ClientClosed,
    DiskFull,
    DownloadCorrupt,
    DownloadFailed,
    PathInUse,
    TunedModel,
    WaitTimeout,
)
from tinkerscript.connection.http_client import HttpOptions
from tinkerscript.downloads import checkpoints, fetch
from tinkerscript.wire.checkpoints import DownloadFile

WEIGHTS = "model.safetensors"
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(checkpoints, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(fetch, "CHUNK_BYTES", 64 * 1024)


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def store_gets(server, path=WEIGHTS):
    return server.seen(f"GET /store/{path}")


def leave_partial(server, target, size, data=None):
    """What an interrupted download of the weights leaves behind."""
    whole = server.files[WEIGHTS]
    partial = target / ".partial" / f"{WEIGHTS}.{hashlib.sha256(whole).hexdigest()[:16]}"
    partial.parent.mkdir(parents=True)
    partial.write_bytes((data or whole)[:size])


def test_model_arrives_whole_and_is_a_path(server, session, tmp_path):
    server.files["sub/folder/x.json"] = b"{}"
    server.files["empty.txt"] = b""
    model = session.download_tuned_model(tmp_path / "m")
    assert isinstance(model, TunedModel)
    assert contents(tmp_path / "m") == server.files
    assert (os.fspath(model), str(model), model.path) == (
        str(tmp_path / "m"),
        str(tmp_path / "m"),
        tmp_path / "m",
    )
    assert model.step == 7
    assert model.checkpoint_id in server.checkpoints
    assert server.checkpoints[model.checkpoint_id].kind == "model"


def test_default_path_is_tuned_model_in_the_working_folder(server, session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert session.download_tuned_model().path == tmp_path / "tuned_model"


def test_store_is_never_sent_the_api_key(server, session, tmp_path):
    session.download_tuned_model(tmp_path)
    assert all("authorization" not in request.headers for request in server.seen("GET /store/.*"))


def test_files_are_fetched_in_parallel(server, session, tmp_path):
    together = threading.Barrier(4)
    server.files = {f"{n}.bin": bytes([n]) * 10 for n in range(4)}

    def store(path, data, request):
        together.wait(25)
        return ranged(data, request)

    server.store = store
    session.download_tuned_model(tmp_path)
    assert contents(tmp_path) == server.files


def store_cutting(sizes):
    """A store that ends as many transfers of the weights after so many bytes each."""
    cuts = iter(sizes)

    def store(path, data, request):
        answer = ranged(data, request)
        cut = next(cuts, None) if path == WEIGHTS else None
        if cut is not None:
            answer.headers["X-Announce-Length"] = str(len(answer.body))
            answer.body = answer.body[:cut]
        return answer

    return store


def test_cut_transfer_resumes_where_it_stopped(server, session, tmp_path):
    server.store = store_cutting([300_000, 500_000])
    session.download_tuned_model(tmp_path)
    starts = [
        int(r.headers["range"].removeprefix("bytes=").removesuffix("-")) for r in store_gets(server)
    ]
    assert starts[0] == 0
    assert len(starts) == 3
    assert 0 < starts[1] <= 300_000 < starts[2] <= 800_000
    assert contents(tmp_path) == server.files


def test_transfer_that_is_cut_ever_again_goes_on_while_something_arrives(
    server, session, tmp_path, monkeypatch
):
    monkeypatch.setattr(fetch, "MAX_TRIES_WITHOUT_PROGRESS", 3)
    monkeypatch.setattr(fetch, "backoff_s", lambda attempt: 0.0)
    server.store = store_cutting([100_000] * 5)
    session.download_tuned_model(tmp_path)
    assert contents(tmp_path) == server.files
    assert len(store_gets(server)) == 6


def test_second_attempt_resumes_what_the_first_left(server, session, tmp_path):
    leave_partial(server, tmp_path, 400_000)
    session.download_tuned_model(tmp_path)
    assert [r.headers["range"] for r in store_gets(server)] == ["bytes=400000-"]
    assert contents(tmp_path) == server.files


def test_partial_file_that_is_damaged_or_too_long_is_fetched_anew(server, session, tmp_path):
    leave_partial(server, tmp_path / "damaged", 400_000, b"x" * 400_000)
    session.download_tuned_model(tmp_path / "damaged")
    assert contents(tmp_path / "damaged") == server.files
    leave_partial(server, tmp_path / "long", 2_000_000, b"x" * 2_000_000)
    session.download_tuned_model(tmp_path / "long")
    assert contents(tmp_path / "long") == server.files


def test_partial_file_of_another_checkpoint_is_not_resumed(server, session, tmp_path):
    leave_partial(server, tmp_path, 400_000)
    server.files[WEIGHTS] = b"other" * 100_000
    session.download_tuned_model(tmp_path)
    assert [r.headers["range"] for r in store_gets(server)] == ["bytes=0-"]
    assert contents(tmp_path) == server.files


def test_store_without_ranges_starts_the_file_over(server, session, tmp_path):
    leave_partial(server, tmp_path, 400_000)
    server.store = lambda path, data, request: Answer(200, data)
    session.download_tuned_model(tmp_path)
    assert contents(tmp_path) == server.files


def test_complete_model_is_not_fetched_again(server, session, tmp_path):
    session.download_tuned_model(tmp_path)
    fetched = len(server.seen("GET /store/.*"))
    session.download_tuned_model(tmp_path)
    assert len(server.seen("GET /store/.*")) == fetched


def test_newer_model_replaces_an_older_one_in_the_same_folder(server, session, tmp_path):
    session.download_tuned_model(tmp_path)
    server.files[WEIGHTS] = server.files[WEIGHTS][::-1]
    session.download_tuned_model(tmp_path)
    assert contents(tmp_path) == server.files


def test_corrupt_file_is_refused_and_never_takes_its_name(server, session, tmp_path):
    def store(path, data, request):
        return ranged(b"\0" * len(data) if path == WEIGHTS else data, request)

    server.store = store
    with pytest.raises(DownloadCorrupt, match=WEIGHTS):
        session.download_tuned_model(tmp_path)
    assert not (tmp_path / WEIGHTS).exists()
    assert not (tmp_path / "config.json").exists()  # nor does any other file of half a model
    assert len(store_gets(server)) == 2
    server.store = None
    session.download_tuned_model(tmp_path)
    assert contents(tmp_path) == server.files


def test_more_bytes_than_announced_are_not_written(server, session, tmp_path):
    server.store = lambda path, data, request: Answer(200, data + b"more" * 1000)
    session.download_tuned_model(tmp_path)
    assert contents(tmp_path) == server.files


def test_full_disk_is_refused_before_anything_is_written(server, session, tmp_path, monkeypatch):
    needed = sum(map(len, server.files.values()))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(needed, 1, needed - 1))
    target = tmp_path / "deep" / "m"
    with pytest.raises(DiskFull) as caught:
        session.download_tuned_model(target)
    assert "MB" in str(caught.value)
    assert not (tmp_path / "deep").exists()
    assert server.seen("GET /store/.*") == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(needed, 0, needed))
    session.download_tuned_model(target)
    assert contents(target) == server.files


def test_disk_that_fills_up_meanwhile_is_a_typed_error(server, session, tmp_path, monkeypatch):
    real = Path.open

    def full(path, mode="r", **options):
        if mode == "r+b" and path.name.startswith(WEIGHTS):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, mode, **options)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(DiskFull):
        session.download_tuned_model(tmp_path)


def test_expired_urls_are_renewed(server, session, tmp_path):
    real = server.store

    def store(path, data, request):
        server.store = real
        server.signature = 2  # every URL handed out so far is void
        return Answer(403, b"<Error/>")

    server.store = store
    session.download_tuned_model(tmp_path)
    assert contents(tmp_path) == server.files
    assert len(server.seen("GET .*/download")) >= 2


def test_store_that_refuses_for_ever_is_a_typed_error(server, session, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "MAX_TRIES_WITHOUT_PROGRESS", 3)
    server.store = lambda path, data, request: Answer(403)
    with pytest.raises(DownloadFailed, match="403"):
        session.download_tuned_model(tmp_path)
    server.store = lambda path, data, request: Answer(500)
    with pytest.raises(DownloadFailed, match="500"):
        session.download_tuned_model(tmp_path)


@pytest.mark.parametrize(
    ("status", "tries"), [(404, 1), (408, 2), (410, 1), (429, 2), (507, 1), (529, 2)]
)
def test_a_refusal_of_the_store_is_tried_again_only_where_it_may_pass(
    server, session, tmp_path, monkeypatch, status, tries
):
    monkeypatch.setattr(fetch, "MAX_TRIES_WITHOUT_PROGRESS", 2)
    server.files = {WEIGHTS: server.files[WEIGHTS]}
    server.store = lambda path, data, request: Answer(status)
    with pytest.raises(DownloadFailed, match=str(status)):
        session.download_tuned_model(tmp_path)
    assert len(store_gets(server)) == tries


@pytest.mark.parametrize(
    ("path", "setting"),
    [
        ("/store/e30:x/config.json", "TINKERSCRIPT_PUBLIC_URL"),
        ("/bucket/config.json?X-Amz-x=1", "S3_PUBLIC_ENDPOINT_URL"),
    ],
)
def test_an_address_that_is_not_reached_is_named_with_who_is_to_change_what(
    monkeypatch, tmp_path, path, setting
):
    monkeypatch.setattr(fetch, "MAX_TRIES_WITHOUT_PROGRESS", 1)
    port = free_port()
    file = DownloadFile(
        path="config.json", size_bytes=2, sha256="0" * 64, url=f"http://127.0.0.1:{port}{path}"
    )
    session = SimpleNamespace(closed=False, http_options=HttpOptions())
    download = fetch.Fetch(session, refresh=dict, deadline=time.monotonic() + 25, progress=False)
    with pytest.raises(
        DownloadFailed, match=f"No response from http://127.0.0.1:{port}: ConnectError"
    ) as failed:
        download.run([(file, tmp_path / "config.json")])
    assert "whoever runs the server sets " + setting in failed.value.hint
    assert "Download again" not in failed.value.hint


def test_server_that_restarts_during_the_download_is_not_noticed(server, session, tmp_path):
    began = threading.Event()

    def store(path, data, request):
        began.set()
        server.store = None
        return ranged(data[: len(data) // 2], request)

    server.files = {WEIGHTS: server.files[WEIGHTS]}
    server.store = store
    restarting = threading.Thread(target=lambda: (began.wait(25), server.stop(), server.start()))
    restarting.start()
    session.download_tuned_model(tmp_path)
    restarting.join()
    assert contents(tmp_path) == server.files


def test_download_ends_at_its_time_limit_and_keeps_what_arrived(server, session, tmp_path):
    made = session.save_checkpoint()
    server.store = lambda path, data, request: Answer(500)
    with pytest.raises(WaitTimeout):
        session.download_checkpoint(made.id, tmp_path, timeout_s=0.1)
    assert (tmp_path / ".partial").is_dir()


def test_close_ends_a_download(server, session, tmp_path):
    server.store = lambda path, data, request: Answer(500)
    caught = []

    def download():
        try:
            session.download_tuned_model(tmp_path)
        except ClientClosed as closed:
            caught.append(closed)

    downloading = threading.Thread(target=download)
    downloading.start()
    wait_until(lambda: store_gets(server))
    session.close()
    downloading.join(25)
    assert len(caught) == 1


@pytest.mark.parametrize(
    "path", ["../evil", "/etc/evil", "a/../../evil", "a\\..\\evil", "c:evil", ".partial/x", "."]
)
def test_path_outside_the_folder_is_refused(server, session, tmp_path, path):
    server.files = {path: b"evil"}
    with pytest.raises(DownloadFailed, match="Nothing was written"):
        session.download_tuned_model(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_folder_with_weights_of_another_model_is_refused(server, session, tmp_path):
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(b"old")
    (tmp_path / "notes.txt").write_bytes(b"mine")
    with pytest.raises(PathInUse, match="model-00001-of-00002"):
        session.download_tuned_model(tmp_path)
    (tmp_path / "model-00001-of-00002.safetensors").unlink()
    session.download_tuned_model(tmp_path)
    assert (tmp_path / "notes.txt").read_bytes() == b"mine"


def test_target_that_is_a_file_is_refused(server, session, tmp_path):
    (tmp_path / "m").write_text("a file")
    with pytest.raises(PathInUse):
        session.download_tuned_model(tmp_path / "m")


def test_progress_is_silent_when_stderr_is_no_terminal(server, session, tmp_path, capsys):
    session.download_tuned_model(tmp_path)
    assert capsys.readouterr() == ("", "")


def test_progress_is_one_line_on_a_terminal(server, session, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    session.download_tuned_model(tmp_path / "loud")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "100%" in err
    session.download_tuned_model(tmp_path / "quiet", progress=False)
    assert capsys.readouterr() == ("", "")
