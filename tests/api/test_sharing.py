"""A public link reads one run, until it expires or is revoked, and nothing else of the server."""

from datetime import timedelta

import pytest
from channels.testing import WebsocketCommunicator
from django.test import Client
from django.utils import timezone

from api.rest import rate_limit
from console import asgi
from console.live.services import event_record
from console.operations.erasure import person_erase
from console.sessions.episodes.annotations import episode_annotate
from console.sessions.models import EpisodeRecord, Session
from console.sessions.sharing import services as sharing
from console.sessions.sharing.models import ShareLink
from console.users.models import ApiKey, Membership, User
from support import factories
from support.route_cases import BODIES, LEASE_BODIES, LINK_ROUTES, WITHOUT_ID, ask
from tinkerscript.wire.account import Role, Scope
from tinkerscript.wire.episodes import EpisodeAnnotate
from tinkerscript.wire.events import EventKind

SECRETS = ("alice@example.com", "a private note", "Traceback of alice", "said by alice")


@pytest.fixture
def hers(project, alice) -> dict[str, str]:
    """Alice's session with an episode, a step, and what is nobody else's business."""
    ids = factories.ids_make(project, alice)
    failure = {"code": "runtime_lost", "cause": "Traceback of alice", "hint": ""}
    Session.objects.filter(id=ids["session_id"]).update(
        notes="a private note", failure=failure, name="shown"
    )
    EpisodeRecord.objects.filter(episode_id=ids["episode_id"]).update(reward=0.5)
    step = {"step": 1, "reward_mean": 0.5, "tokens_trained": 10, "episodes": 4}
    event_record(session_id=ids["session_id"], kind=EventKind.METRIC, data=step)
    said = EpisodeAnnotate(comment="said by alice")
    episode_annotate(
        project=project,
        session_id=ids["session_id"],
        episode_id=ids["episode_id"],
        body=said,
        person=alice,
    )
    return ids


@pytest.fixture
def owner(alice) -> Client:
    client = Client()
    client.force_login(alice)
    return client


@pytest.fixture
def reader(hers, owner, client_for) -> Client:
    """Somebody without an account who was given a link."""
    return client_for(token_of(owner, hers))


def token_of(owner: Client, hers: dict[str, str], days: int = 7) -> str:
    made = ask(owner, "POST", "/sessions/{session_id}/shares", hers, {"expires_in_days": days})
    assert made.status_code == 201, made.content
    address, _, token = made.json()["url"].partition("#")
    assert address.endswith("/shared")
    return token


def test_a_link_reads_its_run_and_shows_no_person_note_or_cause(hers, reader) -> None:
    run = reader.get("/v1/shared").json()
    assert (run["name"], run["state"], run["config"]["grpo_n"]) == ("shown", "stopped", 8)
    assert reader.get("/v1/shared/metrics", {"names": "reward_mean"}).json()["steps"] == [1]
    listed = reader.get("/v1/shared/episodes", {"fate": "trained", "sort": "best"}).json()["items"]
    assert [item["episode_id"] for item in listed] == [hers["episode_id"]]
    unstored = reader.get(f"/v1/shared/episodes/{hers['episode_id']}/timelines")
    assert unstored.status_code == 409
    shown = str([run, listed, unstored.json()])
    assert not [secret for secret in SECRETS if secret in shown]


def test_a_link_reaches_nothing_else(hers, reader) -> None:
    """Every other route, with the ids of its own run: as one that is not known."""
    for (method, path), body in (BODIES | WITHOUT_ID | LEASE_BODIES).items():
        answer = ask(reader, method, path, hers | {"upload_id": "upl_1"}, body)
        assert answer.status_code in (401, 409) and answer.json()["error"]["code"] in (
            "unauthenticated",
            "stale_lease",
        ), f"{method} {path}: {answer.content!r}"


