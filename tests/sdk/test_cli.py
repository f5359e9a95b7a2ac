"""The command line uses the same REST and says errors in one line."""

import json
import subprocess
import sys

import pytest
from sdk.rest_server import API_KEY

from tinkerscript import checkpoints


@pytest.fixture(autouse=True)
def settings(server, monkeypatch):
    monkeypatch.setenv("TINKERSCRIPT_BASE_URL", server.url)
    monkeypatch.setenv("TINKERSCRIPT_API_KEY", API_KEY)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(checkpoints, "POLL_S", 0.01)


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


def test_episodes_are_downloaded_after_the_end(server, session, run, tmp_path):
    server.parts = [b"rows"]
    session.close()
    code, out, _ = run("episodes", session.id, str(tmp_path))
    assert (code, out.split()) == (0, [str(tmp_path / "part-000001.parquet")])
    assert (tmp_path / "part-000001.parquet").read_bytes() == b"rows"


def test_stop_ends_the_session(server, session, run):
    assert run("stop", session.id)[:2] == (0, "stopped\n")
    assert server.sessions[session.id].state == "stopped"


def test_error_is_one_line_on_stderr_with_the_hint(run, monkeypatch):
    code, out, err = run("session", "ses_nobodys")
    assert (code, out) == (1, "")
    assert err == "tinkerscript: no such session (request req_test)\n"
    monkeypatch.delenv("TINKERSCRIPT_API_KEY")
    code, _, err = run("sessions")
    assert code == 1
    assert "create_api_key" in err


def test_without_the_extra_it_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; import tinkerscript.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "pip install 'tinkerscript[cli]'" in done.stderr
