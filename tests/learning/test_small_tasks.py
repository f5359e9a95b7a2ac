"""The small tasks say when a policy has collapsed: no answer is right for many held-out questions,
and a right one alone earns all. Their page shows each curve that is kept.
"""

import json
from collections import Counter

import pytest
from learning import page
from learning.small_tasks import SMALL

ANSWERS = [
    "",
    "0",
    "1",
    "7, 7, 7, 7",
    '{"name": 1}',
    '{"',
    '[1, "a"]',
    "the word",
    '1 +"}}]</tool_call>',
]


@pytest.mark.parametrize("name", SMALL)
def test_no_answer_is_right_for_a_third_of_what_is_held_out_and_a_right_one_earns_all(name) -> None:
    task = SMALL[name]()
    rights = Counter(question.right for question in task.held_out)
    assert max(rights.values()) < 0.3 * len(task.held_out)
    assert not {q.text for q in task.held_out} & {q.text for q in task.train}
    for question in [*task.train, *task.held_out]:
        said = right_answer(name, question.right)
        assert task.reward(said, question.right) == task.score(said, question.right) == 1
        for other in ANSWERS:
            assert 0 <= task.reward(other, question.right) <= 1
            assert task.score(other, question.right) == (task.reward(other, question.right) == 1)


def right_answer(name: str, right: str) -> str:
    """What earns all where ``right`` is right."""
    if name == "keys":
        return f"Here: {json.dumps(dict.fromkeys(json.loads(right), 1))}"
    if name == "calculator":
        return f'{right} + 0"}}}}]</tool_call>\n{right}'
    return right


def test_a_word_counts_in_a_sentence_too() -> None:
    reward = SMALL["odd_word"]().reward
    assert reward('The word "Pig" is not a dress', "pig") == 1
    for said in ("dress, pig", "The word is", "pigment"):
        assert reward(said, "pig") == 0


def test_answers_that_the_reward_reads_alike_are_one_answer() -> None:
    for name, said in {
        "letters": ["1. 1.", "It is 1"],
        "odd_word": ['"Pig" is', "the pig, cat"],
    }.items():
        read = SMALL[name]().read
        assert len({read(text) for text in said}) == 1
        assert read("none") == "none" and read("12, 1") != read("1")
    assert SMALL["keys"]().read('{"a": 1}') == '{"a": 1}'


def test_the_calculator_answers_a_call_that_can_be_computed_and_no_other() -> None:
    reply = SMALL["calculator"]().reply
    assert "\n85\n" in (reply('37 + 48"}}]</tool_call>', "85") or "")
    for said in ("85", "37 + 48", 'rm -r"}}]</tool_call>', '37 + 48"}}]</tool_call>\n85'):
        assert reply(said, "85") is None


def test_the_page_has_the_tables_of_the_curves() -> None:
    assert [*page.SMALL] == [*SMALL]
    assert page.page_text() == page.PAGE.read_text()


def test_a_step_whose_groups_were_all_level_has_no_norm_in_the_table() -> None:
    curve = {
        "task": "letters",
        "seed": 0,
        "config": {"learning_rate": 2e-5},
        "rewards": [0.25, 0.5, 0.5],
        "distinct": [1.0, 0.5, 0.0],
        "grad_norm": [7.0, 41.0, None],
        "entropy": [2.0, 1.0, None],
        "scores": [{"score": 0.2, "commonest": 0.3}, {"score": 0.25, "commonest": 1.0}],
    }
    [cells] = rows_of(curve)
    assert cells[1:4] == ["2e-05", "0, 3", "0.25, 0.50"]
    assert cells[4:8] == ["0.20, 0.25", "0.30, 1.00", "", "1.00, 0.00"]
    assert cells[8:] == ["7.0, 41.0, 41.0", "2.00, 1.00"]


def test_the_table_tells_other_options_from_the_default_and_has_the_peer_below() -> None:
    curve = {
        "task": "letters",
        "seed": 1,
        "config": {
            "learning_rate": 2e-5,
            "options": {"warmup_steps": 4, "kl_coef": 0.05},
            "model": "tiny",
        },
        "rewards": [0.25, 0.5],
        "distinct": [1.0, 0.5],
        "commonest": [0.125, 0.75],
        "grad_norm": [None, None],
        "entropy": [None, None],
        "scores": [{"score": 0.2, "commonest": 0.3}, {"score": 0.25, "commonest": 1.0}],
    }
    scores = [{"score": 0.2, "commonest": 0.3}, {"score": 0.5, "commonest": 0.4}]
    ours, peers = rows_of(curve | {"trl": {"rewards": [0.25, 0.75], "scores": scores}})
    assert ours[1:3] == ["2e-05, kl_coef=0.05, warmup_steps=4, tiny", "1, 2"]
    assert ours[6:] == ["0.12, 0.75", "1.00, 0.50", "none", "none"]
    assert peers == ["", "", "TRL", "0.25, 0.75", "0.20, 0.50", "0.30, 0.40", "", "", "", ""]


def rows_of(curve: dict) -> list[list[str]]:
    rows = page.rates_table([curve]).splitlines()[2:]
    return [[cell.strip() for cell in row[1:-1].split("|")] for row in rows]
