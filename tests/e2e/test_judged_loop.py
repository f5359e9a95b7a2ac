"""Groups that a judge rewards, against a real gateway: they fill, none waits for another, and the
record keeps why.
"""

import pytest
from e2e.loop_server import LoopServer

from support.judge_endpoint import judge_endpoint, shorter_is_better
from tinkerscript import LlmJudge
from tinkerscript.judge import reward_of


def ask(task, episode):
    with episode.openai() as client:
        asked = [{"role": "user", "content": task}]
        return (
            client.chat.completions.create(model=episode.model, messages=asked, max_tokens=4)
            .choices[0]
            .message.content
        )


@pytest.mark.timeout(180)
def test_one_thread_and_many_fill_their_groups_and_the_record_gives_the_rewards_again(
    loop_server: LoopServer,
) -> None:
    failed = iter(["the first attempt fails"])

    def agent(task, episode):
        if next(failed, None):
            raise ValueError("no idea")
        return ask(task, episode)

    with (
        judge_endpoint(shorter_is_better) as (url, seen),
        loop_server.session(grpo_n=3, tasks_per_batch=1) as session,
    ):
        judge = LlmJudge(url, "key", "judge", rubric="The shorter text is better.")
        one = session.rollouts(agent, ["mist"], judge=judge, workers=1, progress=False)
        many = session.rollouts(ask, ["rain"], judge=judge, workers=16, epochs=4, progress=False)
        assert (one.count, len(one.failures), many.count, many.failures) == (3, 1, 12, [])
        assert len(seen) == judge.requests == 5 and not judge.faults
        ended = [view for view in session.episodes() if view.reward is not None]
        assert sorted({view.task.split(" #")[0] for view in ended}) == ["mist", "rain"]
        assert len({view.task for view in ended}) == 5
        for view in ended[::5]:
            kept = loop_server.get(f"/v1/sessions/{session.id}/episodes/{view.episode_id}")[
                "metadata"
            ]["judge"]
            assert reward_of(kept) == view.reward and kept["model"] == "judge"
