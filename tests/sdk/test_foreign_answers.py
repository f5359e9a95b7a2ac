"""What stands between client and server: proxies, their pages, sign-in portals, an outage. Each is
named, soon.
"""

import http.server
import logging
import threading
from contextlib import contextmanager

import openai
import pytest
from sdk.http_parts import Answer
from sdk.rest_server import API_KEY

from support.waiting import wait_until
from tinkerscript import ServerUnreachable, TinkerScript, TinkerScriptError, UnexpectedAnswer
from tinkerscript.connection import waiting
from tinkerscript.connection.error_responses import excerpt
from tinkerscript.connection.http_client import HttpOptions, proxy_of
from tinkerscript.reports import Failure

FAR = "https://tinkerscript.example"


def page(status, title, **headers):
    body = f"<!DOCTYPE html>\n<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
    return Answer(status, body.encode(), {"Content-Type": "text/html", **headers})


ANSWERS = {
    "bad gateway": (
        page(502, "502 Bad Gateway"),
        "a web page, '502 Bad Gateway'",
        "server behind it runs",
    ),
    "no backend": (
        page(503, "Service Unavailable"),
        "'Service Unavailable'",
        "server behind it runs",
    ),
    "gateway timeout": (Answer(504, b""), "an empty body", "server behind it runs"),
    "policy": (
        page(403, "Blocked by policy"),
        "'Blocked by policy'",
        "a proxy, a VPN, a sign-in page",
    ),
    "asks who": (
        page(401, "Authorization Required"),
        "'Authorization Required'",
        "a proxy, a VPN, a sign-in page",
    ),
    "crash of a gateway": (page(500, "Oops"), "'Oops'", "a proxy, a VPN, a sign-in page"),
    "body too large": (page(413, "Too Large"), "'Too Large'", "raise its limit"),
    "proxy's password": (page(407, "Proxy"), "'Proxy'", "user and a password"),
    "portal": (page(200, "Sign in"), "a web page, 'Sign in'", "a proxy, a VPN, a sign-in page"),
    "redirect to a portal": (
        Answer(302, b"", {"Location": "https://login.example/oauth2/authorize?next=x"}),
        "302",
        "It leads to a sign-in page, https://login.example/oauth2/authorize.",
    ),
    "redirect to https": (
        Answer(301, b"", {"Location": "https://tinkerscript.example/v1/server"}),
        "301",
        "use the origin of https://tinkerscript.example",
    ),
}


@pytest.mark.parametrize(("answer", "said", "hint"), ANSWERS.values(), ids=ANSWERS)
def test_what_a_proxy_answers_is_named_with_what_to_do(
    server, connect, caplog, pauses, answer, said, hint
):
    session = connect(retry_timeout_s=0.1)
    episode = session.begin_episode()
    server.fail(".*", times=10_000, answer=answer)
    for call in (
        lambda: connect(retry_timeout_s=0.1),
        lambda: episode.end(1.0),
        session.begin_episode,
    ):
        pauses.clear()
        with pytest.raises(TinkerScriptError) as caught:
            call()
        assert sum(pauses) < 0.1, "it was not tried for longer"
        assert said in caught.value.message
        assert hint in caught.value.hint
        assert "<" not in str(caught.value)
    assert "is version" not in caplog.text, "nothing is taken for an old server"
    server.faults.clear()
    assert episode.end(1.0).state == "completed", "it can still be ended"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "an empty body"),
        (b"no  route\nto host", "no route to host"),
        (b"<html><body><style>a{}</style>Out &amp; away</body>", "a web page, 'Out & away'"),
        (b"<html><script>let a = '<", "a web page"),
        (b"\xff" * 900, "\ufffd" * 200),
    ],
)
def test_the_excerpt_of_a_body_is_one_short_line(body, said):
    assert excerpt(body) == said


class Proxy(http.server.BaseHTTPRequestHandler):
    seen: list[str] = []

    def do_CONNECT(self):
        self.seen.append(self.path)
        self.send_error(407)

    def log_message(self, format, *args):
        """Quiet."""


@contextmanager
def running_proxy():
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield proxy.server_address[1]
    finally:
        proxy.shutdown()
        proxy.server_close()


