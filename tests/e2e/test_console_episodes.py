"""What somebody reads of a run that has ended, in a real browser: episodes, one down to the token,
a step.
"""

import itertools
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from e2e.console_pages import open_place
from e2e.ended_run import HOSTILE, Played, Run, photograph
from e2e.loop_server import BASE_MODEL, LoopServer, until
from e2e.playing import execute_agent, play
from playwright.sync_api import Route, expect

from support.fakes import TRAINER_BELOW
from tinkerscript.wire.reading.trajectories import EpisodeTimelines

pytestmark = pytest.mark.browser


def test_an_ended_sessions_episodes_are_read_by_rest_down_to_the_token(run: Run) -> None:
    listed = run.api.get("/episodes", params={"sort": "best"}).json()["items"]
    fates = [item["fate"] for item in run.api.get("/episodes").json()["items"]]
    assert sorted(str(fate) for fate in fates) == ["None", "eval", *["trained"] * 8]
    rewards = [item["reward"] for item in listed]
    assert len(rewards) == 9 and rewards == sorted(rewards, reverse=True)
    live = {item["task"] for item in listed if item["advantage"]}
    for item in listed:
        told = EpisodeTimelines.model_validate(
            run.api.get(f"/episodes/{item['episode_id']}/timelines").json()
        )
        (timeline,) = told.timelines
        context, sampled = timeline.runs
        assert context.call is None and sampled.call == told.calls[0].id
        assert (
            "".join(sampled.pieces) == sampled.text
            and len(sampled.pieces) == item["sampled_tokens"]
        )
        assert sampled.advantage == item["advantage"] and set(sampled.policy_versions) <= {0, 1}
        # One with the mean reward of a group that is trained is part of the step, with an advantage
        # of 0.
        is_live = item["fate"] == "trained" and item["task"] in live
        kept = [logprob - TRAINER_BELOW for logprob in sampled.logprobs] if is_live else None
        assert sampled.trainer_logprobs == (kept and pytest.approx(kept, abs=1e-6))
        assert sampled.trainer_logprobs_after == (
            pytest.approx(sampled.logprobs, abs=1e-6) if is_live else None
        )
        assert sum(item["ratio_counts"] or []) == (item["sampled_tokens"] if is_live else 0)
        (call,) = run.api.get(f"/episodes/{item['episode_id']}/calls").json()["items"]
        assert call["prompt_token_ids"] == context.token_ids
        assert call["completions"][0]["token_ids"] == sampled.token_ids
    step = run.api.get("/steps/1").json()
    assert step["metrics"]["episodes"] == 8 and [group["count"] for group in step["groups"]] == [
        4,
        4,
    ]
    assert run.api.get("/episodes/epi_nothing").status_code == 404
    assert run.api.get("/steps/9").status_code == 404


def test_previous_and_next_keep_the_list_after_a_reload_and_back_its_place(run: Run) -> None:
    page = run.page
    where = {"sort": "best", "fate": "trained"}
    ids = [item["episode_id"] for item in run.api.get("/episodes", params=where).json()["items"]]
    # by a link: no list was read
    page.goto(f"/sessions/{run.session_id}/episodes/{ids[3]}?fate=trained&sort=best")
    page.get_by_role("button", name="Next").click()
    expect(page).to_have_url(re.compile(ids[4]))
    page.reload()
    page.get_by_role("button", name="Previous").click()
    expect(page).to_have_url(re.compile(ids[3]))
    page.set_viewport_size({"width": 1440, "height": 300})
    page.goto(f"/sessions/{run.session_id}/episodes?fate=trained&sort=best")
    table = page.get_by_role("table", name="Episodes")
    expect(table.get_by_role("row").nth(5)).to_be_visible()
    table.hover()
    page.mouse.wheel(0, 9_000)
    until(lambda: page.evaluate("Object.keys(sessionStorage).length") > 0, "the place is kept", 30)
    kept = table.evaluate("box => Math.round(box.scrollTop)")
    assert kept > 0
    table.get_by_role("row").last.get_by_role("link").first.click()
    expect(page.get_by_role("button", name="Next")).to_be_visible()
    page.reload()
    page.go_back()
    expect(table.get_by_role("row").nth(5)).to_be_visible()
    until(
        lambda: abs(table.evaluate("box => box.scrollTop") - kept) < 2,
        "the list is where it was",
        30,
    )
    page.set_viewport_size({"width": 1440, "height": 900})


