"""An exported run is shown on this machine alone, read-only, in the shapes of the REST API."""

import json
import math
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from support.exported_run import HOSTILE, SESSION, exported_run_write
from tinkerscript.cli import app
from tinkerscript.downloads.record import download
from tinkerscript.errors import InvalidRequest, ServerUnreachable
from tinkerscript.viewer import server
from tinkerscript.viewer.run_folder import RunFolder
from tinkerscript.viewer.server import Viewer

ROOT = Path(__file__).parents[2]
OPENAPI = json.loads((ROOT / "openapi.json").read_text())
S = f"/v1/sessions/{SESSION}"
READ = {
    "/v1/account": "/account", "/v1/server": "/server", "/v1/sessions?limit=50&state=ready": "/sessions",
    S: "/sessions/{session_id}",
} | {
    f"{S}{asked}": f"/sessions/{{session_id}}{route}"
    for asked, route in {
        "/usage": "/usage", "/checkpoints": "/checkpoints", "/tasks": "/tasks", "/accounting": "/accounting",
        "/resources?points=1000": "/resources", "/alerts?standing=true&limit=100": "/alerts", "/logs?lines=1": "/logs",
        "/events?newest=true&kind=metric&limit=1": "/events", "/metrics?x=time&points=1": "/metrics",
        "/metrics?names=reward_mean&x=tokens": "/metrics", "/episodes?sort=best&limit=1": "/episodes",
        "/episodes/epi_3": "/episodes/{episode_id}", "/steps/1": "/steps/{step}",
        "/episodes/epi_1/timelines?limit=5000&cursor=0": "/episodes/{episode_id}/timelines",
        "/episodes/epi_1/timelines?limit=3&cursor=4": "/episodes/{episode_id}/timelines",
    }.items()
}  # fmt: skip


@pytest.fixture(autouse=True)
def built_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    built = tmp_path / "dist"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_text("<html><head></head><body>console</body></html>")
    (built / "assets/app-1.js").write_text("1")
    monkeypatch.setattr(server, "PLACES", (built,))
    return built


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    return exported_run_write(tmp_path / "run")


@pytest.fixture
def viewer(exported: Path) -> Iterator[Viewer]:
    with Viewer(RunFolder(exported)) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture
def reader(viewer: Viewer) -> Iterator[httpx.Client]:
    """Who opened the printed address."""
    with httpx.Client(base_url=f"http://{viewer.host}", follow_redirects=True) as client:
        page = client.get(viewer.address)
        assert page.url.path == f"/sessions/{SESSION}" and "key=" not in str(page.url)
        yield client


def test_every_answer_has_the_shape_of_the_rest_api(reader: httpx.Client) -> None:
    for path, route in READ.items():
        answer = reader.get(path)
        assert answer.status_code == 200, (path, answer.text)
        schema = OPENAPI["paths"][f"/v1{route}"]["get"]["responses"]["200"]["content"][
            "application/json"
        ]["schema"]
        Draft202012Validator(schema | {"components": OPENAPI["components"]}).validate(answer.json())
    for absent in (
        "/v1/keys",
        f"{S}/batches/1",
        f"{S}/steps/9",
        f"{S}/episodes/epi_9",
        "/v1/sessions/ses_other",
        f"{S}x",
    ):
        refused = reader.get(absent)
        assert refused.status_code == 404 and refused.json()["error"]["code"] == "not_found", absent
    assert reader.get(f"{S}/episodes/epi_3/timelines").status_code == 409
    for wrong in (
        f"{S}/episodes?limit=no",
        f"{S}/episodes?version=x",
        f"{S}/metrics?x=mood",
        f"{S}/metrics?names=mood",
    ):
        assert reader.get(wrong).status_code == 400, wrong


def test_episodes_are_filtered_sorted_and_paged(reader: httpx.Client) -> None:
    def ids(asked: str) -> list[str]:
        return [item["episode_id"] for item in reader.get(f"{S}/episodes?{asked}").json()["items"]]

    assert ids("sort=newest") == ["epi_3", "epi_2", "epi_1"] and ids("sort=worst") == [
        "epi_1",
        "epi_2",
    ]
    assert ids("fate=open&fate=eval") == ["epi_3"] and ids("fate=trained&q=FINE") == ["epi_2"]
    assert ids("reward_min=1.5") == ["epi_2"] and ids("version=0&step=1&task=open") == []
    assert ids("eval=true") == [] and ids("agent=a") == [] and ids("commented=false&thumb=up") == []
    first = reader.get(f"{S}/episodes?limit=2").json()
    assert ids(f"limit=2&cursor={first['next_cursor']}") == ["epi_1"]
    told = reader.get(f"{S}/episodes/epi_1/timelines?limit=1000").json()
    (context, sampled) = told["timelines"][0]["runs"]
    assert "".join(sampled["pieces"]) == HOSTILE and (
        context["advantage"],
        sampled["advantage"],
    ) == (None, 0.5)