def test_a_proxy_of_the_environment_that_is_away_is_named(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://joe:secret@127.0.0.1:9")
    with pytest.raises(ServerUnreachable) as caught:
        TinkerScript("m", base_url=FAR, api_key=API_KEY, retry_timeout_s=0.0)
    assert "through the proxy http://127.0.0.1:9" in caught.value.hint
    assert "tinkerscript.example into NO_PROXY" in caught.value.hint
    assert "secret" not in str(caught.value)


def test_a_proxy_that_wants_a_password_is_asked_once(monkeypatch):
    with running_proxy() as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        with pytest.raises(ServerUnreachable, match="wants a user and a password"):
            TinkerScript("m", base_url=FAR, api_key=API_KEY)
    assert Proxy.seen == ["tinkerscript.example:443"]


def test_no_proxy_and_this_machine_go_past_a_proxy(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    of = {
        url: proxy_of(url, HttpOptions())
        for url in (FAR, "https://inside.example", "http://127.0.0.1:8000")
    }
    assert of == {
        FAR: "http://127.0.0.1:9",
        "https://inside.example": None,
        "http://127.0.0.1:8000": None,
    }


def test_an_outage_is_told_once_while_it_lasts_and_when_it_is_over(
    server, connect, caplog, monkeypatch
):
    caplog.set_level(logging.WARNING, "tinkerscript")
    monkeypatch.setattr(waiting, "NOTICE_AFTER_S", 0.1)
    session = connect(retry_timeout_s=30)
    episode = session.begin_episode()
    server.stop()
    ending = [
        threading.Thread(target=call) for call in (lambda: episode.end(1.0), session.accounting)
    ]
    for thread in ending:
        thread.start()
    wait_until(lambda: "Trying again" in caplog.text)
    server.start()
    for thread in ending:
        thread.join(30)
    told, over = [r.getMessage() for r in caplog.records if r.name == "tinkerscript"]
    assert f"No response from {server.url}" in told and "Hint: Check that the server runs" in told
    assert over.startswith("The server responds again")
    assert episode.result.state == "completed"


def test_a_page_of_something_else_is_no_server(server, connect):
    server.fail("GET /v1/server", answer=page(200, "Welcome to nginx!"))
    with pytest.raises(UnexpectedAnswer, match="Welcome to nginx!"):
        connect()


@pytest.mark.parametrize("stream", [False, True])
def test_a_sign_in_page_that_an_agents_own_client_took_for_an_answer_is_named(
    server, connect, capsys, stream
):
    """It comes with status 200: the client hands out a string, or a stream of nothing."""
    session = connect(grpo_n=2, tasks_per_batch=1)
    server.fail("POST .*/chat/completions", times=99, answer=page(200, "Sign in"))
    server.calls_per_episode = 0

    def agent(task, episode):
        with openai.OpenAI(
            base_url=episode.base_url, api_key=episode.api_key, max_retries=0
        ) as client:
            messages = [{"role": "user", "content": task}]
            answer = client.chat.completions.create(
                model=episode.model, messages=messages, stream=stream
            )
            return (
                1.0
                if stream and not list(answer)
                else float(len(answer.choices[0].message.content))
            )

    session.rollouts(agent, ["a"], workers=1, retries=0)
    table = capsys.readouterr().err
    if stream:
        assert "EmptyEpisode" in table and "sign-in page" in table
    else:
        assert (
            "has no attribute 'choices' (a web page, 'Sign in'. " in table
            and "a proxy, a VPN, a sign-in" in table
        )


@pytest.mark.parametrize(
    ("status", "hint"), [(502, "server behind it runs"), (403, "a sign-in page")]
)
def test_a_page_that_an_agents_own_client_got_is_in_the_table_of_failures(
    server, connect, capsys, status, hint
):
    """The client says `Error code: 502` and leaves the page out."""
    session = connect(grpo_n=2, tasks_per_batch=1)
    server.fail("POST .*/chat/completions", times=99, answer=page(status, "Bad Gateway"))

    def agent(task, episode):
        with openai.OpenAI(
            base_url=episode.base_url, api_key=episode.api_key, max_retries=0
        ) as client:
            client.chat.completions.create(
                model=episode.model, messages=[{"role": "user", "content": task}]
            )
        return 1.0

    session.rollouts(agent, ["a"], workers=1, retries=0)
    table = capsys.readouterr().err
    assert f"Error code: {status} (a web page, 'Bad Gateway'. " in table and hint in table


@pytest.mark.parametrize(
    ("body", "field", "is_named"),
    [
        ("<html><title>Sign in</title>", "choices", True),
        # a lone surrogate: no text that can be encoded
        ("<html><title>Sign in \ud800</title>", "choices", True),
        # of an agent that reads pages of its own
        ("<html><title>Sign in</title>", "find_all", False),
    ],
)
def test_a_page_is_named_only_where_a_field_of_an_answer_was_looked_for(body, field, is_named):
    with pytest.raises(AttributeError) as caught:
        getattr(body, field)
    kind = Failure("a", caught.value).kind
    assert f"has no attribute '{field}'" in kind and ("a web page" in kind) == is_named