def test_a_colleagues_link_opens_in_its_own_project_and_a_foreign_project_is_told(run: Run) -> None:
    page = run.page
    mine = page.evaluate("fetch('/v1/account').then((it) => it.json())")["projects"][0]["id"]
    made = run.api.get(run.api.base_url.copy_with(path="/v1/account")).json()
    assert made["projects"][0]["id"] == mine
    page.goto(f"/sessions/{run.session_id}/evals")
    expect(page).to_have_url(re.compile(f"/projects/{mine}/sessions/{run.session_id}/evals$"))
    page.get_by_role("button", name=re.compile("^Project ")).click()
    page.get_by_role("menuitem", name="New project").click()
    page.get_by_label("Name").fill("other lab")
    page.get_by_role("button", name="Create project").click()
    expect(page.get_by_test_id("project")).to_have_text("other lab")
    page.goto(f"/sessions/{run.session_id}/evals")  # it begins in the project that was open last
    expect(page.get_by_role("heading", level=1, name="Evals")).to_be_visible()
    expect(page).to_have_url(re.compile(f"/projects/{mine}/sessions/{run.session_id}/evals$"))
    page.goto("/projects/prj_0000000000000000/home")
    expect(page.get_by_role("heading", level=1, name="There is no such project")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="rita").click()
    expect(page.get_by_role("heading", level=1, name="Home")).to_be_visible()


def test_the_palette_finds_an_episode_by_its_id_from_any_page(run: Run) -> None:
    page = run.page
    episode = run.api.get("/episodes").json()["items"][0]["episode_id"]
    page.goto("/home")
    expect(page.get_by_role("heading", name="Home")).to_be_visible()
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Go to or do")
    box.fill("step 1")
    expect(page.get_by_text("Open its run first, or name it: “my run step 1”")).to_be_visible()
    box.fill(episode)
    found = page.get_by_role("dialog", name="Go to or do").get_by_role("option")
    expect(found).to_contain_text([episode])
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/sessions/{run.session_id}/episodes/{episode}")


def test_the_list_is_filtered_by_the_address_and_shows_hostile_text_as_text(run: Run) -> None:
    page = run.page
    page.goto(f"/sessions/{run.session_id}")
    page.get_by_role("link", name="Episodes", exact=True).click()
    table = page.get_by_role("table", name="Episodes")
    rows = table.get_by_role("row")
    expect(rows).to_have_count(11)
    expect(
        table.get_by_text("<script>document.title='owned'</script>⟨U+202E⟩evil").first
    ).to_be_visible()
    photograph(page, "episodes")
    page.get_by_role("combobox", name="Fate").select_option("trained")
    expect(page).to_have_url(re.compile("fate=trained"))
    expect(rows).to_have_count(9)
    page.get_by_role("searchbox", name="Task").fill("mist")
    expect(rows).to_have_count(5)
    page.get_by_label("Text").fill("no model ever said this")
    expect(page.get_by_text("No episode matches")).to_be_visible()
    page.get_by_role("link", name="Show all episodes").click()
    expect(rows).to_have_count(11)
    where = run.api.base_url.copy_with(path=f"/v1/sessions/{run.session_id}")
    session = run.api.get(where).json()
    name = session["name"] or session["id"]
    expect(page).to_have_title(f"Episodes of {name} · TinkerScript")
    open_place(page, "Tasks")
    expect(page).to_have_title(f"Tasks of {name} · TinkerScript")
    page.goto(f"/sessions/{run.session_id}/steps/1")
    expect(page).to_have_title(f"Step 1 of {name} · TinkerScript")


