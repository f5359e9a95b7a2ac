"""The page of the API reference, which is the one page of the API: its endpoints return JSON to
browsers too.
"""

from html.parser import HTMLParser

from django.contrib.staticfiles import finders
from django.test import Client

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


def test_every_client_gets_json(alice, project, api_key, client_for, client) -> None:
    browser = Client(headers={"Accept": HTML})
    browser.force_login(alice)
    answers = [
        browser.get("/v1/sessions"),
        client_for(api_key).get("/v1/sessions", headers={"Accept": HTML}),
        client.get("/v1/sessions", headers={"Accept": HTML}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 401]
    assert {answer["Content-Type"] for answer in answers} == {"application/json"}


def test_the_reference_loads_nothing_from_elsewhere(client) -> None:
    answer = client.get("/docs")
    assert answer.status_code == 200
    check_page(answer)
    assert "csrftoken" in answer.cookies
