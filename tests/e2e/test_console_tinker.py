"""The page of a session that the unmodified ``tinker`` client drives, in a real browser."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from e2e.console_pages import Server, browser, make_key, open_place, page, pages_need, sign_up
from e2e.loop_server import BASE_MODEL, ROOT, LoopServer
from playwright.sync_api import Locator, Page, Request, Response, expect

from support.tinker_exit import ended_well

__all__ = ["browser", "page"]

pytestmark = pytest.mark.browser
PROGRAM = ROOT / "tests/e2e/tinker_two_models.py"


@pytest.fixture(scope="module")
def server(loop_server: LoopServer) -> Iterator[Server]:
    pages_need()
    yield Server(loop_server.url, loop_server.data)


@pytest.mark.timeout(400)
def test_a_tinker_session_has_a_page_of_its_models_losses_and_checkpoints_and_nothing_of_episodes(
    page: Page, server: Server
) -> None:
    sign_up(page, "tina@example.org")
    variables = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    key = make_key(page)
    variables |= {
        "TINKER_BASE_URL": server.url,
        "TINKER_API_KEY": key,
        "TINKER_TELEMETRY": "0",
    }
    program = subprocess.Popen(
        [sys.executable, str(PROGRAM), BASE_MODEL],
        env=variables,
        cwd="/",
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert program.stdout.readline().strip() == "trained", program.stderr.read()[-3000:]
        look_at_it(page, key)
        said, wrong = program.communicate("\n", timeout=120)
        assert ended_well(program.returncode, wrong), wrong[-3000:]
    finally:
        program.kill()
        program.communicate(timeout=10)
    page.reload()
    expect(page.get_by_text("Ended by its client")).to_be_visible()
    constant = page.locator("dl[aria-label='Constant over the run']")
    expect(constant.filter(has_text="Loss by token")).to_be_visible()


def chat_with(page: Page, checkpoints: Locator, key: str) -> None:
    """The sampler's weights answer the line that is shown beside them, and in the playground."""
    line = checkpoints.locator("pre").filter(has_text="curl").inner_text()
    called = subprocess.run(
        ["bash", "-ec", line],
        env={"PATH": os.environ["PATH"], "TINKER_API_KEY": key},
        capture_output=True,
        timeout=60,
    )
    assert isinstance(json.loads(called.stdout)["choices"][0]["message"]["content"], str)
    checkpoints.get_by_role("link", name="Chat").click()
    model = page.get_by_label("Model", exact=True)
    expect(model).to_have_value(re.compile(r"^tinker://tnk_\w+:train:1/sampler_weights/end$"))
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_label("Tokens at most").fill("8")
    page.get_by_label("Prompt").fill("Hello")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_text(re.compile("ended by (stop|length)")).first).to_be_visible()
    page.go_back()


def checkpoints_look(page: Page, key: str) -> None:
    """They are read by path, copied, published, taken back, and chatted with."""
    open_place(page, "Checkpoints")
    checkpoints = page.get_by_role("region", name="Checkpoints")
    expect(
        checkpoints.get_by_text(re.compile(r"^tinker://tnk_\w+:train:0/weights/end$"))
    ).to_be_visible()
    copy = checkpoints.get_by_role("button", name=re.compile("^Copy tinker:"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copy.first.click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("tinker://tnk_")
    checkpoints.get_by_role("button", name="Publish").first.click()
    expect(checkpoints.get_by_text("Every project of this server may read it.")).to_be_visible()
    checkpoints.get_by_role("button", name="Take back").click()
    expect(checkpoints.get_by_text("This project alone may read it.")).to_be_visible()
    chat_with(page, checkpoints, key)


def look_at_it(page: Page, key: str) -> None:
    refused: list[str] = []
    asked: list[str] = []
    said: list[str] = []

    def heard(response: Response) -> None:
        if response.status >= 400:
            refused.append(f"{response.status} {response.url}")

    def sent(request: Request) -> None:
        asked.append(request.url)

    page.on("response", heard)
    page.on("request", sent)
    page.on(
        "console", lambda message: said.append(message.text) if message.type == "error" else None
    )
    page.get_by_role("link", name="Sessions", exact=True).click()
    row = page.get_by_role("row").filter(has_text="Tinker client")
    expect(row.get_by_role("checkbox")).to_have_count(0)
    row.get_by_role("link").first.click()
    page.wait_for_url(re.compile(r"/sessions/ses_\w+$"))
    models = page.get_by_role("region", name="Models of the session").get_by_role("row")
    expect(models).to_have_count(3)
    first, second = models.nth(1), models.nth(2)
    expect(first).to_contain_text("LoRA of rank 8")
    expect(second).to_contain_text("LoRA of rank 4, without MLP")
    expect(first.get_by_role("cell")).to_have_text(
        ["LoRA of rank 8", "1e-4", "3", "3", re.compile("just now|ago")]
    )
    expect(second.get_by_role("cell").nth(1)).to_have_text("0.002")
    expect(page.get_by_test_id("steps")).to_have_text("4")
    client = page.get_by_role("region", name="Tinker client")
    expect(client).to_contain_text("recipe: two models")
    expect(page.get_by_test_id("tokens")).to_contain_text("trained")
    constant = page.locator("dl[aria-label='Constant over the run']")  # each call returned the same
    expect(constant.filter(has_text="Loss by token")).to_contain_text("2")
    expect(constant.filter(has_text="Learning rate")).to_contain_text("1e-4")
    page.get_by_label("Model of the curves").select_option(label="train:1")
    expect(
        page.get_by_role("img", name=re.compile("^Loss by token by call; at call 1"))
    ).to_be_visible()
    checkpoints_look(page, key)
    open_place(page, "Overview")
    expect(models).to_have_count(3)
    main = page.get_by_role("main")
    for absent in (
        "Ready for episodes",
        "grpo",
        "Samples",
        "Groups that are filling",
        "No step yet",
        "begun",
        "waiting for episodes",
    ):
        expect(main.get_by_text(absent)).to_have_count(0)
    expect(main.get_by_role("link", name=re.compile(r"^Step \d"))).to_have_count(0)
    for name in ("Export model", "Run again"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    places = page.get_by_role("navigation", name="Pages of the run").get_by_role("link")
    expect(places).to_have_text(["Overview", "Checkpoints", "Health", "Settings"])
    page.wait_for_timeout(6_000)  # what is asked again has been asked again
    assert (refused, said) == ([], [])
    assert [
        url for url in asked if re.search(r"/(episodes|accounting|groups|tasks|metrics\?x)", url)
    ] == []