def test_rewards_fates_and_tasks_of_the_list_are_counted_and_narrow_it(run: Run) -> None:
    page = run.page
    page.goto(f"/sessions/{run.session_id}/episodes")
    rows = page.get_by_role("table", name="Episodes").get_by_role("row")
    expect(rows).to_have_count(11)
    facets = page.get_by_role("region", name="What these episodes are")
    expect(facets).to_contain_text("10 episodes")
    bars = facets.get_by_role("group", name="Rewards").get_by_role("button")
    best = run.api.get("/episodes", params={"sort": "best"}).json()["items"]
    expect(bars.last).to_have_attribute("aria-label", re.compile(r"^Reward .*: \d+ episodes?$"))
    told = [
        int(name.split(": ")[1].split()[0])
        for name in bars.evaluate_all("all => all.map((it) => it.ariaLabel)")
    ]
    assert sum(told) == len(best) and all(told)
    bars.last.press("Enter")
    expect(page).to_have_url(re.compile("reward_min=.*reward_max="))
    expect(rows).to_have_count(1 + told[-1])
    expect(facets).to_contain_text(f"{told[-1]} episode")
    photograph(page, "episodes-narrowed")
    facets.get_by_role("button", name="Every reward").click()
    expect(rows).to_have_count(11)
    facets.get_by_role("group", name="Fate").get_by_role("button", name="Trained 8").click()
    expect(rows).to_have_count(9)
    facets.get_by_role("button", name="mist 4").click()
    expect(rows).to_have_count(5)
    facets.get_by_role("button", name="Most surprising").click()
    expect(page).to_have_url(re.compile("sort=surprising"))
    expect(facets.get_by_role("button", name="Most surprising")).to_have_attribute(
        "aria-pressed", "true"
    )
    page.go_back()
    page.go_back()
    expect(rows).to_have_count(9)
    facets.get_by_role("button", name="Trained 8").click()
    expect(rows).to_have_count(11)


