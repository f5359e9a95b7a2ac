"""The page of a session that the unmodified ``tinker`` client drives, in a real browser."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from e2e.console_pages import Server, browser, make_key, open_place, page, pages_need, sign_up
from e2e.loop_server import BASE_MODEL, ROOT, LoopServer
from playwright.sync_api import Locator, Page, Request, Response, expect

from support.tinker_exit import ended_well

__all__ = ["browser", "page"]

pytestmark = pytest.mark.browser
PROGRAM = ROOT / "tests/e2e/tinker_two_models.py"
PAIR = ROOT / "tests/e2e/tinker_pair.py"


@pytest.fixture(scope="module")
def server(loop_server: LoopServer) -> Iterator[Server]:
    pages_need()
    yield Server(loop_server.url, loop_server.data)


@contextmanager
def running(server: Server, key: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program of the ``tinker`` client, ended with the block."""
    variables = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    variables |= {"TINKER_BASE_URL": server.url, "TINKER_API_KEY": key, "TINKER_TELEMETRY": "0"}
    program = subprocess.Popen(
        [sys.executable, *arguments],
        env=variables,
        cwd="/",
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield program
    finally:
        program.kill()
        program.communicate(timeout=10)


@pytest.mark.timeout(400)
def test_a_tinker_session_has_a_page_of_its_models_losses_and_checkpoints_and_nothing_of_episodes(
    page: Page, server: Server
) -> None:
    sign_up(page, "tina@example.org")
    key = make_key(page)
    with running(server, key, str(PROGRAM), BASE_MODEL) as program:
        assert program.stdout.readline().strip() == "trained", program.stderr.read()[-3000:]
        look_at_it(page, key)
        said, wrong = program.communicate("\n", timeout=120)
        assert ended_well(program.returncode, wrong), wrong[-3000:]
    page.reload()
    expect(page.get_by_text("Ended by its client")).to_be_visible()
    constant = page.locator("dl[aria-label='Constant over the run']")
    expect(constant.filter(has_text="Loss by token")).to_be_visible()


@pytest.mark.timeout(400)
def test_two_clients_of_one_base_share_a_page_that_tells_them_apart(
    page: Page, server: Server
) -> None:
    sign_up(page, "theo@example.org")
    key = make_key(page)
    with running(server, key, str(PAIR), BASE_MODEL, "trainer") as trainer:
        trained = json.loads(trainer.stdout.readline() or trainer.stderr.read()[-3000:])
        page.get_by_role("link", name="Sessions", exact=True).click()
        page.get_by_role("row").filter(has_text="Tinker client").get_by_role("link").first.click()
        models = page.get_by_role("region", name="Models of the session").get_by_role("row")
        expect(models).to_have_count(2)
        expect(page.get_by_role("region", name="Tinker client", exact=True)).to_have_count(1)
        expect(page.get_by_role("region", name="Sampling clients")).to_have_count(0)
        with running(server, key, str(PAIR), BASE_MODEL, "evaluator", trained["path"]) as second:
            said, wrong = second.communicate(timeout=120)
            assert ended_well(second.returncode, wrong), wrong[-3000:]
        other = json.loads(said)["model"]
        expect(models).to_have_count(3)
        names = models.get_by_role("rowheader").all_inner_texts()
        assert len(set(names)) == 2, "each is told from the other"
        for model, rank, steps in ((trained["model"], 8, "1"), (other, 64, "1")):
            row = models.filter(has=page.get_by_text(model))
            expect(row).to_contain_text(f"LoRA of rank {rank}")
            expect(row.get_by_role("cell").nth(2)).to_have_text(steps)
        expect(page.get_by_test_id("steps")).to_have_text("2")
        clients = page.get_by_role("region", name="Tinker clients").locator("ul > li")
        expect(clients).to_have_count(2)
        ended = clients.filter(has_text="Ended by its client")
        expect(ended).to_have_count(1)
        expect(ended).to_contain_text(other.partition(":")[0])
        samplers = page.get_by_role("region", name="Sampling clients")
        expect(samplers).to_contain_text(trained["path"])
        expect(samplers).to_contain_text(f"{BASE_MODEL}, the base model")
        listed, in_all = samplers.get_by_role("listitem").count(), samplers.get_by_text("in all")
        expect(in_all).to_have_text(f"{listed} in all")
        session_id = page.url.rpartition("/")[2]
        spent = page.request.get(f"/v1/sessions/{session_id}/usage").json()
        assert spent["device_s"] > 0 and spent["prices"] is None
        cost = page.locator("dl > div").filter(has_text="Device time")
        expect(cost).to_contain_text(re.compile(r"\d+ (s|min)"))
        expect(cost).to_contain_text("this server has no prices")
        # What the second client left stays there to be read, and the first goes on.
        _, wrong = trainer.communicate("\n", timeout=120)
        assert ended_well(trainer.returncode, wrong), wrong[-3000:]
    expect(page.get_by_test_id("steps")).to_have_text("3")
    expect(clients.filter(has_text="Ended by its client")).to_have_count(2)
    page.set_viewport_size({"width": 400, "height": 860})
    expect(samplers).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def called(line: str, **variables: str) -> str:
    """What a model answers the line that a page shows."""
    done = subprocess.run(
        ["bash", "-ec", line],
        env={"PATH": os.environ["PATH"]} | variables,
        capture_output=True,
        timeout=60,
    )
    return json.loads(done.stdout)["choices"][0]["message"]["content"]


def chat_with(page: Page, checkpoints: Locator, key: str) -> None:
    """The sampler's weights answer the line that is shown beside them, and in the playground, which
    asks for no key and leaves none in the list.
    """
    line = checkpoints.locator("pre").filter(has_text="curl").inner_text()
    assert isinstance(called(line, TINKER_API_KEY=key), str)
    checkpoints.get_by_role("link", name="Chat").click()
    model = page.get_by_label("Model 1", exact=True)
    path = re.compile(r"^tinker://tnk_\w+:train:1/sampler_weights/end$")
    expect(model.locator("option:checked")).to_have_text(path)
    expect(page.get_by_label("Key", exact=True)).to_have_count(0)
    page.get_by_label("Max tokens").fill("8")
    page.get_by_label("Prompt").fill("Hello")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_text(re.compile("ended by (stop|length)")).first).to_be_visible()
    page.get_by_role("button", name="Open in code").click()
    line = page.locator("pre").filter(has_text="curl").inner_text()
    assert isinstance(called(line, TINKERSCRIPT_API_KEY=key), str)
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
