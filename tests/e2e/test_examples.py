"""Each example runs as its README says, against a whole server; its rules are checked one by
one.
"""

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from e2e.loop_server import ROOT, LoopServer
from learning.examples import newest_rewards
from openai import APIConnectionError, OpenAI

from support.child_processes import child_process
from support.judge_endpoint import judge_endpoint
from support.ports import free_port
from tinkerscript.datasets import rows_read
from tinkerscript.judge import scores_in

EXAMPLES = Path(__file__).resolve().parents[2] / "sdk" / "examples"
OTHERS = [
    "guess_number",
    "twenty_questions",
    "countdown",
    "multi_agent",
    "judge",
    "gsm8k",
    "tool_use",
]
# Those with more than one call and a reward for it: several turns, roles, tools, a judge. `make
# nightly` runs them all.
RICHEST = ["twenty_questions", "multi_agent", "judge", "tool_use"]


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), **variables}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


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
    "name", ["hello", *(pytest.param(name, marks=pytest.mark.nightly) for name in OTHERS)]
)
def test_an_example_runs_as_a_program(loop_server: LoopServer, tmp_path: Path, name: str) -> None:
    """A copy of its folder, which is all that it has of the examples."""
    copied = tmp_path / name
    shutil.copytree(EXAMPLES / name, copied)
    ran = run(
        tmp_path, str(copied / "train.py"), "--smoke",
        TINKERSCRIPT_BASE_URL=loop_server.url, TINKERSCRIPT_API_KEY=loop_server.api_key,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    trained_one_step(tmp_path, ran.stdout, ran.stderr)
    # no answer of a fake engine is a number: all are worth 0, and there is nothing to learn
    if name == "hello":
        assert newest_rewards(loop_server.url, loop_server.api_key) == []


def trained_one_step(folder: Path, out: str, err: str) -> None:
    """What a smoke leaves in its folder and prints."""
    assert " by step" in out and "before" in out
    (picture,) = folder.glob("*.png")
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    (model,) = folder.glob("*-model")
    assert any(model.iterdir())
    assert "attempts failed" not in err


@pytest.mark.parametrize("name", RICHEST)
def test_an_example_trains_one_step_and_leaves_a_model(
    loop_server: LoopServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, caplog: Any, example: Any,
    name: str,
) -> None:  # fmt: skip
    """In this process: to start another and import what they share takes longer than a smoke."""
    assert (
        (EXAMPLES / name / "train.py")
        .read_text()
        .endswith('\n\nif __name__ == "__main__":\n    main()\n')
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TINKERSCRIPT_BASE_URL", loop_server.url)
    monkeypatch.setenv("TINKERSCRIPT_API_KEY", loop_server.api_key)
    monkeypatch.setattr(sys, "argv", ["train.py", "--smoke"])
    example(name, "train").main()
    said = capsys.readouterr()
    trained_one_step(tmp_path, said.out, said.err + caplog.text)


def test_a_folder_of_an_example_imports_nothing_else_of_this_repository() -> None:
    for source in EXAMPLES.glob("*/*.py"):
        for name in imported(source) - {path.stem for path in source.parent.glob("*.py")}:
            ours = [
                folder / file
                for folder in (ROOT, ROOT / "tests", EXAMPLES)
                for file in (name, f"{name}.py")
            ]
            assert not any(path.exists() for path in ours), f"{source} imports {name}"


def imported(source: Path) -> set[str]:
    """The first part of the name of every module that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_hello_is_played_by_runners_that_pull_from_its_queue(
    loop_server: LoopServer, tmp_path: Path
) -> None:
    server = {"TINKERSCRIPT_BASE_URL": loop_server.url, "TINKERSCRIPT_API_KEY": loop_server.api_key}
    environment = os.environ | server | {"PYTHONPATH": str(EXAMPLES.parent)}
    train = [sys.executable, str(EXAMPLES / "hello" / "train.py"), "--queue", "--smoke"]

    def start(command: list[str], folder: Path) -> AbstractContextManager[subprocess.Popen[str]]:
        return child_process(command, folder=folder, environment=environment)

    with start(train, tmp_path) as trainer:
        told = trainer.stdout.readline().split()
        assert told[:3] == ["tinkerscript", "worker", "train:agent"], (told, trainer.stderr.read())
        command = [sys.executable, "-m", *told]
        with (
            start(command, EXAMPLES / "hello") as first,
            start(command, EXAMPLES / "hello") as second,
        ):
            out, err = trainer.communicate(timeout=120)
            assert trainer.returncode == 0, err
            ended = [worker.communicate(timeout=60) for worker in (first, second)]
    assert "held out: " in out and "nan" not in out
    done = [int(said.split()[-6]) for said, _ in ended]
    assert sum(done) == 2 + 4 * 4 + 2, ended


@pytest.mark.nightly  # test_workers.py plays judged tasks in the suite
def test_judge_is_played_and_judged_by_a_worker_that_pulls_from_its_queue(
    loop_server: LoopServer, tmp_path: Path
) -> None:
    server = {"TINKERSCRIPT_BASE_URL": loop_server.url, "TINKERSCRIPT_API_KEY": loop_server.api_key}
    environment = os.environ | server | {"PYTHONPATH": str(EXAMPLES.parent)}
    train = [sys.executable, str(EXAMPLES / "judge" / "train.py"), "--queue", "--smoke"]
    with child_process(train, folder=tmp_path, environment=environment) as trainer:
        told = trainer.stdout.readline().split()
        assert told[:5] == ["tinkerscript", "worker", "train:agent", "--judge", "train:rank"], (
            trainer.stderr.read()
        )
        name, _, url = trainer.stdout.readline().removeprefix("with ").strip().partition("=")
        command, judged_by = [sys.executable, "-m", *told], environment | {name: url}
        with child_process(command, folder=EXAMPLES / "judge", environment=judged_by) as worker:
            out, err = trainer.communicate(timeout=120)
            assert (trainer.returncode, "failed" in out) == (0, False), (out, err)
            said, _ = worker.communicate(timeout=60)
    assert said.splitlines()[-1] == "16 attempts done, 0 tries failed"
    session = next(s for s in loop_server.get("/v1/sessions")["items"] if s["name"] == "judge")
    played = [
        e
        for e in loop_server.get(f"/v1/sessions/{session['id']}/episodes")["items"]
        if not e["eval"]
    ]
    assert len(played) == 16 and all(0 <= episode["reward"] <= 1 for episode in played)


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
    assert [module.number_in(said) for said in ("7", "I say 12 or 13", "none", "9" * 5000)] == [
        7,
        12,
        None,
        999999,
    ]
    assert [module.hint(guess, 7) for guess in (3, 9)] == ["higher", "lower"]


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("2*5+7", 17), ("(7 - 2) * 5 = 25", 25), ("2+5", None), ("2+5+7+1", None), ("7/2-5", -1.5), ("2**5**7", None),
        ("2/(5-7)", -1), ("17", None), ("__import__('os')", None), ("(" * 500, None), ("", None),
    ],
)  # fmt: skip
def test_countdown_computes_sums_of_the_given_numbers_alone(
    example: Any, said: str, value: float | None
) -> None:
    assert example("countdown", "train").value_of(said, [2, 5, 7]) == value


def test_countdown_makes_different_tasks_and_the_same_ones_again(example: Any) -> None:
    module = example("countdown", "train")
    tasks = module.tasks_make(160)
    assert len({str(task) for task in tasks}) == 160 and tasks == module.tasks_make(160)


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("3 + 4 = 7", 7),
        ("It is 1,234.", 1234),
        ("-2.5", -2.5),
        ("none", None),
        ("", None),
        ("#### 42", 42),
        ("7.", 7),
    ],
)
def test_gsm8k_takes_the_last_number(example: Any, said: str, number: float | None) -> None:
    assert example("gsm8k", "train").last_number(said) == number


@pytest.mark.parametrize(
    ("folder", "file", "sizes"),
    [("gsm8k", "problems", (192, 48)), ("tool_use", "questions", (128, 32))],
)
def test_the_parts_of_a_file_have_no_task_in_common(
    folder: str, file: str, sizes: tuple[int, int]
) -> None:
    path = EXAMPLES / folder / f"{file}.jsonl"
    parts = [
        rows_read(path, split=split, columns=["question", "answer"]) for split in ("train", "test")
    ]
    assert tuple(map(len, parts)) == sizes
    assert len({row["question"] for rows in parts for row in rows}) == sum(sizes)


def test_every_question_is_answered_by_what_the_search_finds_and_by_no_model_that_does_not_search(
    example: Any,
) -> None:
    module = example("tool_use", "train")
    for row in rows_read(EXAMPLES / "tool_use" / "questions.jsonl"):
        found = module.run("search", json.dumps({"query": row["question"]}))
        assert row["answer"].lower() in module.words(found), row
    assert module.run("search", '{"query": "xyz"}') == "No article was found."
    for name, arguments in (
        ("look", '{"query": "a"}'),
        ("search", "{"),
        ("search", "[]"),
        ("search", '{"query": 3}'),
    ):
        assert module.run(name, arguments) is None


def test_the_stand_in_of_a_judge_prefers_fewer_words(example: Any) -> None:
    judged = example("judge", "stand_in").judged
    answer = judged(
        "Task:\nrain\n\nCandidate 1:\n" + "word " * 16 + "\n\nCandidate 2:\nwater\n\nCandidate 3:\n"
    )
    assert scores_in(answer, 3) == [0.5, 1 - 1 / 32, 0.0]


@pytest.mark.parametrize(
    ("described", "guessed", "rewards"),
    [
        ("a red fruit", "Apple.", (1.0, 1.0)), ("a red fruit", "It is an apple", (1.0, 1.0)), ("a", "", (0.0, 0.0)),
        ("a red fruit", "A bridge, no apple", (0.0, 0.0)), ("a", "Pineapple", (0.0, 0.0)),
        ("An Apple", "apple", (-1.0, 0.0)),
    ],
)  # fmt: skip
def test_each_role_has_its_own_reward(
    example: Any, described: str, guessed: str, rewards: tuple[float, float]
) -> None:
    describer, guesser = rewards
    scored = example("multi_agent", "train").score(
        "apple", ["bridge", "apple", "desert"], described, guessed
    )
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
def test_the_rules_answer_what_the_row_knows(
    example: Any, question: str, said: str, correct: bool
) -> None:
    answer = example("twenty_questions", "answerer").by_rules(
        question, {"answer": "otter", "category": "animal"}
    )
    assert (answer.said, answer.correct) == (said, correct)


def test_a_model_that_answers_in_another_form_costs_a_turn_and_no_more(example: Any) -> None:
    module = example("twenty_questions", "answerer")
    for text in (
        "yes",
        "[]",
        "null",
        '{"answer": "maybe"}',
        '{"answer": "yes", "correct": "true"}',
        "",
    ):
        assert module.parsed(text) == module.Answer("n/a", is_read=False), text
    assert module.parsed('{"answer": "yes", "correct": true}') == module.Answer("yes", correct=True)


def test_a_game_of_which_no_answer_was_read_has_no_reward(example: Any) -> None:
    game, answerer = example("twenty_questions", "game"), example("twenty_questions", "answerer")
    played = game.Game({"answer": "otter", "category": "animal"})
    played.take("Is it heavy?", answerer.parsed("I think so"))
    with pytest.raises(game.AnswersUnread, match="none of the 1 answers"):
        played.check()
    played.take("Is it small?", answerer.parsed('{"answer": "no"}'))
    played.check()
    assert (played.answers_unread, played.reward) == (1, 0.1)


def test_a_game_earns_1_when_it_is_solved_and_a_little_for_each_new_question_that_was_answered(
    example: Any,
) -> None:
    game, by_rules = (
        example("twenty_questions", "game"),
        example("twenty_questions", "answerer").by_rules,
    )
    played = game.Game(secret := {"answer": "otter", "category": "animal"})
    assert played.reward == 0.0
    for question in (
        "Is it an animal?",
        " is it an ANIMAL?",
        "Is it heavy?",
        "Does it start with b?",
    ):
        played.take(question, by_rules(question, secret))
    assert played.reward_parts == {"solved": 0.0, "told": 0.1}
    played.take("Is it an otter?", by_rules("Is it an otter?", secret))
    assert (played.reward_parts, played.reward) == ({"solved": 1.0, "told": 0.0}, 1.0)


def test_an_answerer_that_is_down_ends_a_game_by_name_and_without_a_reward(
    example: Any, free_url: str
) -> None:
    game, answerer = example("twenty_questions", "game"), example("twenty_questions", "answerer")
    secret = {"answer": "otter", "category": "animal"}
    with (
        example("twenty_questions", "canned_player").canned_player() as player,
        OpenAI(base_url=player.base_url, api_key="game") as client,
        OpenAI(base_url=free_url, api_key="other", max_retries=0) as other,
    ):
        with pytest.raises(APIConnectionError):
            game.play(secret, client, "canned", answerer.by_model(other, "other"))
        assert len(player.calls["game"]) == 1, "no further turn is played"


def test_the_key_of_one_endpoint_is_not_sent_to_the_answerers(
    example: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = example("twenty_questions", "answerer")
    for name, value in (("OPENAI_API_KEY", "player"), ("OPENAI_BASE_URL", "http://player/v1")):
        monkeypatch.setenv(name, value)
    assert str(module.answerer_client().base_url) == "http://player/v1/"
    monkeypatch.setenv("ANSWERER_BASE_URL", "http://answerer/v1")
    with pytest.raises(SystemExit, match="ANSWERER_API_KEY"):
        module.answerer_client()
    monkeypatch.setenv("ANSWERER_API_KEY", "own")
    client = module.answerer_client()
    assert (str(client.base_url), client.api_key) == ("http://answerer/v1/", "own")


def test_a_dry_run_has_no_more_games_than_nouns(tmp_path: Path) -> None:
    ran = run(tmp_path, str(EXAMPLES / "twenty_questions" / "dry_run.py"), "--games", "161")
    assert ran.returncode == 2 and "--games must be from 1 to 160" in ran.stderr


def test_the_nouns_are_160_and_40_of_8_categories() -> None:
    path = EXAMPLES / "twenty_questions" / "nouns.csv"
    parts = {
        split: rows_read(path, split=split, columns=["answer", "category"])
        for split in ("train", "test")
    }
    assert {split: len(rows) for split, rows in parts.items()} == {"train": 160, "test": 40}
    nouns = [row["answer"] for rows in parts.values() for row in rows]
    assert len(set(nouns)) == 200
    assert all(len({row["category"] for row in rows}) == 8 for rows in parts.values())


def test_the_player_may_search_before_it_asks(loop_server: LoopServer, tmp_path: Path) -> None:
    ran = run(
        tmp_path, str(EXAMPLES / "twenty_questions" / "train.py"), "--smoke", "--search", "--runners", "2",
        TINKERSCRIPT_BASE_URL=loop_server.url, TINKERSCRIPT_API_KEY=loop_server.api_key,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "solved:" in ran.stdout and "attempts failed" not in ran.stderr


def test_a_model_that_answers_is_counted_and_is_no_call_of_the_episode(
    loop_server: LoopServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with judge_endpoint(lambda messages: '{"answer": "yes", "correct": true}') as (url, asked):
        for name, value in {
            "TINKERSCRIPT_BASE_URL": loop_server.url, "TINKERSCRIPT_API_KEY": loop_server.api_key,
            "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "another",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["train.py", "--smoke", "--answerer", "other"])
        example("twenty_questions", "train").main()
    assert {(body["model"], body["authorization"]) for body in asked} == {
        ("other", "Bearer another")
    }
    session = next(
        s for s in loop_server.get("/v1/sessions")["items"] if s["name"] == "twenty questions"
    )
    games = loop_server.get(f"/v1/sessions/{session['id']}/episodes")["items"]
    assert len(games) == len(asked) == 8 and {
        (game["calls"], game["reward"]) for game in games
    } == {(1, 1.0)}
    one = loop_server.get(f"/v1/sessions/{session['id']}/episodes/{games[0]['episode_id']}")
    assert one["metrics"]["outside_calls"] == 1


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("animal that starts with o", "otter"), ("instrument and starts with v", "violin"),
        ("how heavy is it", "nothing; ask for one of"), ("", "nothing; ask for one of"),
    ],
)  # fmt: skip
def test_the_index_finds_the_nouns_of_which_every_part_is_true(
    example: Any, query: str, found: str
) -> None:
    assert found in example("twenty_questions", "search").by_index(query)


def test_a_dry_run_needs_no_server_and_says_what_merges_and_which_call_gets_which_reward(
    tmp_path: Path,
) -> None:
    script = str(EXAMPLES / "twenty_questions" / "dry_run.py")
    ran = run(tmp_path, script, "--games", "3", "--turns", "9", "--search", OPENAI_API_KEY="")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("timeline 1: calls 1 to ") == 3 and "merge share 1.00" in ran.stdout
    assert "  searched: " in ran.stdout and ", reward 0." in ran.stdout


def test_a_game_whose_agent_writes_its_prompt_anew_has_a_timeline_for_each_call(
    example: Any,
) -> None:
    canned, dry_run = (example("twenty_questions", name) for name in ("canned_player", "dry_run"))
    player = canned.Player()
    said = {"role": "assistant", "content": "Is it a tool?"}
    player.record("a", [{"role": "user", "content": "Ask."}], said)
    player.record("a", [{"role": "user", "content": "Ask again."}], said)
    player.record(
        "a", [{"role": "user", "content": "Ask."}, said, {"role": "user", "content": "no"}], said
    )
    assert dry_run.timelines_of(player.calls["a"]) == [[0, 2], [1]]


def test_two_models_are_compared_at_the_nouns_that_both_played(example: Any) -> None:
    module = example("twenty_questions", "tables")
    before = {str(n): {"solved": n < 2} for n in range(10)}
    after = {str(n): {"solved": n >= 1} for n in range(9)}
    assert module.comparison(before, after).startswith(
        "9 nouns played by both: 7 solved only after, 1 only before"
    )
    assert "difference +67%, 95 % interval +23% to +100%" in module.comparison(before, after)


def test_an_evaluation_goes_on_where_it_was_interrupted(
    loop_server: LoopServer, tmp_path: Path
) -> None:
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


def test_an_endpoint_that_is_down_fails_games_and_never_counts_them(
    tmp_path: Path, free_url: str
) -> None:
    script = str(EXAMPLES / "twenty_questions" / "evaluate.py")
    ran = run(
        tmp_path,
        script,
        "--model",
        "any",
        "--turns",
        "1",
        OPENAI_BASE_URL=free_url,
        OPENAI_API_KEY="key",
    )
    assert ran.returncode == 1 and "40 games failed" in ran.stdout
    assert "all              0       -" in ran.stdout


@pytest.fixture
def free_url() -> str:
    """An address where nothing listens."""
    return f"http://127.0.0.1:{free_port()}/v1"
