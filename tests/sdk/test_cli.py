"""The command line uses the same REST and says errors in one line."""

import json
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest
from sdk.http_parts import Answer, error
from sdk.rest_server import API_KEY

from tinkerscript import InvalidRequest
from tinkerscript.downloads import checkpoints
from tinkerscript.wire.episodes import RefusedCalls
from tinkerscript.wire.reading.points import MEASURES
from tinkerscript.wire.version import VERSION

NUMBERS = MEASURES | {"step"}


@pytest.fixture(autouse=True)
def settings(server, monkeypatch):
    monkeypatch.setenv("TINKERSCRIPT_BASE_URL", server.url)
    monkeypatch.setenv("TINKERSCRIPT_API_KEY", API_KEY)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(checkpoints, "POLL_INTERVAL_S", 0.01)


@pytest.fixture
def run(monkeypatch, capsys):
    pytest.importorskip("typer")
    from tinkerscript import cli

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tinkerscript", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return run


def test_sessions_lists_all_pages(server, connect, run):
    ids = [connect(name=f"run{n}").id for n in range(5)]
    code, out, _ = run("sessions")
    assert code == 0
    assert all(session_id in out for session_id in ids)


def test_lists_in_a_pipe_are_whole_values_with_tabs(connect, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    session = connect(name="a name that no narrow table would show whole")
    _, out, _ = run("sessions")
    assert out.split("\t")[:3] == [
        session.id,
        "a name that no narrow table would show whole",
        "SmolLM2",
    ]


def test_version_is_printed_without_a_server(run, monkeypatch):
    monkeypatch.delenv("TINKERSCRIPT_API_KEY")
    assert run("--version")[:2] == (0, f"tinkerscript {VERSION}\n")


def test_models_keys_and_logs_are_listed(server, session, run):
    items = [
        {"name": "SmolLM2", "parameters": 135, "context_length": 2048, "license": "apache-2.0"}
    ]
    server.fail("GET /v1/base-models", answer=Answer(200, json.dumps({"items": items}).encode()))
    assert run("models")[:2] == (0, "SmolLM2\t135\t2048\tapache-2.0\n")
    key = {
        "id": "key_1",
        "name": "laptop",
        "prefix": "tml-ab",
        "scopes": ["episodes"],
        "created_by": "a@b.example",
    }
    key["created_at"] = "2026-01-01T00:00:00Z"
    server.fail("GET /v1/keys", answer=Answer(200, json.dumps({"items": [key]}).encode()))
    assert run("keys")[1].split("\t")[:4] == ["key_1", "laptop", "tml-ab", "episodes"]
    server.fail("GET .*/logs", answer=Answer(200, b'{"lines": ["one", "two"]}'))
    assert run("logs", session.id)[:2] == (0, "one\ntwo\n")


def test_metrics_are_rows_and_a_curve(server, session, run):
    numbers = dict.fromkeys(NUMBERS, 1)
    for step in range(1, 5):
        server.add_event("metric", {**numbers, "step": step, "reward_mean": step / 4})
    code, out, _ = run("metrics", session.id)
    assert code == 0
    assert [line.split("\t")[:2] for line in out.splitlines()] == [
        ["1", "0.25"],
        ["2", "0.5"],
        ["3", "0.75"],
        ["4", "1"],
    ]
    _, out, _ = run("plot", session.id)
    lines = out.splitlines()
    assert lines[0] == "mean reward by step"
    assert lines[1].split() == ["1.000", "█"]
    assert lines[-2].split() == ["0.250", "▁███"]


@pytest.mark.system
def test_a_plot_becomes_a_picture_where_matplotlib_is_installed(
    server, session, run, monkeypatch, tmp_path
):
    numbers = dict.fromkeys(NUMBERS, 1)
    server.add_event("metric", {**numbers, "step": 1, "reward_mean": 0.5})
    path = tmp_path / "reward.png"
    with monkeypatch.context() as absent:
        absent.setattr("tinkerscript.curve.find_spec", lambda name: None)
        code, out, err = run("plot", session.id, "--png", str(path))
    assert (code, out) == (1, "")
    assert "pip install matplotlib" in err
    if find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed: the picture itself was not drawn")
    assert run("plot", session.id, "--png", str(path))[0] == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_chat_goes_on_with_what_was_said_and_trains_nothing(server, session, run, monkeypatch):
    said = iter(["hello", "and now?", ""])
    monkeypatch.setattr("builtins.input", lambda _: next(said))
    pieces = [{"choices": [{"delta": {"content": text}}]} for text in ("good ", "day")]
    stream = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"
    server.fail("POST .*/chat/completions", times=2, answer=Answer(200, stream.encode()))
    code, out, _ = run("chat", session.id)
    assert (code, out) == (0, "good day\ngood day\n")
    asked = [
        json.loads(request.body)["messages"] for request in server.seen("POST .*/chat/completions")
    ]
    assert [message["content"] for message in asked[1]] == ["hello", "good day", "and now?"]
    assert [(e.eval, e.state.value, e.reason) for e in server.episodes.values()] == [
        (True, "abandoned", "chat")
    ]
    assert server.sessions[session.id].state == "ready"


def test_chat_says_what_the_server_refuses(server, session, run, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda _: "x" * 10)
    refusal = json.dumps({"error": {"message": "the prompt is too long"}}).encode()
    server.fail("POST .*/chat/completions", answer=Answer(400, refusal))
    code, _, err = run("chat", session.id)
    assert (code, "the prompt is too long" in err) == (1, True)
    assert [e.state.value for e in server.episodes.values()] == ["abandoned"]


def test_wrong_address_is_reported_soon(run, monkeypatch):
    monkeypatch.setenv("TINKERSCRIPT_BASE_URL", "http://127.0.0.1:9")
    started = time.monotonic()
    code, _, err = run("sessions")
    assert (code, "Connection refused" in err) == (1, True)
    assert time.monotonic() - started < 25, "calls of a session are tried for 30 s and longer"


@pytest.mark.system
def test_the_package_is_the_command_too():
    command = [sys.executable, "-m", "tinkerscript", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == f"tinkerscript {VERSION}"


def test_session_prints_json(session, run):
    code, out, _ = run("session", session.id)
    assert code == 0
    assert json.loads(out)["id"] == session.id


def test_events_are_json_lines_and_follow_ends_with_the_session(server, session, run):
    server.add_event("log", {"line": "hello"})
    server.set_state(session.id, "stopped")
    code, out, _ = run("events", session.id, "--follow")
    assert code == 0
    assert [json.loads(line)["kind"] for line in out.splitlines()] == ["log", "state"]
    _, out, _ = run("events", session.id, "--kind", "log")
    assert [json.loads(line)["data"] for line in out.splitlines()] == [{"line": "hello"}]


def test_download_makes_a_model_while_the_session_runs(server, session, run, tmp_path):
    code, out, _ = run("download", session.id, str(tmp_path / "m"))
    assert (code, out.strip()) == (0, str(tmp_path / "m"))
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == server.files["model.safetensors"]


def test_download_after_the_end_brings_the_last_model(server, session, run, tmp_path):
    made = session.download_tuned_model(tmp_path / "first")
    session.close()
    code, _, _ = run("download", session.id, str(tmp_path / "m"))
    assert code == 0
    assert list(server.checkpoints) == [made.checkpoint_id]
    assert (tmp_path / "m" / "config.json").exists()


def test_a_checkpoint_that_is_named_is_downloaded_and_none_is_made(server, session, run, tmp_path):
    code, out, _ = run("download", session.id, str(tmp_path / "m"), "--checkpoint", "ckp_kept")
    assert (code, out.strip()) == (0, str(tmp_path / "m"))
    assert server.seen(r"GET .*/checkpoints/ckp_kept/download")
    assert server.checkpoints == {} and (tmp_path / "m" / "config.json").exists()


def test_episodes_are_downloaded_after_the_end(server, session, run, tmp_path):
    server.parts = [b"rows"]
    session.close()
    code, out, _ = run("episodes", session.id, str(tmp_path))
    assert (code, out.split()) == (0, [str(tmp_path / "part-000001.parquet")])
    assert (tmp_path / "part-000001.parquet").read_bytes() == b"rows"


def test_episodes_are_listed_with_what_was_refused_of_their_calls(server, session, run):
    session.begin_episode("a")
    session.end_episode(0.5)
    [view] = server.episodes.values()
    call = {"at": 1.0, "status": 400, "path": "POST /messages", "message": "tools[0]\nhas no name."}
    refused = RefusedCalls.model_validate({"count": 26, "last": [call]})
    server.episodes[view.episode_id] = view.model_copy(update={"refused": refused})
    code, out, _ = run("episodes", session.id, "--list")
    told = "26 calls were refused: tools[0] has no name. (400, POST /messages)"
    assert (code, out.strip().split("\t")[1:]) == (0, ["a", "accepted", "0.5", "1", "", told])


def test_stop_ends_the_session(server, session, run):
    assert run("stop", session.id)[:2] == (0, "stopped\n")
    assert server.sessions[session.id].state == "stopped"


def test_a_suspended_session_goes_on_under_another_number_of_ranks(server, session, run):
    assert run("suspend", session.id)[:2] == (0, "suspended\n")
    assert run("resume", session.id, "--trainer-ranks", "2")[:2] == (0, "queued\n")
    assert server.requests[-1].query == {"trainer_ranks": "2"}
    session.suspend()
    assert session.resume().state == "queued" and server.requests[-1].query == {}
    code, _, err = run("resume", session.id)
    assert (code, "the session is not suspended" in err) == (1, True)
    for wrong in (0, "two", 1.5):
        with pytest.raises(InvalidRequest, match="trainer_ranks"):
            session.resume(trainer_ranks=wrong)
    refused = error(400, "invalid_request", "trainer_ranks is 8, and a runtime here has 2 GPUs")
    server.fail("POST .*/resume", answer=refused)
    code, _, err = run("resume", session.id, "--trainer-ranks", "8")
    assert (code, "trainer_ranks is 8, and a runtime here has 2 GPUs" in err) == (1, True)


def test_error_is_one_line_on_stderr_with_the_hint(run, monkeypatch):
    code, out, err = run("session", "ses_nobodys")
    assert (code, out) == (1, "")
    assert err == "tinkerscript: no such session (request req_test)\n"
    monkeypatch.delenv("TINKERSCRIPT_API_KEY")
    code, _, err = run("sessions")
    assert code == 1
    assert "create_api_key" in err


@pytest.mark.system
def test_without_the_extra_it_names_what_to_install():
    code = "import sys; sys.modules['typer'] = None; import tinkerscript.cli"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "pip install '.[cli]' in a checkout" in done.stderr