def test_what_a_link_shows_is_kept_by_no_cache_and_its_token_goes_nowhere(
    hers, owner, client_for, caplog
) -> None:
    token = token_of(owner, hers)
    good, unknown = client_for(token), client_for(f"{token[:-4]}xxxx")
    caplog.clear()
    for client, expected in ((good, (200, 409)), (unknown, (401,))):
        for method, path in LINK_ROUTES:
            response = ask(client, method, path, hers)
            assert response.status_code in expected
            assert response.headers["Cache-Control"] == "no-store"
            assert (
                token[:-4]
                not in f"{response.headers}{response.content.decode()}{client.cookies}{caplog.text}"
            )
    # The page's address has the token after #, which a browser neither sends nor names as the page
    # that led elsewhere.
    page = Client().get("/shared")
    for response in (page, good.get("/v1/shared")):
        assert response.headers["Referrer-Policy"] == "same-origin"
        assert "connect-src 'self'" in response.headers["Content-Security-Policy"]


def test_a_link_reads_no_other_run(hers, reader, project) -> None:
    other = factories.session_make(project)
    record = EpisodeRecord.objects.create(
        session=other, episode_id="ep_other", seq=1, fate="trained", begun_at=0
    )
    assert reader.get(f"/v1/shared/episodes/{record.episode_id}/timelines").status_code == 404
    assert reader.get("/v1/shared", {"session_id": other.id}).status_code == 400
    assert [item["episode_id"] for item in reader.get("/v1/shared/episodes").json()["items"]] == [
        hers["episode_id"]
    ]


def test_neither_a_person_nor_a_key_reads_by_the_routes_of_links(
    hers, owner, client_for, api_key
) -> None:
    for method, path in LINK_ROUTES:
        for client in (owner, client_for(api_key), Client()):
            assert ask(client, method, path, hers).status_code == 401


@pytest.mark.django_db(transaction=True)
async def test_a_link_opens_no_live_channel(project, alice) -> None:
    from asgiref.sync import sync_to_async

    from console.sessions.sharing.services import share_create

    session = await sync_to_async(factories.session_make)(project)
    link = {"project": project, "session_id": session.id, "person": alice, "expires_in_days": 1}
    _, token = await sync_to_async(share_create)(**link)
    headers = [(b"host", b"testserver"), (b"authorization", f"Bearer {token}".encode())]
    client = WebsocketCommunicator(
        asgi.application, f"/ws/v1/sessions/{session.id}", headers=headers
    )
    await client.connect(timeout=10)
    assert (await client.receive_output(timeout=10))["code"] == 4401


def test_a_link_ends_when_it_expires_is_revoked_or_its_run_is_deleted(
    hers, owner, client_for
) -> None:
    tokens = [token_of(owner, hers) for _ in range(3)]
    # Each hash is of one token, which stands nowhere.
    assert not [token for token in tokens if token in str(list(ShareLink.objects.values()))]
    expiring, revoked, deleted = (client_for(token) for token in tokens)
    first, second = (
        link["id"]
        for link in ask(owner, "GET", "/sessions/{session_id}/shares", hers).json()["items"][:2]
    )
    assert [client.get("/v1/shared").status_code for client in (expiring, revoked, deleted)] == [
        200
    ] * 3
    links = {link.id: link for link in ShareLink.objects.all()}
    assert {first, second} <= set(links)
    oldest = min(links.values(), key=lambda link: link.created_at)
    ShareLink.objects.exclude(id__in=[first, second]).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )
    assert expiring.get("/v1/shared").status_code == 401 and oldest.id not in (first, second)
    path = "/sessions/{session_id}/shares/{share_id}"
    assert ask(owner, "DELETE", path, hers | {"share_id": second}).status_code == 204
    assert ask(owner, "DELETE", path, hers | {"share_id": second}).status_code == 404
    assert revoked.get("/v1/shared").status_code == 401
    assert deleted.get("/v1/shared").status_code == 200
    Session.objects.filter(id=hers["session_id"]).delete()
    assert deleted.get("/v1/shared").status_code == 401


