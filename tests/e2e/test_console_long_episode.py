"""An episode of a million tokens and of hostile text, in a real browser: found by its outline, and
never a frozen tab.

What the page asks for is cut from a document by the server's own functions.
"""

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from e2e.ended_run import Run, photograph
from playwright.sync_api import Page, Route, expect

from tinkerscript.wire.reading.token_pages import outline, timelines_page

pytestmark = pytest.mark.browser

LINE = 1_000_000  # characters
FIRST, SECOND = 600_000, 400_000  # tokens of the two timelines
SURPRISE = 777_777  # the number of the one token that stands out
WORDS = [
    "<script>document.title='owned'</script>", "\u202egnirts", "\x1b[31mred", " the", " a", "\n",
    "<img src=x onerror=alert(1)>",
]  # fmt: skip
BLOCKED_MS = 10_000  # one task of the page, whose processor other tests use as well
WATCH_TASKS = """() => {
    window.longest = 0;
    new PerformanceObserver((list) => {
        for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
    }).observe({ type: "longtask", buffered: true });
}"""  # fmt: skip


def run_of(call: str, start: int, count: int) -> dict[str, Any]:
    pieces = [WORDS[at % len(WORDS)] for at in range(count)]
    pieces[3] = ""  # a part of a character that never came
    return {
        "call": call, "answer": 0, "start": start, "tokens": count, "text": "".join(pieces), "token_ids": [5] * count,
        "pieces": pieces, "logprobs": [-0.01] * count, "policy_versions": [1] * count, "split_bytes": {"3": "e2 82"},
    }  # fmt: skip


def long_document() -> dict[str, Any]:
    line = {
        "call": None, "answer": 0, "start": 0, "tokens": 10, "text": "\u202e" + "x" * LINE, "token_ids": [7] * 10,
        "pieces": [], "logprobs": [], "policy_versions": [], "split_bytes": {},
    }  # fmt: skip
    runs = [line, run_of("call_1", 10, FIRST - 10)], [run_of("call_2", 0, SECOND)]
    runs[1][0]["logprobs"][SURPRISE - FIRST] = -12.0
    timelines = [
        {"index": at, "agent": None, "tokens": tokens, "runs": runs[at]}
        for at, tokens in enumerate((FIRST, SECOND))
    ]
    answers: list[Any] = []
    call = {
        "status": "completed",
        "agent": None,
        "begun_at": 1.0,
        "ended_at": 2.0,
        "continues": None,
    }
    calls = [
        call | {"id": f"call_{at}", "options": {"sampling": {"temperature": 0.5}}, "messages": [], "drift": None}
        | {"answers": answers, "prompt_token_ids": [], "messages_from": 0}
        for at in (1, 2)
    ]  # fmt: skip
    raw = [{"call": "call_2", "answer": 0, "logprobs": [-3.0] * SECOND}]
    kept: dict[str, list] = {"trainer_logprobs": [], "trainer_logprobs_after": []}
    return {"calls": calls, "timelines": timelines, "raw_logprobs": raw} | kept


@pytest.fixture
def page(run: Run) -> Page:
    """The page of an episode whose tokens are those of the long document."""
    episode = run.api.get("/episodes", params={"sort": "best"}).json()["items"][0]
    document = long_document()
    seen = outline(document, 0.5)

    def answer(route: Route) -> None:
        asked = parse_qs(urlsplit(route.request.url).query)
        start, limit = int(asked["cursor"][0]), int(asked["limit"][0])
        assert limit <= 5_000, "more spans at once would make a slow tab"
        timelines, more = timelines_page(document, advantages=0.5, start=start, limit=limit)
        whole = (
            {"calls": document["calls"], "outline": seen}
            if start == 0
            else {"calls": [], "outline": None}
        )
        told = {
            "episode": episode,
            "report": None,
            "timelines": timelines,
            "next_cursor": more and str(more),
        }
        route.fulfill(body=json.dumps(told | whole), content_type="application/json")

    run.page.route("**/timelines?*", answer)
    run.page.add_init_script(f"({WATCH_TASKS})()")
    run.page.goto(f"/sessions/{run.session_id}/episodes/{episode['episode_id']}?view=tokens")
    yield run.page
    run.page.unroute("**/timelines?*")


def test_a_million_tokens_of_hostile_text_are_read_at_any_place_and_the_tab_is_never_frozen(
    page: Page,
) -> None:
    place = page.get_by_role("slider", name="Place in the episode")
    expect(place).to_have_attribute("aria-valuemax", str(FIRST + SECOND))
    expect(page.locator("[data-token]").first).to_be_visible()
    expect(
        page.get_by_role("button", name=re.compile("show all 1,000,001 characters"))
    ).to_be_visible()
    expect(
        page.get_by_text("<script>document.title='owned'</script>⟨U+202E⟩gnirts␛[31mred").first
    ).to_be_visible()
    expect(page.get_by_text("⟨e2 82⟩").first).to_be_visible()
    assert place.locator("[data-heat]").count() == 1  # one token stands out
    line_feed = page.locator("[data-newline]").first
    mark = "it => getComputedStyle(it, '::before').content"
    assert line_feed.evaluate(mark) == "none", "nothing is marked that has no colour"
    page.get_by_label("Colour by").select_option("version")
    expect(page.locator("[data-token][data-heat=v0]").first).to_be_visible()
    assert line_feed.evaluate(mark) == '"↵"'
    page.get_by_label("Colour by").select_option("ratio")
    expect(
        page.get_by_text("The trainer’s log-probabilities are not kept of these tokens")
    ).to_be_visible()
    page.get_by_label("Colour by").select_option("logprob")
    expect(place.locator("[data-heat]")).to_have_count(1)  # the colours are those of the choice
    photograph(page, "long-episode")

    place.focus()
    page.keyboard.press("PageDown")
    facts = page.get_by_role("complementary", name="Token")
    expect(facts.get_by_text("Raw log-probability")).to_be_visible()
    expect(page).to_have_url(re.compile(f"line=1&token={SURPRISE - FIRST}$"))
    expect(facts).to_contain_text("after temperature 0.5")
    chosen = page.locator("[data-chosen]")
    expect(chosen).to_be_in_viewport()
    assert page.locator("[data-token]").count() <= 5_000
    expect(place.locator("[data-view]")).to_be_visible()
    left = place.locator("[data-view]").evaluate("view => parseFloat(view.style.left)")
    assert 77 < left < 78.5, "the frame is where the view is"
    photograph(page, "long-episode-surprise")

    page.reload()  # the address leads there too
    expect(chosen).to_be_in_viewport()
    page.get_by_role("button", name="Show earlier tokens").click()
    expect(facts).to_have_count(0)
    expect(page.locator("[data-token]").first).to_be_visible()
    box = place.bounding_box()
    assert box is not None
    place.click(position={"x": 2, "y": box["height"] / 2})
    expect(page).to_have_url(re.compile(r"[?&]token=\d+$"))
    expect(page.get_by_role("button", name="Show earlier tokens")).to_have_count(0)
    expect(chosen).to_be_in_viewport()
    page.get_by_role("button", name=re.compile("show all 1,000,001 characters")).click()
    expect(
        page.get_by_role("button", name=re.compile("show all 1,000,001 characters"))
    ).to_have_count(0)
    page.get_by_role("button", name="Show more tokens").click()
    expect(page.locator("[data-token]").nth(9_000)).to_be_attached()
    longest = page.evaluate("window.longest")
    assert longest < BLOCKED_MS
    assert page.title() != "owned"