def test_an_episode_is_read_down_to_the_token_by_keyboard_and_its_address_says_it_all(
    run: Run,
) -> None:
    page = run.page
    page.goto(f"/sessions/{run.session_id}/episodes?fate=trained&sort=best")
    expect(page.get_by_role("table", name="Episodes").get_by_role("row")).to_have_count(9)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    conversation = page.get_by_role("region", name="Conversation")
    expect(conversation.get_by_role("listitem").filter(has_text="User").first).to_be_visible()
    expect(conversation.get_by_text(re.compile(r"^call 1, \d+ tokens"))).to_be_visible()
    photograph(page, "episode-read")
    page.get_by_role("button", name="Tokens", exact=True).click()
    tokens = page.locator("[data-token]")
    expect(tokens.first).to_be_visible()
    first = page.url
    page.keyboard.press("ArrowRight")
    facts = page.get_by_role("complementary", name="Token")
    expect(facts.get_by_text("Log-probability", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile(r"token=\d+"))
    page.get_by_label("Colour by").select_option("advantage")
    expect(page.locator("[data-token][data-heat^=g]").first).to_be_visible()
    page.get_by_label("Colour by").select_option("ratio")
    expect(page.locator("[data-token][data-heat=b1]").first).to_be_visible()
    expect(facts).to_contain_text(re.compile(r"Ratio0\.9139"))
    photograph(page, "episode-ratio")
    page.get_by_label("Colour by").select_option("change")
    expect(
        page.get_by_text(
            f"log-probability after the step - before it, -{TRAINER_BELOW} to {TRAINER_BELOW}"
        )
    ).to_be_visible()
    expect(page.locator("[data-token][data-heat=g5]").first).to_be_visible()
    expect(facts).to_contain_text(re.compile(rf"Change by the step{TRAINER_BELOW}"))
    photograph(page, "episode-change")
    page.get_by_label("Colour by").select_option("advantage")
    photograph(page, "episode")
    shared = page.url
    page.reload()
    expect(facts.get_by_text("Log-probability", exact=True)).to_be_visible()
    expect(page.locator("[data-chosen]")).to_have_count(1)
    assert page.url == shared
    # the list is there: the keys know where to
    expect(page.get_by_role("button", name="Next")).to_be_enabled()
    page.keyboard.press("j")
    expect(page).not_to_have_url(shared)
    expect(tokens.first).to_be_visible()
    expect(page.get_by_role("button", name="Previous")).to_be_enabled()
    page.keyboard.press("k")
    expect(page).to_have_url(re.compile(re.escape(first.split("?")[0])))
    page.goto(f"/sessions/{run.session_id}/episodes/epi_nothing")
    expect(page.get_by_text("There is no such episode")).to_be_visible()
    page.get_by_role("link", name="All episodes").click()
    expect(page.get_by_role("table", name="Episodes")).to_be_visible()


def test_a_steps_groups_have_addresses_of_their_own_and_their_answers_beside_each_other(
    run: Run,
) -> None:
    page = run.page
    step = f"/sessions/{run.session_id}/steps/1"
    page.goto(f"{step}?group=mist&colour=version")  # where a group was before it had a path
    expect(page).to_have_url(re.compile(r"/steps/1/groups/mist\?colour=version$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Step 1")
    for spread in ("Rewards", "Advantages", "Staleness"):
        expect(page.get_by_role("img", name=re.compile(rf"^{spread}: .*: \d"))).to_be_visible()
    expect(page.get_by_role("img", name="Staleness: 0: 8")).to_be_visible()
    # exp(-TRAINER_BELOW)
    expect(
        page.get_by_role("img", name=re.compile(r"^Ratios: 0\.9 to 0\.95: \d+$"))
    ).to_be_visible()
    groups = page.get_by_role("list", name="Groups").get_by_role("link")
    expect(groups).to_have_count(2)
    answers = page.get_by_role("region", name=re.compile(r"^Answer \d"))
    expect(answers).to_have_count(4)
    expect(answers.first.locator("[data-heat], span").first).to_be_visible()
    photograph(page, "step")
    hostile = groups.filter(has_not_text="mist")
    hostile.press("Enter")
    expect(hostile).to_have_attribute("aria-current", "true")
    expect(hostile).to_be_focused()
    page.reload()
    expect(hostile).to_have_attribute("aria-current", "true")
    groups.filter(has_text="mist").click()
    answers.first.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/steps/1/groups/mist/episodes/epi_\w+$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("mist")
    best = page.url
    expect(page.get_by_role("button", name="Previous")).to_be_disabled()
    expect(page.get_by_role("button", name="Next")).to_be_enabled()
    page.keyboard.press("j")
    expect(page).not_to_have_url(best)
    expect(page.get_by_role("button", name="Previous")).to_be_enabled()
    page.keyboard.press("k")
    expect(page).to_have_url(best)
    page.get_by_role("button", name="Tokens", exact=True).click()
    token = page.locator("[data-token]").first.get_attribute("data-token")
    page.goto(f"{best.replace('/sessions/', '/runs/')}?token={token}")
    expect(page).to_have_url(f"{best}?token={token}")
    expect(page.locator("[data-chosen]")).to_have_count(1)
    trail = page.get_by_role("navigation", name="Where this is")
    trail.get_by_role("link", name="mist").click()
    expect(page).to_have_url(re.compile(r"/steps/1/groups/mist$"))
    trail.get_by_role("link", name="Step 1").click()
    expect(page).to_have_url(re.compile(r"/steps/1$"))
    page.goto(f"{step}/groups/nobody")
    expect(page.get_by_text("This step has no group “nobody”. Its first is shown.")).to_be_visible()
    page.goto(f"/sessions/{run.session_id}/steps/77")
    expect(page.get_by_text("There is no step 77")).to_be_visible()


def test_the_answers_of_a_group_begin_at_the_token_where_they_part(run: Run) -> None:
    page, third = run.page, itertools.count(100)

    def alike(route: Route) -> None:
        told = route.fetch().json()
        sampled = told["timelines"][0]["runs"][-1]
        sampled["token_ids"][:3], sampled["pieces"][:3] = (
            [5, 6, next(third)],
            ["Same<b>", "\n", "Other"],
        )
        route.fulfill(json=told)

    page.route("**/timelines?*", alike)
    page.goto(f"/sessions/{run.session_id}/steps/1/groups/mist?colour=version")
    begun = page.get_by_role("region", name="What all answers begin with")
    expect(begun).to_contain_text("All 4 begin with these 2 tokens, and part at the next:")
    expect(begun).to_contain_text("Same<b>")
    answers = page.get_by_role("region", name=re.compile(r"^Answer \d"))
    expect(answers).to_have_count(4)
    for at in range(4):
        expect(answers.nth(at)).to_contain_text(re.compile("… Other"))
        expect(answers.nth(at)).not_to_contain_text("Same")
    photograph(page, "step-parting")
    page.unroute("**/timelines?*")


def test_a_click_on_a_curve_leads_to_its_step_and_its_axis_is_in_the_address(run: Run) -> None:
    page = run.page
    page.goto(f"/sessions/{run.session_id}/charts")
    page.get_by_label("Logarithmic").click()
    expect(page).to_have_url(re.compile(r"\?y=log$"))
    expect(page.get_by_label("Logarithmic")).to_be_checked()
    page.locator(".u-over").nth(1).click()  # the first begins with an evaluation
    page.get_by_role("link", name="Open step 1").first.click()
    expect(page).to_have_url(re.compile(r"/steps/1$"))


def test_evaluations_are_read_by_version_and_by_task(run: Run) -> None:
    page = run.page
    page.goto(f"/sessions/{run.session_id}")
    expect(
        page.get_by_role(
            "img", name=re.compile(r"^Reward by step; .*training .*, held-out 0\.4375")
        )
    ).to_be_visible()
    open_place(page, "Evals")
    evaluation = page.get_by_role("region", name="Evaluation held-out")
    expect(evaluation).to_contain_text(
        "Step 1: reward 0.4375 ± 0.25 (0.375 at step 0), success 50 %, 8 episodes"
    )
    expect(evaluation).to_contain_text("reward/format 0.5")
    tasks = evaluation.get_by_role("region", name="Tasks of held-out").get_by_role("row")
    expect(tasks).to_have_count(3)
    # worst
    expect(tasks.nth(1)).to_contain_text(
        "<script>document.title='owned'</script>⟨U+202E⟩evil0.50.125± 0.254"
    )
    expect(tasks.nth(2)).to_contain_text("mist0.250.75± 0.254")
    evaluation.scroll_into_view_if_needed()
    photograph(page, "evaluations")


def test_tasks_say_what_changed_between_two_versions_and_what_was_answered(run: Run) -> None:
    page = run.page
    page.goto(f"/sessions/{run.session_id}")
    page.get_by_role("link", name="Tasks", exact=True).click()
    table = page.get_by_role("region", name="Rewards of tasks")
    expect(table.get_by_role("row")).to_have_count(2)  # one task was held out
    page.get_by_label("Episodes").select_option("training")
    expect(table.get_by_role("row")).to_have_count(3)
    table.get_by_role("button", name="mist").click()
    expect(page).to_have_url(re.compile(r"/tasks\?of=training&task=mist$"))
    answer = page.get_by_role("region", name="Answer of version 0")
    expect(answer.get_by_role("link", name="Version 0")).to_be_visible()
    expect(page.get_by_role("region", name="The task by version").get_by_role("row")).to_have_count(
        2
    )
    photograph(page, "tasks")
    page.goto(f"{page.url}&to=7")
    expect(page.get_by_label("To version")).to_have_value("7")
    expect(table.get_by_role("columnheader", name="Version 7")).to_be_visible()
    expect(table.get_by_role("row", name="mist")).to_contain_text("–")  # it was not played then
    page.get_by_label("To version").select_option("0")
    expect(table.get_by_role("columnheader", name="Change")).to_have_count(0)
    expect(page.get_by_text("Only version 0 was played")).to_be_visible()


def test_which_task_got_worse_is_told_where_tasks_take_turns(
    run: Run, loop_server: LoopServer, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four tasks, one a step: versions 1 and 4 have none in common, and the plays nearest to them
    are compared.
    """
    monkeypatch.setattr(loop_server, "api_key", played.key)
    tasks = ["fog", "hail", "mist", "rain"]

    def play_in_turns() -> str:
        with loop_server.session(tasks_per_batch=1) as remote:
            for version in range(8):
                is_done = lambda version=version: remote.status().policy_version == version  # noqa: E731
                until(is_done, f"step {version} is done", 60)
                play(remote, tasks[version % 4], 4)
            until(lambda: remote.status().policy_version == 8, "step 8 is done", 60)
            return remote.id

    # the client refuses to wait beside the browser's event loop
    with ThreadPoolExecutor(1) as beside:
        session_id = beside.submit(play_in_turns).result()
    page = run.page
    page.goto(f"/sessions/{session_id}/tasks")
    table = page.get_by_role("region", name="Rewards of tasks")
    page.get_by_label("From version").select_option("1")
    page.get_by_label("To version").select_option("4")
    expect(page.get_by_text("No task was played under both versions")).to_contain_text(
        "at most 4 versions away"
    )
    rows = table.get_by_role("row")
    expect(rows).to_have_count(4)  # "rain" was first played nearer to 4
    expect(table.get_by_role("row", name=re.compile("^fog"))).to_contain_text(
        re.compile("version 0.*version 4")
    )
    expect(table.get_by_role("row", name=re.compile("^hail"))).to_contain_text(
        re.compile("version 1.*version 5")
    )
    photograph(page, "tasks-in-turns")
    table.get_by_role("button", name="hail").click()
    for version in (1, 5):
        answer = page.get_by_role("region", name=f"Answer of version {version}")
        expect(answer.locator(".font-mono span").first).to_be_visible()
    page.get_by_label("To version").select_option("5")
    expect(page.get_by_text("No task was played under both versions")).to_have_count(0)
    expect(table.get_by_role("columnheader", name="Version 5")).to_be_visible()
    page.goto(f"/sessions/{session_id}/tasks?from=7&to=90")
    page.get_by_role("button", name="Compare versions 3 and 7").click()
    expect(table.get_by_role("row", name=re.compile("^rain"))).to_be_visible()
    expect(page).to_have_url(re.compile("/tasks$"))


def test_runs_and_episodes_of_a_run_that_has_ended_are_annotated_and_found_by_it(run: Run) -> None:
    page = run.page
    page.goto(f"/sessions/{run.session_id}")
    one = "**/v1/sessions/*"
    page.route(
        one, lambda route: route.abort() if route.request.method == "PATCH" else route.continue_()
    )
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.get_by_role("alert").first).to_be_visible()
    page.unroute(one)
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.get_by_role("button", name="Unpin")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    open_place(page, "Settings")
    page.get_by_role("button", name="Edit name, tags, notes").click()
    page.get_by_role("textbox", name="Tags").fill("kept, a|b")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog").get_by_role("alert").first).to_be_visible()
    page.get_by_role("textbox", name="Tags").fill("kept, sweep 3")
    page.get_by_role("textbox", name="Notes").fill(HOSTILE)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    notes = page.get_by_role("region", name="Notes")
    expect(notes.get_by_text("<script>document.title='owned'</script>⟨U+202E⟩evil")).to_be_visible()
    open_place(page, "Overview")
    page.get_by_role("link", name="sweep 3").click()
    expect(page).to_have_url(re.compile("tag=sweep"))
    expect(page.get_by_role("region", name="Sessions").get_by_role("row")).to_have_count(2)
    expect(page.get_by_text("pinned", exact=True)).to_be_visible()
    page.get_by_label("Tag", exact=True).fill("no run has it")
    expect(page.get_by_text("No session matches")).to_be_visible()

    page.goto(f"/sessions/{run.session_id}/episodes?sort=best")
    rows = page.get_by_role("table", name="Episodes").get_by_role("row")
    expect(rows.nth(1)).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    good = page.get_by_role("button", name="Good")
    good.click()
    expect(good).to_have_attribute("aria-pressed", "true")
    asked: list[str] = []
    page.on(
        "request",
        lambda request: asked.append(request.url) if "/timelines" in request.url else None,
    )
    page.get_by_label("Your comment").fill(f"look {HOSTILE}")
    page.get_by_role("button", name="Save comment").click()
    expect(page.get_by_text("Saved", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Save comment")).to_be_disabled()
    assert asked == [], "the tokens that were loaded are not asked for again"
    photograph(page, "annotated")
    page.goto(f"/sessions/{run.session_id}/episodes?thumb=up")
    expect(rows).to_have_count(2)
    expect(rows.nth(1).get_by_role("img", name="Comments: 1")).to_be_visible()
    page.get_by_role("combobox", name="Comment").select_option("false")
    expect(page.get_by_text("No episode matches")).to_be_visible()


def test_two_runs_are_compared_from_the_list_and_the_address_says_it_all(run: Run) -> None:
    page = run.page
    sessions = run.api.base_url.copy_with(path="/v1/sessions")
    config = run.api.get(f"{sessions}/{run.session_id}").json()["config"] | {"grpo_n": 2}
    body = {
        "base_model": BASE_MODEL,
        "name": f"other {HOSTILE}",
        "config": config,
        "priority": -100,
    }
    other = run.api.post(sessions, json=body).raise_for_status().json()["id"]
    run.api.post(f"{sessions}/{other}/stop", json={})
    page.goto("/sessions")
    page.get_by_role("checkbox", name=f"Compare {run.session_id}").check()
    page.get_by_role("checkbox", name="Compare other").check()
    page.get_by_role("link", name="Compare 2").click()
    expect(page).to_have_url(re.compile(rf"/compare\?runs={run.session_id},{other}$"))
    options = page.get_by_role("region", name="Options of the runs").get_by_role("row")
    expect(options).to_have_count(2)
    expect(options.nth(1)).to_contain_text("grpo_n42")
    page.get_by_role("button", name="Show all").click()
    expect(options.nth(20)).to_be_visible()
    reward = page.get_by_role("img", name=re.compile("^Reward by step; at step 1: "))
    expect(reward).to_be_visible()
    page.get_by_label("Over").select_option("tokens")
    page.get_by_label("Smoothing").fill("0.5")
    expect(
        page.get_by_role("img", name=re.compile(r"^Reward by tokens; at \d+ tokens"))
    ).to_be_visible()
    final = page.get_by_role("region", name="Final measures of the runs").get_by_role("row")
    expect(final).to_have_count(3)
    expect(final.nth(1)).to_contain_text("step 1")
    page.get_by_role("button", name="Steps", exact=True).click()
    expect(final.nth(2)).to_contain_text("step 1")  # the run with more of them comes last
    expect(page.get_by_role("columnheader", name="Steps")).to_have_attribute(
        "aria-sort", "ascending"
    )
    answers = page.get_by_role("region", name=re.compile("^Answer of"))
    expect(answers.first.get_by_role("link", name="reward")).to_be_visible()
    expect(answers.nth(1)).to_contain_text("It did not play this task for evaluation")
    expect(answers.nth(1)).to_contain_text("<script>document.title='owned'</script>⟨U+202E⟩evil")
    photograph(page, "compare")
    expect(page).to_have_url(re.compile("smooth=0.5"))
    assert {"options=all", "x=tokens", "by=Steps"} <= set(page.url.split("&"))
    page.reload()
    expect(options.nth(20)).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Reward by tokens"))).to_be_visible()
    page.get_by_role("button", name="Take out other").click()
    expect(page.get_by_role("list", name="Compared runs").get_by_role("listitem")).to_have_count(1)
    page.goto(f"/compare?runs={run.session_id},ses_0000000000000000")
    expect(page.get_by_text("One of the runs is not in this project")).to_be_visible()
    expect(
        page.get_by_role("region", name="Final measures of the runs").get_by_role("row")
    ).to_have_count(2)
    assert page.title() == "Compare runs · TinkerScript"


def test_an_open_episode_shows_what_looks_wrong_with_its_calls(
    run: Run, loop_server: LoopServer
) -> None:
    """Attempts in one episode, because the loop begins it outside."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            loop_server, "api_key", run.api.headers["Authorization"].removeprefix("Bearer ")
        )
        remote = loop_server.session()
    with remote.episode() as begun:
        for task in ["mist", "fog"] * 4:
            execute_agent(task, begun)
        run.page.goto(f"/sessions/{remote.id}/episodes/{begun.id}")
        notice = run.page.get_by_role("alert")
        expect(notice).to_contain_text("began with the same prompt")
        expect(notice).to_contain_text("Call begin_episode() inside the loop")
        photograph(run.page, "episode-warning")
    remote.close()


def test_the_audit_log_and_the_list_of_runs_are_narrowed_by_their_addresses(run: Run) -> None:
    page = run.page
    page.goto("/audit")
    page.get_by_role("searchbox", name="What").fill("session stop")
    page.wait_for_url("**/audit?action=session+stop")
    expect(page.get_by_role("rowheader", name="session create")).to_have_count(0)
    expect(page.get_by_role("rowheader", name="session stop").first).to_be_visible()
    page.goto("/audit?actor=rita&target=ses_&from=2001-01-01&to=2001-01-02")
    expect(page.get_by_text("No entry matches")).to_be_visible()
    page.get_by_label("to").fill("2999-01-02")
    expect(page.get_by_role("rowheader", name="session create").first).to_be_visible()
    page.goto("/sessions?from=2001-01-01")
    page.get_by_role("combobox", name="Base model").select_option("SmolLM2-135M-Instruct")
    page.wait_for_url("**/sessions?from=2001-01-01&model=SmolLM2-135M-Instruct")
    expect(page.get_by_role("row", name=run.session_id)).to_be_visible()
    page.get_by_label("from").fill("2999-01-01")
    expect(page.get_by_text("No session matches")).to_be_visible()
