"""What people ask of the console, answered from Home by mouse: the clicks are counted."""

import re
from collections.abc import Callable

import pytest
from e2e.ended_run import Played, Run
from e2e.loop_server import LoopServer, until
from e2e.playing import play
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def tuned(loop_server: LoopServer, played: Played, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of a run that has trained a step and has its model."""
    with pytest.MonkeyPatch.context() as patch:  # the server is every module's
        patch.setattr(loop_server, "api_key", played.key)
        remote = loop_server.session()
        play(remote, "sun", 4)
        play(remote, "moon", 4)
        remote.download_tuned_model(tmp_path_factory.mktemp("tuned"), progress=False)
        remote.close()
        path = f"/v1/sessions/{remote.id}"
        until(lambda: loop_server.get(path)["state"] == "stopped", "it has stopped", 60)
    return remote.id


class Walk:
    """A person at Home, who clicks."""

    def __init__(self, page: Page, run: str) -> None:
        self.page, self.clicks = page, 0
        self._run = run
        page.goto("/home")

    def click(self, name: str | re.Pattern[str], role: str = "link", within: Locator | None = None):
        exact = isinstance(name, str)
        (within or self.page).get_by_role(role, name=name, exact=exact).first.click()
        self.clicks += 1

    def open(self, place: str = "") -> None:
        """The run, and a page of it."""
        newest = self.page.get_by_role("region", name="Newest runs")
        newest.locator(f"a[href$='{self._run}']").click()
        self.clicks += 1
        if place:
            self.click(place, within=self.page.get_by_role("navigation", name="Pages of the run"))


def is_it_learning(walk: Walk, page: Page) -> None:
    walk.open()
    expect(page.get_by_role("img", name=re.compile("^Reward by step; at step"))).to_be_visible()


def the_worst_episode_of_a_step(walk: Walk, page: Page) -> None:
    walk.open("Steps")
    walk.click(re.compile("^Worst first, of step 1"))
    expect(page.get_by_role("table", name="Episodes").get_by_role("row").nth(1)).to_be_visible()


def which_token_drove_the_loss(walk: Walk, page: Page) -> None:
    walk.open("Steps")
    page.locator("a[title='Which tokens drove it']").first.click()
    walk.clicks += 1
    expect(page.get_by_label("Colour by")).to_have_value("loss")


def how_two_runs_compare(walk: Walk, page: Page) -> None:
    walk.click("Sessions")
    rows = page.get_by_role("checkbox", name=re.compile("^Compare "))
    expect(rows.nth(1)).to_be_visible()
    for at in range(2):
        rows.nth(at).check()
        walk.clicks += 1
    walk.click(re.compile("^Compare"), within=page.get_by_role("main"))
    expect(page.get_by_role("region", name="Final measures", exact=True)).to_be_visible()


def what_it_costs_and_who_spent_it(walk: Walk, page: Page) -> None:
    walk.click("Usage")
    by_person = page.get_by_role("table", name="Usage by person").or_(
        page.get_by_role("region", name="Usage by person")
    )
    expect(by_person.first).to_contain_text("rita@example.org")
    expect(page.get_by_role("region", name="Usage by session")).to_be_visible()


def a_key_and_a_snippet_that_works(walk: Walk, page: Page) -> None:
    walk.click("API keys")
    walk.click("New key", "button")
    page.get_by_label("Name").fill("asked for")
    walk.click("Create key", "button")
    expect(page.get_by_role("dialog", name="Your new key").locator("pre")).not_to_have_count(0)
    page.get_by_role("button", name="Done").click()


def the_model_as_files(walk: Walk, page: Page) -> None:
    walk.open("Checkpoints")
    expect(page.get_by_role("link", name=re.compile("safetensors|json")).first).to_be_visible()


def to_chat_with_it(walk: Walk, page: Page) -> None:
    walk.open("Checkpoints")
    walk.click("Chat")
    page.wait_for_url(re.compile("/playground"))


def to_go_on_from_a_checkpoint(walk: Walk, page: Page) -> None:
    walk.open("Checkpoints")
    walk.click("Train further from here")
    expect(page.get_by_role("button", name="Start session")).to_be_enabled()


def to_share_it(walk: Walk, page: Page) -> None:
    walk.open("Settings")
    walk.click("Make a link", "button")
    expect(page.get_by_role("dialog").or_(page.get_by_text("/shared#")).first).to_be_visible()


def why_something_went_wrong(walk: Walk, page: Page) -> None:
    walk.open("Health")
    expect(page.get_by_role("region", name="Restarts and faults")).to_be_visible()
    expect(page.get_by_role("region", name="Runtime log")).to_be_visible()


QUESTIONS: dict[Callable[[Walk, Page], None], int] = {
    is_it_learning: 1,
    the_worst_episode_of_a_step: 3,
    which_token_drove_the_loss: 3,
    how_two_runs_compare: 4,
    what_it_costs_and_who_spent_it: 1,
    a_key_and_a_snippet_that_works: 3,
    the_model_as_files: 2,
    to_chat_with_it: 3,
    to_go_on_from_a_checkpoint: 3,
    to_share_it: 3,
    why_something_went_wrong: 2,
}


@pytest.mark.parametrize(
    ("question", "clicks"), QUESTIONS.items(), ids=[asked.__name__ for asked in QUESTIONS]
)
def test_a_question_is_answered_in_few_clicks(
    tuned: str, run: Run, question: Callable[[Walk, Page], None], clicks: int
) -> None:
    walk = Walk(run.page, tuned)
    question(walk, run.page)
    assert walk.clicks == clicks
