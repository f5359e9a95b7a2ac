"""Each example runs as its README says, against a whole server; its rules are checked one by one."""

import importlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from e2e.loop_server import LoopServer

from tinkerscript.datasets import rows_read

EXAMPLES = Path(__file__).resolve().parents[2] / "sdk" / "examples"


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), **variables}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )


@pytest.mark.parametrize("name", ["hello", "guess_number", "twenty_questions", "countdown", "multi_agent"])
def test_an_example_trains_one_step_and_leaves_a_model(loop_server: LoopServer, tmp_path: Path, name: str) -> None:
    script = str(EXAMPLES / name / "train.py")
    ran = run(
        tmp_path, script, "--smoke", TINKERSCRIPT_BASE_URL=loop_server.url, TINKERSCRIPT_API_KEY=loop_server.api_key
    )
    assert ran.returncode == 0, ran.stderr
    assert "mean reward by step" in ran.stdout and "before" in ran.stdout
    (model,) = tmp_path.glob("*-model")
    assert any(model.iterdir())
    assert "attempts failed" not in ran.stderr


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], ModuleType]]:
    """Imports a file of an example as the script beside it would; no other test sees it."""
    before = set(sys.modules)

    def load(folder: str, name: str) -> ModuleType:
        monkeypatch.syspath_prepend(EXAMPLES / folder)
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(EXAMPLES)):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("said", "reward"),
    [
        ("I am 10.", 1.0), ("I'm 10!", 1.0), ("I’m 10", 1.0), ("I am 100.", 0.0), ("I am not 10.", -1.0),
        ("Hello!", 0.0), ("", 0.0), ("10", 0.0),
    ],
)  # fmt: skip
def test_hello_counts_the_number_as_a_word(example: Any, said: str, reward: float) -> None:
    assert example("hello", "train").score(said, "10") == reward


def test_guess_number_reads_the_first_number(example: Any) -> None:
    module = example("guess_number", "train")
    assert [module.number_in(said) for said in ("7", "I say 12 or 13", "none", "9" * 5000)] == [7, 12, None, 999999]
    assert [module.hint(guess, 7) for guess in (3, 9)] == ["higher", "lower"]


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("2*5+7", 17), ("(7 - 2) * 5 = 25", 25), ("2+5", None), ("2+5+7+1", None), ("7/2-5", -1.5), ("2**5**7", None),
        ("2/(5-7)", -1), ("17", None), ("__import__('os')", None), ("(" * 500, None), ("", None),
    ],
)  # fmt: skip
def test_countdown_computes_sums_of_the_given_numbers_alone(example: Any, said: str, value: float | None) -> None:
    assert example("countdown", "train").value_of(said, [2, 5, 7]) == value


def test_countdown_makes_different_tasks_and_the_same_ones_again(example: Any) -> None:
    module = example("countdown", "train")
    tasks = module.tasks_make(160)
    assert len({str(task) for task in tasks}) == 160 and tasks == module.tasks_make(160)


@pytest.mark.parametrize(
    ("described", "guessed", "rewards"),
    [
        ("a red fruit", "Apple.", (1.0, 1.0)), ("a red fruit", "It is an apple", (0.0, 0.0)), ("a", "", (0.0, 0.0)),
        ("An Apple", "apple", (-1.0, 0.0)),
    ],
)  # fmt: skip
def test_each_role_has_its_own_reward(example: Any, described: str, guessed: str, rewards: tuple[float, float]) -> None:
    describer, guesser = rewards
    scored = example("multi_agent", "train").score("apple", described, guessed)
    assert scored == {"describer": describer, "guesser": guesser}


@pytest.mark.parametrize(
    ("question", "said", "correct"),
    [
        ("Is it an animal?", "yes", False),
        ("Are they tools?", "no", False),
        ("Does it start with the letter O?", "yes", False),
        ("Does it contain the letter z?", "no", False),
        ("Is it longer than 5 letters?", "no", False),
        ("Has it fewer than 6 letters?", "yes", False),
        ("Is it an OTTER?", "yes", True),
        ("Is it a potter?", "n/a", False),
        ("Is it heavy?", "n/a", False),
        ("", "n/a", False),
    ],
)
def test_the_rules_answer_what_the_row_knows(example: Any, question: str, said: str, correct: bool) -> None:
    answer = example("twenty_questions", "answerer").by_rules(question, {"answer": "otter", "category": "animal"})
    assert (answer.said, answer.correct) == (said, correct)


def test_a_model_that_answers_in_another_form_costs_a_turn_and_no_more(example: Any) -> None:
    module = example("twenty_questions", "answerer")
    for text in ("yes", "[]", "null", '{"answer": "maybe"}', '{"answer": "yes", "correct": "true"}', ""):
        assert module.parsed(text) == module.Answer("n/a"), text
    assert module.parsed('{"answer": "yes", "correct": true}') == module.Answer("yes", correct=True)


def test_the_nouns_are_160_and_40_of_8_categories() -> None:
    path = EXAMPLES / "twenty_questions" / "nouns.csv"
    parts = {split: rows_read(path, split=split, columns=["answer", "category"]) for split in ("train", "test")}
    assert {split: len(rows) for split, rows in parts.items()} == {"train": 160, "test": 40}
    nouns = [row["answer"] for rows in parts.values() for row in rows]
    assert len(set(nouns)) == 200
    assert all(len({row["category"] for row in rows}) == 8 for rows in parts.values())


def test_an_evaluation_goes_on_where_it_was_interrupted(loop_server: LoopServer, tmp_path: Path) -> None:
    script = str(EXAMPLES / "twenty_questions" / "evaluate.py")
    with loop_server.session() as session, session.begin_episode(eval=True) as episode:
        variables = {"OPENAI_BASE_URL": episode.base_url, "OPENAI_API_KEY": episode.api_key}
        first = run(tmp_path, script, "--model", episode.model, "--turns", "1", **variables)
        assert first.returncode == 0, first.stderr
        out = tmp_path / "games.jsonl"
        games = out.read_text().splitlines()
        assert len(games) == 40 and first.stdout.splitlines()[-1].startswith("all             40")
        out.write_text("\n".join([*games[:30], games[30][:20]]) + "\n")
        second = run(tmp_path, script, "--model", episode.model, "--turns", "1", **variables)
        assert second.returncode == 0, second.stderr
        answers = [json.loads(line)["answer"] for line in out.read_text().splitlines()[31:]]
        assert len(answers) == 10, "only those that were missing were played"
        episode.end(0.0)


def test_an_endpoint_that_is_down_fails_games_and_never_counts_them(tmp_path: Path, free_url: str) -> None:
    script = str(EXAMPLES / "twenty_questions" / "evaluate.py")
    ran = run(tmp_path, script, "--model", "any", "--turns", "1", OPENAI_BASE_URL=free_url, OPENAI_API_KEY="key")
    assert ran.returncode == 1 and "40 games failed" in ran.stdout
    assert "all              0       -" in ran.stdout


@pytest.fixture
def free_url() -> str:
    """An address where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"
