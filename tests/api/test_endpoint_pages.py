"""The page of each endpoint: for a signed-in person whose browser asks for HTML, and for no other client."""

import re
from html.parser import HTMLParser

import pytest
from django.contrib.staticfiles import finders
from django.test import AsyncClient, Client

from support import factories
from support.route_cases import LINK_ROUTES, ask, declared
from tinkerscript.wire.account import Role

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"  # as browsers ask when an address is opened


class Markup(HTMLParser):
    """What a page loads, and what of it the content security policy would block."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe") and given.get("src"):
            self.loads.append(given["src"])
        elif tag == "link":
            self.loads.append(given["href"])
        elif tag == "style" or (tag == "script" and given.get("type") != "application/json"):
            self.inline.append(tag)
        self.inline += [name for name in given if name == "style" or name.startswith("on")]


def check_page(answer) -> None:
    """Everything comes from this server, nothing is inline, and what it loads is there."""
    assert answer["Content-Type"].startswith("text/html")
    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy
    markup = Markup(answer.content.decode())
    assert markup.inline == []
    assert len(markup.loads) > 2
    for address in markup.loads:
        assert address == "data:," or finders.find(address.removeprefix("/static/")), address


@pytest.fixture
def alices(alice) -> Client:
    """Alice's browser."""
    client = Client(headers={"Accept": HTML})
    client.force_login(alice)
    return client


def test_a_signed_in_persons_browser_gets_a_page_with_the_data(alices, project) -> None:
    session = factories.session_make(project, name="shown on the page")
    for path in ("/v1/sessions", f"/v1/sessions/{session.id}"):
        answer = alices.get(path)
        assert answer.status_code == 200
        check_page(answer)
        assert "shown on the page" in answer.content.decode()
        assert "Accept" in answer["Vary"]


def test_every_other_client_gets_json(alices, api_key, client_for, client, db) -> None:
    answers = [
        alices.get("/v1/sessions", headers={"Accept": "*/*"}),
        alices.get("/v1/sessions", headers={"Accept": "application/json"}),
        client_for(api_key).get("/v1/sessions", headers={"Accept": HTML}),
        alices.get("/v1/sessions", headers={"Accept": HTML, "Authorization": f"Bearer {api_key}"}),
        client.get("/v1/sessions", headers={"Accept": HTML}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 401]
    assert {answer["Content-Type"] for answer in answers} == {"application/json"}


def test_an_error_is_shown_on_a_page_too(alices) -> None:
    answer = alices.get("/v1/sessions/ses_nothing")
    assert answer.status_code == 404
    check_page(answer)
    assert "not_found" in answer.content.decode()
    assert alices.get("/v1/sessions?limit=0").status_code == 400


def test_every_endpoint_that_is_read_has_one(alices, alice, project) -> None:
    ids = factories.ids_make(project, alice)
    for method, path in sorted(declared() - LINK_ROUTES):  # a browser cannot send a link's token by itself
        if method == "GET":
            answer = ask(alices, method, path, ids)
            assert answer.status_code in (200, 404, 409), (path, answer.content)  # 409: the session has ended
            assert answer["Content-Type"].startswith("text/html"), path


def test_the_page_offers_what_the_persons_role_allows(alices, alice, project) -> None:
    assert 'data-method="DELETE"' in alices.get(f"/v1/sessions/{factories.session_make(project).id}").content.decode()
    page = alices.get("/v1/sessions").content.decode()
    assert 'method="POST"' in page
    assert "&quot;base_model&quot;: &quot;&quot;" in page  # what a body must have, to fill in
    viewer = Client(headers={"Accept": HTML, "X-Project-Id": project.id})
    viewer.force_login(factories.member_make(project, "vera", Role.VIEWER))
    assert 'method="POST"' not in viewer.get("/v1/sessions").content.decode()


def test_a_request_sent_from_the_page_needs_its_token(alice, project) -> None:
    browser = Client(headers={"Accept": HTML}, enforce_csrf_checks=True)
    browser.force_login(alice)
    page = browser.get("/v1/sessions").content.decode()
    token = re.search(r'"csrfToken": "(\w+)"', page)[1]
    send = {"data": {"base_model": factories.BASE_MODEL}, "content_type": "application/json"}
    refused = browser.post("/v1/sessions", **send)
    assert (refused.status_code, refused["Content-Type"]) == (403, "application/json")
    made = browser.post("/v1/sessions", **send, headers={"X-CSRFToken": token})
    assert made.status_code == 201
    check_page(made)


@pytest.mark.django_db(transaction=True)
async def test_what_a_gateway_returned_is_shown_on_a_page(served, alices) -> None:
    browser = AsyncClient()
    browser.cookies = alices.cookies
    answer = await browser.get(f"/v1/sessions/{served.id}/episodes", headers={"Accept": HTML})
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/html")
    assert "&quot;path&quot;: &quot;/episodes&quot;" in answer.content.decode()


def test_the_reference_loads_nothing_from_elsewhere(client) -> None:
    answer = client.get("/docs")
    assert answer.status_code == 200
    check_page(answer)
    assert "csrftoken" in answer.cookies
