"""Every refusal and failure of a request has its words on the page, and a way on: in a real
browser.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from e2e.ended_run import Run
from playwright.sync_api import Locator, Page, Route, expect

from support.chromium import WITHIN_MS

pytestmark = pytest.mark.browser

BUSY = re.compile("^Loading|^Reading")
REFUSALS = (400, 402, 403, 404, 409, 413, 422, 429)
FAILURES = (500, 502, 503)
PASSING = (0, 409, 429, *FAILURES)  # what may be otherwise in a moment
NO_ANSWER = 0
PROXYS_OWN = (502,)  # a page of a proxy, not the API's words
# None at all, refused for good and for now, the server's failure in its words and in a proxy's.
EACH_KIND = [NO_ANSWER, 403, 409, 429, 500, 502]

# Pages of a signed-in person, and what each cannot be without.
READS = {
    "/home": r"/v1/sessions\?",
    "/sessions": r"/v1/sessions\?",
    "/sessions/{id}": r"/v1/sessions/ses_\w+$",
    "/sessions/{id}/episodes": r"/episodes\?",
    "/sessions/{id}/episodes/{episode}": r"/timelines\?",
    "/sessions/{id}/steps/1": r"/v1/sessions/ses_\w+/steps/1$",
    "/sessions/{id}/tasks": r"/episodes\?",
    "/sessions/{id}/charts": r"/v1/sessions/ses_\w+$",
    "/sessions/{id}/steps": r"/metrics\?",
    "/sessions/{id}/evals": r"/events\?",
    "/sessions/{id}/checkpoints": r"/v1/sessions/ses_\w+/checkpoints$",
    "/sessions/{id}/settings": r"/v1/sessions/ses_\w+$",
    "/sessions/{id}/health": r"/(logs|events|resources)(\?|$)",
    "/compare?runs={id}": r"/v1/sessions/ses_\w+$",
    "/serving": r"/v1/sessions\?",
    "/playground": r"/v1/sessions\?",
    "/sessions/new": r"/v1/base-models",
    "/keys": r"/v1/keys",
    "/members": r"/v1/members",
    "/usage": r"/v1/usage",
    "/capacity": r"/v1/(capacity|places)$",
    "/webhooks": r"/v1/webhooks",
    "/audit": r"/v1/audit",
    "/alert-rules": r"/v1/alert-rules",
}


def words(status: int) -> str:
    if status == NO_ANSWER:
        return "The server does not answer."
    return (
        f"The server returned {status}."
        if status in PROXYS_OWN
        else f"This is refused with {status}."
    )


def refuse(route: Route, status: int) -> None:
    if status == NO_ANSWER:
        route.abort()
    elif status in PROXYS_OWN:
        route.fulfill(status=status, content_type="text/html", body="<h1>Bad gateway</h1>")
    else:
        error = {
            "code": "test",
            "message": words(status),
            "hint": "Do something else.",
            "details": {},
        }
        route.fulfill(status=status, json={"error": error, "request_id": "req_test"})


@contextmanager
def refused(page: Page, address: str, status: int, method: str = "GET") -> Iterator[None]:
    asked = re.compile(address)

    def handle(route: Route) -> None:
        refuse(route, status) if route.request.method == method else route.fallback()

    page.route(asked, handle)
    yield
    page.unroute(asked, handle)


def said(page: Page, status: int) -> Locator:
    return page.get_by_role("alert").filter(has_text=words(status))


@pytest.fixture
def page(run: Run) -> Iterator[Page]:
    with run.page.context.browser.new_context(
        base_url=str(run.api.base_url.copy_with(path="")),
        storage_state=run.page.context.storage_state(),
    ) as context:
        context.set_default_timeout(WITHIN_MS)
        page, errors = context.new_page(), list[str]()
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        assert errors == []


@pytest.mark.parametrize(
    "statuses",
    [
        pytest.param(EACH_KIND, id="one of each kind"),
        pytest.param(
            [it for it in (*REFUSALS, *FAILURES) if it not in EACH_KIND],
            id="the others",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_each_status_of_a_page_is_told_in_words_and_what_may_pass_is_asked_for_again(
    page: Page, run: Run, statuses: list[int]
) -> None:
    for status in statuses:
        with refused(page, READS["/sessions/{id}/episodes"], status):
            page.goto(f"/sessions/{run.session_id}/episodes")
            expect(said(page, status).first).to_be_visible()
            expect(page.get_by_text(BUSY)).to_have_count(0)
        again = page.get_by_role("button", name="Try again")
        if status in PASSING:
            again.first.click()
            expect(said(page, status)).to_have_count(0)
            expect(
                page.get_by_role("table", name="Episodes").get_by_role("row").nth(1)
            ).to_be_visible()
        else:
            expect(again).to_have_count(0)


def test_every_page_says_what_it_could_not_read_and_reads_it_again(page: Page, run: Run) -> None:
    episode = run.api.get("/episodes", params={"sort": "best"}).json()["items"][0]["episode_id"]
    silent = []
    for path, address in READS.items():
        with refused(page, address, 429):
            page.goto(path.format(id=run.session_id, episode=episode))
            try:
                expect(said(page, 429).first).to_be_visible(timeout=10_000)
                expect(page.get_by_text(BUSY)).to_have_count(0)
            except AssertionError:
                silent.append(path)
                continue
        page.get_by_role("button", name="Try again").first.click()
        try:
            expect(said(page, 429)).to_have_count(0, timeout=10_000)
        except AssertionError:
            silent.append(f"{path}, again")
    assert silent == []


def test_each_status_of_a_form_is_told_and_what_was_typed_stays(page: Page) -> None:
    page.goto("/sessions/new")
    name = page.get_by_label("Name")
    name.fill("kept")
    start = page.get_by_role("button", name="Start session")
    for status in (NO_ANSWER, *REFUSALS, *FAILURES):
        with refused(page, r"/v1/sessions$", status, "POST"):
            start.click()
            expect(said(page, status)).to_be_visible()
            expect(start).to_be_enabled()
            expect(name).to_have_value("kept")
        # The button that was pressed is the way on.
        expect(said(page, status).get_by_role("button", name="Try again")).to_have_count(0)


def test_a_sign_in_that_has_expired_leads_to_the_sign_in_page_and_back(
    page: Page, run: Run
) -> None:
    page.goto("/keys")
    expect(page.get_by_role("heading", name="API keys")).to_be_visible()
    page.context.clear_cookies()
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Members").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/signin\?next=%2Fprojects%2Fprj_\w+%2Fmembers$"))


def test_an_id_of_nobody_leads_on(page: Page, run: Run) -> None:
    session = f"/sessions/{run.session_id}"
    nowhere = {
        "/sessions/ses_0000000000000000": "sessions",
        "/sessions/ses_0000000000000000/episodes": "sessions",
        f"{session}/episodes/epi_0": "episodes",
        f"{session}/steps/999": "session",
    }
    for path in nowhere:
        page.goto(path)
        main = page.get_by_role("main")
        expect(main).to_contain_text(re.compile("There is no"))
        expect(page.get_by_text(BUSY)).to_have_count(0)
        expect(main.get_by_role("link").first).to_be_visible()
        expect(page.get_by_role("button", name="Try again")).to_have_count(0)
