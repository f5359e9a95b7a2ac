"""What people write on runs and episodes: kept in every state, found in lists, part of exports."""

from datetime import timedelta

import pytest
from django.test import Client

from api.views.queries import AuditQuery
from console.live.models import EventRecord
from console.sessions.episodes import annotations
from console.sessions.episodes.models import EpisodeAnnotation
from console.sessions.models import Session
from support import factories
from tinkerscript.wire.sessions import SessionState

JSON = "application/json"
HOSTILE = "<script>alert(1)</script>\u202e|"


@pytest.fixture
def owner(alice) -> Client:
    client = Client()
    client.force_login(alice)
    return client


@pytest.fixture
def colleague(member, project) -> Client:
    client = Client(headers={"X-Project-Id": project.id})
    client.force_login(member)
    return client


def patch(client: Client, path: str, body: dict):
    return client.patch(f"/v1/sessions/{path}", body, content_type=JSON)


def names(client: Client, query: str) -> list[str]:
    return [item["name"] for item in client.get(f"/v1/sessions?{query}").json()["items"]]


@pytest.fixture
def three(project) -> list[Session]:
    """Runs that have ended, the oldest first."""
    return [
        factories.session_make(project, state=SessionState.STOPPED, name=name) for name in "abc"
    ]


def test_a_run_that_has_ended_is_named_tagged_and_pinned(owner: Client, three) -> None:
    first = three[0]
    view = patch(
        owner,
        first.id,
        {"name": "best", "tags": ["a_b", " good ", "good"], "notes": HOSTILE, "pinned": True},
    )
    assert view.status_code == 200, view.content
    got = owner.get(f"/v1/sessions/{first.id}").json()
    assert (got["name"], got["tags"], got["notes"], got["pinned"]) == (
        "best",
        ["a_b", "good"],
        HOSTILE,
        True,
    )
    patch(owner, first.id, {"pinned": False})
    assert Session.objects.get(id=first.id).notes == HOSTILE, "what is absent stays"


def test_runs_are_found_by_what_is_said_of_them_and_by_their_time(
    owner: Client, three, project
) -> None:
    first, second, _ = three
    patch(owner, first.id, {"tags": ["a_b", "good"], "pinned": True})
    patch(owner, second.id, {"tags": ["axb", "goodness"]})
    assert names(owner, "tag=good") == ["a"], "a tag, not a part of one"
    assert names(owner, "tag=a_b") == ["a"], "the underscore is no wildcard"
    assert names(owner, "tag=good&tag=axb") == []
    assert names(owner, "tag=Good") == [], "another case is another tag"
    assert (names(owner, "pinned=true"), names(owner, "pinned=false")) == (["a"], ["c", "b"])
    factories.session_make(project, name="waits", kind="serving")
    assert names(owner, "name=WAIT") == ["waits"], "in any case; no id has these letters"
    assert names(owner, f"name={second.id}") == ["b"]
    assert names(owner, "state=queued") == names(owner, "kind=serving") == ["waits"]
    made = (first.created_at + timedelta(microseconds=1)).isoformat().replace("+", "%2B")
    assert names(owner, f"since={made}&state=stopped") == ["c", "b"]
    assert names(owner, f"until={made}") == ["a"]
    assert names(owner, f"base_model={first.base_model}&since=2999-01-01T00:00:00Z") == []
    assert names(owner, "base_model=another") == []
    assert owner.get("/v1/sessions?since=2026-11-01").status_code == 400, "a time without its zone"


def test_a_time_of_any_offset_is_read_in_utc() -> None:
    query = AuditQuery.model_validate({"until": "2026-01-02T00:00:00+23:17"})
    assert str(query.until) == "2026-01-01 00:43:00+00:00"


def test_every_order_of_runs_has_each_of_them_once_page_by_page(owner: Client, three) -> None:
    first, second, third = three
    patch(owner, first.id, {"name": "best", "pinned": True})
    assert names(owner, "sort=pinned") == ["best", "c", "b"]
    assert names(owner, "sort=name") == ["b", "best", "c"]
    for sort in ("pinned", "name", "newest"):
        walked, cursor = [], ""
        while cursor is not None:
            page = owner.get(
                f"/v1/sessions?sort={sort}&limit=1" + (f"&cursor={cursor}" if cursor else "")
            ).json()
            walked += [item["id"] for item in page["items"]]
            cursor = page["next_cursor"]
        assert sorted(walked) == sorted([first.id, second.id, third.id]), sort


