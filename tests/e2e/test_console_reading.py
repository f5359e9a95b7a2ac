"""What a person sees who reads the console's pages: charts that can be zoomed, long names, pages
that are not there.

The record of a run is played to the page by the test itself, over the page's own WebSocket.
"""

import re

import pytest
from e2e.console_pages import browser, charted_steps, make_key, page, server, sign_up
from e2e.played_record import Played, make_session, metric
from playwright.sync_api import Locator, Page, Response, Route, expect

__all__ = ["browser", "page", "server"]

pytestmark = pytest.mark.browser

LONG_NAME = "W" * 120
SIGN_IN_BYTES = 120_000  # all that a browser is sent for the page, compressed


def shown(chart: Locator) -> tuple[float, float]:
    expect(chart).to_have_attribute("data-shown", re.compile(r"\d"))
    first, last = (chart.get_attribute("data-shown") or "nan nan").split()
    return float(first), float(last)


def drag(page: Page, chart: Locator, start: float, end: float) -> None:
    """From ``start`` to ``end``, as shares of the plotted width."""
    box = chart.locator(".u-over").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * start, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, y, steps=5)
    page.mouse.up()


# From here on, how many lines are drawn on the canvases within the element.
COUNT_LINES = """(chart) => {
    window.linesDrawn = 0;
    const { stroke } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.stroke = function (...given) {
        if (chart.contains(this.canvas)) window.linesDrawn += 1;
        return stroke.apply(this, given);
    };
}"""
# Once what was asked for before has been drawn: charts are drawn in the next frame.
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def test_a_zoom_stays_while_the_mouse_moves_and_steps_arrive_and_a_double_click_ends_it(
    page: Page,
) -> None:
    sign_up(page, "zoe@example.org")
    session_id = make_session(page, "zoom")
    played = Played(page)
    lost: list[str] = []

    def lose_the_first(route: Route) -> None:
        lost.append(route.request.url)
        route.abort() if len(lost) == 1 else route.continue_()

    page.route(re.compile(r"/assets/plot-"), lose_the_first)
    page.goto(f"/sessions/{session_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text("zoom")
    reward = page.get_by_role("img", name=re.compile("^Reward"))
    expect(reward).to_have_attribute("aria-label", "Reward: No step yet")
    played.send(*(metric(step) for step in range(1, 11)))
    expect(charted_steps(page)).to_have_attribute("data-steps", "10")
    assert shown(reward) == (1, 10)
    assert len(lost) > 1, "what draws the charts was lost once, and asked for again"

    drag(page, reward, 0.5, 0.8)
    zoomed = shown(reward)
    assert 4 < zoomed[0] < 7 < zoomed[1] < 9.5
    page.evaluate(TWO_FRAMES)
    reward.evaluate(COUNT_LINES)
    over = reward.locator(".u-over")
    for x in (10, 40, 70):
        over.hover(position={"x": x, "y": 20})
        page.evaluate(TWO_FRAMES)
    assert page.evaluate("window.linesDrawn") == 0  # a movement of the mouse draws no chart anew
    played.send(metric(11))
    expect(charted_steps(page)).to_have_attribute("data-steps", "11")
    assert shown(reward) == zoomed
    page.evaluate(TWO_FRAMES)
    assert page.evaluate("window.linesDrawn") > 0  # what came is drawn, and the zoom stays
    page.evaluate("window.linesDrawn = 0")

    reward.locator(".u-over").dblclick()
    expect(reward).to_have_attribute("data-shown", "1 11")
    page.evaluate(TWO_FRAMES)
    assert page.evaluate("window.linesDrawn") > 0  # another range does
    played.send(metric(12))
    # a chart that is not zoomed follows the run
    expect(reward).to_have_attribute("data-shown", "1 12")


def test_a_zoom_is_in_the_address_for_all_charts_and_ends_by_keyboard_and_with_its_axis(
    page: Page,
) -> None:
    sign_up(page, "zelda@example.org")
    played = Played(page)
    page.goto(f"/sessions/{make_session(page, 'link')}?smooth=0.5")
    reward = page.get_by_role("img", name=re.compile("^Reward by"))
    played.send(*(metric(step, loss=step) for step in range(1, 21)))
    assert shown(reward) == (1, 20)
    drag(page, reward, 0.5, 0.8)
    expect(page).to_have_url(re.compile(r"\?smooth=0.5&zoom=[0-9.]+(~|%7E)[0-9.]+$"))
    low, high = shown(reward)
    assert 9 < low < 12 < 15 < high < 17
    played = Played(page)  # of the channel that the page opens next
    page.reload()
    played.send(*(metric(step, loss=step) for step in range(1, 21)))
    loss = page.get_by_role("img", name=re.compile("^Loss by"))
    assert shown(reward) == pytest.approx((low, high), abs=0.01)
    assert shown(loss) == pytest.approx((low, high), abs=0.01)
    page.get_by_role("button", name="Show the whole range").press("Enter")
    expect(reward).to_have_attribute("data-shown", "1 20")
    expect(loss).to_have_attribute("data-shown", "1 20")
    expect(page).to_have_url(re.compile(r"\?smooth=0.5$"))
    drag(page, reward, 0.2, 0.4)
    expect(page).to_have_url(re.compile("zoom="))
    reward.locator(".u-over").dblclick()
    expect(page).to_have_url(re.compile(r"\?smooth=0.5$"))
    drag(page, reward, 0.2, 0.4)
    expect(page).to_have_url(re.compile("zoom="))
    page.get_by_role("combobox", name="Over").select_option("tokens")  # whose numbers are others
    expect(page).to_have_url(re.compile(r"\?smooth=0.5&x=tokens$"))


def test_a_step_without_a_gradient_gives_the_reason(page: Page) -> None:
    sign_up(page, "greta@example.org")
    played = Played(page)
    page.goto(f"/sessions/{make_session(page, 'flat')}")
    expect(page.get_by_role("heading", level=1)).to_have_text("flat")
    played.send(metric(1, groups_skipped=4))
    expect(
        page.get_by_text("Step 1 taught nothing. All 4 groups had equal rewards")
    ).to_be_visible()
    played.send(metric(2, groups_skipped=3))
    expect(page.get_by_text("taught nothing")).to_have_count(0)


def test_the_list_is_live_is_sorted_by_a_column_and_goes_on_without_its_channel(page: Page) -> None:
    sign_up(page, "lise@example.org")
    make_session(page, "first")
    page.goto("/sessions")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.get_by_role("button", name="Reward", exact=True).click()
    expect(page).to_have_url(re.compile("sort=reward&reverse=true"))
    expect(page.get_by_role("columnheader", name="Reward")).to_have_attribute(
        "aria-sort", "ascending"
    )
    expect(page.get_by_role("link", name="first", exact=True)).to_be_visible()
    page.route_web_socket(re.compile("/ws/v1/projects/"), lambda socket: socket.close())
    page.goto("/sessions")
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    expect(page.get_by_role("link", name="first", exact=True)).to_be_visible()


def test_a_long_name_takes_no_column_from_the_list_and_goes_into_the_form_of_another_run(
    page: Page,
) -> None:
    sign_up(page, "wanda@example.org")
    make_session(page, LONG_NAME)
    page.goto("/sessions")
    created = page.get_by_role("columnheader", name="Created")
    expect(created).to_be_in_viewport()
    table = page.get_by_role("region", name="Sessions")
    assert table.evaluate("box => box.scrollWidth <= box.clientWidth")
    page.get_by_title(LONG_NAME).click()
    page.get_by_role("link", name="Run again").click()
    expect(page.get_by_label("Name")).to_have_value(LONG_NAME)
    expect(page.get_by_label("Priority")).to_have_value("-100")
    family, longest = "\U0001f469\u200d\U0001f469\u200d\U0001f466", 120
    page.get_by_label("Name").fill("a" * (longest - 2) + family)
    expect(page.get_by_label("Name")).to_have_value("a" * (longest - 2))
    expect(page.get_by_text(f"Cut to {longest} characters.")).to_be_visible()
    page.get_by_label("Name").fill("short")
    expect(page.get_by_text("Cut to")).to_have_count(0)


def test_a_session_that_is_not_there_reports_it_once_and_leads_on(page: Page) -> None:
    sign_up(page, "nora@example.org")
    asked: list[str] = []
    page.on(
        "request",
        lambda request: asked.append(request.url) if "/v1/sessions/ses_0" in request.url else None,
    )
    page.goto("/sessions/ses_0000000000000000")
    expect(
        page.get_by_role("heading", level=1, name="There is no such session in your projects")
    ).to_be_visible()
    first = len(asked)
    page.wait_for_timeout(5_000)  # two intervals of the query that a live session is asked by
    assert len(asked) == first
    page.get_by_role("main").get_by_role("link", name="All sessions").click()
    page.wait_for_url("**/sessions")


def test_the_palette_goes_anywhere_and_does_what_the_page_offers_by_keyboard_alone(
    page: Page,
) -> None:
    sign_up(page, "palma@example.org")
    session_id = make_session(page, "goal <script>\u202e")
    make_session(page, "another")
    found = page.get_by_role("dialog", name="Go to or do").get_by_role("option")
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Go to or do")
    expect(box).to_be_focused()
    box.fill("goal")
    expect(found).to_have_count(1)
    expect(found).to_contain_text("goal <script>⟨U+202E⟩")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/sessions/{session_id}")
    expect(page.get_by_role("button", name="Delete")).to_be_visible()
    page.keyboard.press("Control+k")
    box.fill("delete")
    expect(found).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alertdialog")).to_be_visible()  # it asks as the button does
    page.keyboard.press("Control+k")
    expect(box).to_have_count(0)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    box.fill("no such thing")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    box.fill("webh")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Webhooks")).to_be_visible()
    page.get_by_role("button", name="Go to").click()
    expect(box).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Go to")).to_be_focused()


def test_a_page_has_the_name_of_its_session_for_a_title_and_nothing_turns_the_text_round(
    page: Page,
) -> None:
    """The titles of the other pages are looked at where each is opened once
    (``test_console_accessible.py``).
    """
    sign_up(page, "tess@example.org")
    session_id = make_session(page, "titled \u202elive")
    page.goto(f"/sessions/{session_id}")
    expect(page).to_have_title("titled ⟨U+202E⟩live · TinkerScript")
    page.goto("/sessions")
    expect(page.get_by_role("rowheader")).to_contain_text("titled ⟨U+202E⟩live")


def test_escape_does_not_lose_a_key_that_is_shown_once(page: Page) -> None:
    sign_up(page, "esme@example.org")
    secret = make_key(page, keep_open=True)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_contain_text(secret)


def test_the_form_of_a_new_key_does_not_move_once_it_is_shown(page: Page) -> None:
    """The models arrive late here: were they added to the form, its button would move from under
    the pointer.
    """
    held: list[Route] = []
    page.route("**/v1/base-models", lambda route: held.append(route))
    sign_up(page, "mona@example.org")
    page.get_by_role("link", name="API keys").click()
    page.get_by_role("button", name="New key").click()
    expect(page.get_by_role("dialog")).to_contain_text("Loading")
    expect(page.get_by_role("button", name="Create key")).to_have_count(0)
    held.pop().continue_()
    expect(page.get_by_role("checkbox", name="SmolLM2-135M-Instruct")).to_be_visible()
    expect(page.get_by_role("button", name="Create key")).to_be_visible()


def test_a_browser_without_network_reports_it_and_a_page_that_cannot_be_loaded_leads_on(
    page: Page,
) -> None:
    sign_up(page, "olga@example.org")
    page.context.set_offline(True)
    expect(page.get_by_role("alert").filter(has_text="You are offline")).to_be_visible()
    # its code was never loaded
    page.get_by_role("navigation").get_by_role("link", name="Webhooks").click()
    expect(page.get_by_text("This page could not be loaded.")).to_be_visible()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    page.context.set_offline(False)  # and the page comes by itself
    expect(page.get_by_role("heading", name="Webhooks")).to_be_visible()
    expect(page.get_by_text("You are offline")).to_have_count(0)


def test_the_sign_in_page_is_small_compressed_and_kept_by_the_browser(page: Page) -> None:
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    page.goto("/signin", wait_until="networkidle")
    assets = [answer for answer in answers if "/assets/" in answer.url]
    assert len(assets) >= 2
    assert {answer.headers["content-encoding"] for answer in assets} <= {"br", "gzip"}
    assert all("immutable" in answer.headers["cache-control"] for answer in assets)
    assert sum(answer.request.sizes()["responseBodySize"] for answer in answers) < SIGN_IN_BYTES


def test_a_dialog_does_not_break_the_content_security_policy(page: Page) -> None:
    """Nor does any page: whoever reads a run (``ended_run.py``) hears of it on each that they
    open.
    """
    refused: list[str] = []
    page.on(
        "console",
        lambda said: refused.append(said.text) if "Content Security Policy" in said.text else None,
    )
    sign_up(page, "cass@example.org")
    answer = page.goto(f"/sessions/{make_session(page, 'strict')}")
    assert answer is not None
    assert "script-src 'self';" in answer.headers["content-security-policy"]
    make_key(page)  # opens a dialog, which locks the page's scrolling
    assert refused == []
