"""What went wrong in training is said to the loop with the end of an episode, once per kind and
when it has doubled.
"""

from gpu_runtime.episodes.advice.steps import Notices
from support.gateway_harness import Gateway

LEVEL = {
    "name": "nothing_to_learn",
    "reason": "3 groups in a row had equal rewards",
    "hint": "Raise the temperature.",
}


async def test_the_end_of_an_episode_says_it_once(gateway: Gateway) -> None:
    gateway.episodes.notices.add(LEVEL)
    said = []
    for _ in range(2):
        begun = await gateway.begin()
        await gateway.chat(begun)
        said.append((await gateway.end(begun["episode_id"])).json()["warning"])
    first, second = said
    assert "nothing_to_learn" in first and "equal rewards. Raise the temperature." in first
    assert second is None


def test_each_kind_is_said_at_first_and_whenever_its_number_has_doubled() -> None:
    notices, said = Notices(), []
    for _ in range(9):
        notices.add(LEVEL)
        said.append(notices.take() is not None)
    assert said == [True, True, False, True, False, False, False, True, False]
    notices.add({"name": "step_refused", "reason": "loss is nan"})
    notices.add(
        {"name": "entropy_collapse", "reason": "the entropy fell", "hint": "Lower learning_rate."}
    )
    both = notices.take()
    assert both is not None and "loss is nan." in both and "Lower learning_rate." in both


def test_what_no_loop_needs_to_hear_of_is_left() -> None:
    notices = Notices()
    for event in (
        {"name": "handed_over", "reason": "fine"},
        {
            "name": "episodes_stale",
            "why": "nothing to learn: every reward of its group is the same",
            "reason": "x",
        },
        {"name": "episodes_stale", "why": "step_refused: loss is nan", "reason": "x"},
    ):
        notices.add(event)
    assert notices.take() is None
    notices.add(
        {
            "name": "episodes_stale",
            "why": "stale: too old",
            "reason": "2 ended episodes were dropped",
        }
    )
    assert "2 ended episodes" in (notices.take() or "")