@pytest.mark.parametrize(
    "body",
    [
        {"tags": ["a|b"]},
        {"tags": ["a,b"]},
        {"tags": [" "]},
        {"tags": ["x"] * 21},
        {"name": "n" * 121},
        {"pin": True},
    ],
)
def test_what_cannot_be_kept_is_refused_and_nothing_changes(owner: Client, project, body) -> None:
    session = factories.session_make(project)
    assert patch(owner, session.id, body).status_code == 400
    session.refresh_from_db()
    assert (session.tags, session.name, session.pinned) == ("", "", False)


def test_each_person_says_of_an_episode_what_they_think_and_it_is_found(
    owner, colleague, project, alice, member
) -> None:
    ids = factories.ids_make(project, alice)
    path = f"{ids['session_id']}/episodes/{ids['episode_id']}/annotation"
    assert patch(owner, path, {"thumb": "up", "comment": HOSTILE}).status_code == 200
    said = patch(colleague, path, {"thumb": "down"}).json()["items"]
    assert [(one["by"], one["thumb"], one["comment"]) for one in said] == [
        (alice.email, "up", HOSTILE),
        (member.email, "down", ""),
    ]
    patch(owner, path, {"thumb": "down", "comment": "on second thought"})
    assert EpisodeAnnotation.objects.count() == 2, "in the place of the earlier one"
    listed = f"/v1/sessions/{ids['session_id']}/episodes"
    for query, found in {
        "thumb=down": 1,
        "thumb=up": 0,
        "commented=true": 1,
        "commented=false": 0,
    }.items():
        assert len(owner.get(f"{listed}?{query}").json()["items"]) == found, query
    (item,) = owner.get(f"{listed}?sort=newest").json()["items"]
    assert {one["comment"] for one in item["annotations"]} == {"on second thought", ""}
    patch(colleague, path, {})
    assert EpisodeAnnotation.objects.get().person == alice
    patch(colleague, path, {"comment": " "})
    patch(owner, path, {"thumb": "down", "comment": " on second thought "})
    kept = EventRecord.objects.filter(session_id=ids["session_id"], data__name="episode_annotated")
    assert kept.count() == 4, "one for each change"
    assert "thought" not in str(list(kept.values())), (
        "words that can be taken back are in no record"
    )


def test_an_export_has_what_is_said_of_its_episodes(
    owner: Client, project, alice, any_store
) -> None:
    ids = factories.ids_make(project, alice)
    session = Session.objects.get(id=ids["session_id"])
    session.archive_parts.create(
        number=1, episodes=1, path="part-00001.parquet", size_bytes=1, sha256="0" * 64
    )
    patch(
        owner, f"{session.id}/episodes/{ids['episode_id']}/annotation", {"comment": "look at this"}
    )
    export = owner.get(f"/v1/sessions/{session.id}/episodes/export").json()
    (said,) = export["annotations"]
    assert (said["episode_id"], said["comment"], said["thumb"]) == (
        ids["episode_id"],
        "look at this",
        None,
    )


def test_an_export_has_every_annotation_page_by_page(
    owner: Client, project, any_store, monkeypatch
) -> None:
    monkeypatch.setattr(annotations, "EXPORT_PAGE", 2)
    session = factories.session_make(project, state=SessionState.STOPPED)
    session.archive_parts.create(
        number=1, episodes=1, path="part-00001.parquet", size_bytes=1, sha256="0" * 64
    )
    for number in range(5):
        EpisodeAnnotation.objects.create(session=session, episode_id=f"ep_{number}", comment="said")
    seen, cursor = [], 0
    while cursor is not None:
        path = f"/v1/sessions/{session.id}/episodes/export?annotations_after={cursor}"
        export = owner.get(path).json()
        assert len(export["annotations"]) <= 2 and len(export["files"]) == 1
        seen += [said["episode_id"] for said in export["annotations"]]
        cursor = export["annotations_cursor"]
    assert seen == [f"ep_{number}" for number in range(5)]


def test_a_list_has_the_newest_annotations_of_each_episode(owner: Client, project, alice) -> None:
    ids = factories.ids_make(project, alice)
    for number in range(annotations.MAX_LISTED + 5):
        EpisodeAnnotation.objects.create(
            session_id=ids["session_id"], episode_id=ids["episode_id"], comment=f"comment {number}"
        )
    (item,) = owner.get(f"/v1/sessions/{ids['session_id']}/episodes?sort=newest").json()["items"]
    said = [one["comment"] for one in item["annotations"]]
    assert said == [f"comment {number}" for number in range(5, annotations.MAX_LISTED + 5)]