@pytest.mark.parametrize(
    ("asked", "previous", "following"),
    [
        ("epi_2/neighbours?sort=best", None, "epi_1"),
        ("epi_1/neighbours?sort=best&reward_min=2", "epi_2", None),
        ("epi_3/neighbours?fate=trained", None, "epi_2"),
        ("epi_3/neighbours?sort=best", None, None),
    ],
)
def test_an_episode_that_a_filter_leaves_out_has_the_neighbours_of_its_place(
    reader: httpx.Client, asked: str, previous: str | None, following: str | None
) -> None:
    found = reader.get(f"{S}/episodes/{asked}").json()
    assert found == {"previous": previous, "next": following}


def test_only_the_printed_address_on_this_machine_is_answered(
    viewer: Viewer, reader: httpx.Client
) -> None:
    assert viewer.server_address[0] == "127.0.0.1"
    with httpx.Client(base_url=f"http://{viewer.host}") as stranger:
        for path in ("/", "/?key=wrong", f"/sessions/{SESSION}", S, "/assets/app-1.js"):
            assert stranger.get(path).status_code == 403, path
        stranger.cookies.set(viewer.cookie, "wrong")
        assert stranger.get(S).status_code == 403
    for name in (
        "evil.example",
        f"localhost:{viewer.server_port}",
        "127.0.0.1",
    ):  # a name that was bound to this address
        assert reader.get(S, headers={"Host": name}).status_code == 403
        assert reader.get(viewer.address, headers={"Host": name}).status_code == 403
    for method in ("POST", "PATCH", "DELETE", "PUT", "OPTIONS"):
        assert reader.request(method, S).status_code == 405
    assert reader.get(S).status_code == 200


def test_pages_are_served_and_nothing_else_of_the_disk(
    reader: httpx.Client, built_pages: Path
) -> None:
    (built_pages.parent / "secret.txt").write_text("secret")
    page = reader.get(f"/sessions/{SESSION}/episodes")
    assert (
        "tinkerscript-exported-at" in page.text
        and "script-src 'self';" in page.headers["Content-Security-Policy"]
    )
    assert (
        reader.get("/assets/app-1.js").headers["Content-Type"] == "text/javascript; charset=utf-8"
    )
    for path in (
        "/assets/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/assets/%2e%2e%2f..%2fsecret.txt",
        "//secret.txt",
    ):
        answer = reader.get(httpx.URL(f"http://x{path}").raw_path.decode())
        assert "secret" not in answer.text


def damage(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("run.json", "{}", "run.json is no exported run that this version reads: exported_at"),
        ("episodes.jsonl", "no\n", "Line 1 of .*episodes.jsonl is damaged"),
        (
            "documents.jsonl",
            '{"episode_id": "epi_1", "file": "../../secret", "offset_bytes": 0, "size_bytes": 9}\n',
            "it names a file outside of the folder",
        ),
        (
            "events.jsonl",
            '{"cursor": 8, "kind": "metric", "at": "2030-01-01T00:00:00Z", "data": {"loss": 1}}\n',
            "Line 1 of .*events.jsonl is damaged",
        ),
    ],
)
def test_a_damaged_folder_is_refused_by_name(
    exported: Path, name: str, text: str, said: str
) -> None:
    damage(exported, name, text)
    with pytest.raises(InvalidRequest, match=said):
        RunFolder(exported)


class BreaksOff:
    """A session of a server that answers until it is asked for the run's parts."""

    id = SESSION

    def __init__(self, *, is_away: bool = False) -> None:
        self._is_away = is_away

    def status(self) -> None:
        if self._is_away:
            raise ServerUnreachable("the server is away")

    def read(self, path: str, *_: Any, **query: Any) -> None:
        raise ServerUnreachable(path)


def test_an_export_that_breaks_off_leaves_no_run_and_one_that_never_began_the_old_one(
    exported: Path,
) -> None:
    for session in (BreaksOff(is_away=True), BreaksOff()):
        assert RunFolder(exported).run.session.id == SESSION
        with pytest.raises(ServerUnreachable):
            download(session, exported, deadline=math.inf, progress=False)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="has no run.json"):
        RunFolder(exported)


def test_a_document_that_was_cut_is_named_and_the_rest_is_shown(
    reader: httpx.Client, exported: Path
) -> None:
    [pack] = (exported / "documents").iterdir()
    pack.write_bytes(pack.read_bytes()[:40])
    refused = reader.get(f"{S}/episodes/epi_1/timelines")
    assert refused.status_code == 400 and pack.name in refused.json()["error"]["message"]
    assert reader.get(f"{S}/episodes/epi_1").status_code == 200


def test_the_command_says_what_is_missing(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: str) -> Any:
        failure = CliRunner().invoke(app, ["view", "--no-browser", *arguments]).exception
        assert isinstance(failure, InvalidRequest)
        return failure

    assert re.search(r"is no folder\. .*tinkerscript record", str(fails(str(tmp_path / "nowhere"))))
    (tmp_path / "parquet").mkdir()
    (tmp_path / "parquet/part-000001.parquet").write_bytes(b"")
    assert "for programs" in str(fails(str(tmp_path / "parquet")))
    monkeypatch.setattr(server, "PLACES", (tmp_path / "empty",))
    assert "make frontend" in str(fails(str(exported)))