def test_a_link_ends_with_the_rights_of_the_person_who_made_it(
    hers, owner, project, client_for
) -> None:
    readers, members = {}, {}
    for way in ("removed", "demoted", "inactive", "erased"):
        person, browser = (
            factories.member_make(project, way, Role.MEMBER),
            Client(headers={"X-Project-Id": project.id}),
        )
        browser.force_login(person)
        readers[way] = client_for(token_of(browser, hers))
        members[way] = {"member_id": Membership.objects.get(user=person, project=project).member_id}
    assert [reader.get("/v1/shared").status_code for reader in readers.values()] == [200] * 4
    assert ask(owner, "DELETE", "/members/{member_id}", members["removed"]).status_code == 204
    assert (
        ask(
            owner, "PATCH", "/members/{member_id}", members["demoted"], {"role": "viewer"}
        ).status_code
        == 200
    )
    User.objects.filter(email="inactive@example.com").update(is_active=False)
    person_erase(email="erased@example.com")
    assert [reader.get("/v1/shared").status_code for reader in readers.values()] == [401] * 4
    listed = ask(owner, "GET", "/sessions/{session_id}/shares", hers).json()["items"]
    assert {link["by"] for link in listed} == {"alice@example.com"}
    assert set(ShareLink.objects.values_list("person__email", flat=True)) == {
        "alice@example.com", "inactive@example.com"
    }, "coming back revives none"  # fmt: skip


def test_a_link_that_was_made_with_a_key_ends_with_that_key(
    hers, owner, project, alice, client_for
) -> None:
    keys = [factories.key_make(project, alice) for _ in range(2)]
    readers = [client_for(token_of(client_for(key), hers)) for key in keys]
    assert [reader.get("/v1/shared").status_code for reader in readers] == [200] * 2
    revoked, expired = (
        ShareLink.objects.exclude(key=None).order_by("created_at").values_list("key_id", flat=True)
    )
    assert ask(owner, "DELETE", "/keys/{key_id}", {"key_id": revoked}).status_code == 204
    ApiKey.objects.filter(id=expired).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert [reader.get("/v1/shared").status_code for reader in readers] == [401] * 2
    assert len(ask(owner, "GET", "/sessions/{session_id}/shares", hers).json()["items"]) == 1, (
        "of hers['share_id']"
    )


def test_a_key_that_may_not_read_makes_no_link(hers, project, alice, client_for) -> None:
    writer = client_for(factories.key_make(project, alice, [Scope.SESSIONS_WRITE]))
    before = ShareLink.objects.count()
    refused = ask(writer, "POST", "/sessions/{session_id}/shares", hers, {"expires_in_days": 1})
    assert refused.status_code == 403 and Scope.SESSIONS_READ in refused.json()["error"]["message"]
    assert ShareLink.objects.count() == before


def test_making_and_revoking_a_link_is_in_the_audit_log_without_its_token(hers, owner) -> None:
    token = token_of(owner, hers, days=3)
    (link,) = ask(owner, "GET", "/sessions/{session_id}/shares", hers).json()["items"][:1]
    ask(
        owner, "DELETE", "/sessions/{session_id}/shares/{share_id}", hers | {"share_id": link["id"]}
    )
    found = owner.get("/v1/audit").json()["items"]
    rows = [row for row in found if row["action"].startswith("share_")][::-1]
    assert [(row["action"], row["actor"]) for row in rows] == [
        ("share_create", "alice@example.com"),
        ("share_revoke", "alice@example.com"),
    ]
    assert rows[0]["details"] == {"expires_in_days": 3} and rows[0]["target"]["id"] == link["id"]
    assert token not in str(rows)


def test_a_session_has_so_many_links_of_those_that_are_good(hers, owner, monkeypatch) -> None:
    ShareLink.objects.all().delete()
    assert sharing.MAX_LINKS == 20
    monkeypatch.setattr(sharing, "MAX_LINKS", 2)
    for _ in range(2):
        token_of(owner, hers)
    refused = ask(owner, "POST", "/sessions/{session_id}/shares", hers, {})
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota_exceeded")
    newest = ShareLink.objects.latest("created_at")
    ShareLink.objects.filter(id=newest.id).update(expires_at=timezone.now())
    assert token_of(owner, hers), "one that has expired is not counted"


def test_each_link_is_counted_as_a_caller(hers, owner, client_for, settings) -> None:
    one, other = (client_for(token_of(owner, hers)) for _ in range(2))
    settings.RATE_LIMIT_PER_MINUTE = 60 // rate_limit.WINDOW_S  # one request
    told = [one.get("/v1/shared").status_code for _ in range(3)]
    assert 429 in told and other.get("/v1/shared").status_code == 200
