"""Health, the console's single page, and what every HTTP request passes first."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client, RequestFactory

from console.asgi import application
from console.server.middleware import PageFiles
from console.server.request_limits import MAX_BODY_BYTES
from support.asgi_calls import Call
from tinkerscript.wire.errors import ErrorBody


def test_health(client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/", "/sessions/ses_1", "/keys", "/v1ish"])
def test_every_address_of_the_console_is_the_same_page(
    path, client: Client, settings, tmp_path: Path
) -> None:
    settings.FRONTEND_DIST = tmp_path
    assert b"make frontend" in client.get(path).content
    (tmp_path / "index.html").write_text("<!doctype html>built")
    answer = client.get(path)
    assert (answer.status_code, answer.content) == (200, b"<!doctype html>built")
    assert "csrftoken" in answer.cookies
    assert client.post(path).status_code == 405


def test_a_file_of_a_page_is_answered_whole_by_part_and_not_again(tmp_path: Path) -> None:
    (tmp_path / "start.js").write_bytes(b"0123456789")
    files = PageFiles(None)
    files.add_file_to_dictionary("/start.js", str(tmp_path / "start.js"))
    whole = files(RequestFactory().get("/start.js"))
    # Django warns of a stream from a file, in the output of every server.
    assert not whole.streaming
    assert (whole.status_code, whole.content) == (200, b"0123456789")
    assert "javascript" in whole["Content-Type"]
    part = files(RequestFactory().get("/start.js", HTTP_RANGE="bytes=2-4"))
    assert (part.status_code, part.content) == (206, b"234")
    known = {"HTTP_IF_MODIFIED_SINCE": whole["Last-Modified"]}
    again = files(RequestFactory().get("/start.js", **known))
    assert (again.status_code, again.content) == (304, b"")
    head = files(RequestFactory().head("/start.js"))
    assert (head.content, head["Content-Length"]) == (b"", "10")


@pytest.mark.django_db(transaction=True)
async def test_each_answer_has_the_id_of_its_request() -> None:
    for path, key in (
        ("/healthz", None),
        ("/v1/account", "wrong"),
        ("/openai/v1/models", "wrong"),
        ("/nothing", None),
    ):
        _, headers, _ = await Call(
            application, "GET", path, key=key, x_request_id="mine-1"
        ).answer()
        assert headers["x-request-id"] == "mine-1"
        _, headers, _ = await Call(
            application, "GET", path, key=key, x_request_id="not mine"
        ).answer()
        assert headers["x-request-id"].startswith("req_")


@pytest.mark.django_db(transaction=True)
async def test_a_body_over_the_limit_is_refused_while_it_comes() -> None:
    call = Call(application, "POST", "/v1/sessions", body=b" " * (MAX_BODY_BYTES + 1))
    status, headers, body = await call.answer()
    assert status == 413
    assert ErrorBody.model_validate_json(body).request_id == headers["x-request-id"]
    just_fits = Call(application, "POST", "/v1/sessions", body=b" " * MAX_BODY_BYTES)
    assert (await just_fits.answer())[0] == 401


@pytest.mark.django_db(transaction=True)
async def test_sign_up_through_the_console_page_makes_a_project() -> None:
    _, headers, _ = await Call(application, "GET", "/").answer()
    token = headers["set-cookie"].partition("csrftoken=")[2].partition(";")[0]
    call = Call(
        application,
        "POST",
        "/_allauth/browser/v1/auth/signup",
        body=b'{"email": "new@example.com", "password": "correct horse battery"}',
        content_type="application/json",
        cookie=f"csrftoken={token}",
        x_csrftoken=token,
    )
    status, headers, body = await call.answer()
    assert status == 200, body


SIGN_IN_BUDGET_BYTES = 120_000
LOADED_AT_ONCE = re.compile(r'(?:src|href)="/([^"]+)"')


def test_who_signs_in_loads_less_than_120_kb() -> None:
    dist = settings.FRONTEND_DIST
    if not (dist / "index.html").exists():
        pytest.skip("frontend/dist is missing: run requirements/install.sh frontend")
    files = [
        dist / name
        for name in ["index.html", *LOADED_AT_ONCE.findall((dist / "index.html").read_text())]
    ]
    scripts = "".join(file.read_text() for file in files if file.suffix == ".js")
    # the page itself is among them, and not loaded later
    assert "Forgotten your password?" in scripts
    sizes = {file.name: file.with_name(f"{file.name}.gz").stat().st_size for file in files}
    assert sum(sizes.values()) < SIGN_IN_BUDGET_BYTES, sizes
