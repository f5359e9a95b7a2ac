"""The unmodified ``tinker`` client against a whole server: control plane, relay, journal and store
are real.
"""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2e.loop_server import BASE_MODEL, ROOT, LoopServer, until

from support.hub_server import TOKEN, running_hub
from support.tinker_exit import ABORT_AT_EXIT, ended_well

# by the fake trainer
EXPORTED = ("adapter_config.json", "adapter_model.safetensors", "merged/config.json")


def environment_of(server: LoopServer) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    return clean | {
        "TINKER_BASE_URL": server.url,
        "TINKER_API_KEY": server.api_key,
        "TINKER_TELEMETRY": "0",
    }


def run(server: LoopServer, *arguments: str, timeout_s: float = 240.0, **variables: str) -> str:
    """A program of the client; what it prints."""
    environment = environment_of(server) | variables
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd="/",
    )
    assert ended_well(done.returncode, done.stderr), done.stderr[-6000:]
    return done.stdout


@pytest.fixture(scope="module")
def said(loop_server: LoopServer) -> dict[str, Any]:
    """What the program said, which has run to its end."""
    program = str(Path(__file__).with_name("tinker_program.py"))
    return json.loads(run(loop_server, program, BASE_MODEL).splitlines()[-1])


@pytest.mark.smoke
@pytest.mark.timeout(300)
def test_a_tinker_program_runs_as_it_is(loop_server: LoopServer, said: dict[str, Any]) -> None:
    model_id = said["info"][0]
    assert BASE_MODEL in said["models"]
    assert said["info"][1:] == [True, 8, BASE_MODEL]
    assert said["step"] == {"grad_norm": 1.0} and len(said["losses"]) == 3
    assert said["forward"] == [3] and said["prompt_logprobs"] == 4
    assert said["at_places"] == [True, [3, 3], [3, 3], [3, 3]]
    assert (
        len(
            {
                str(each)
                for name in ("samples", "base_samples", "named_samples")
                for each in said[name]
            }
        )
        == 6
    )
    assert said["mistake"][0] == "user" and "no such loss" in said["mistake"][1]
    assert said["too_large"][0] == "user" and "more than 16777216 bytes" in said["too_large"][1]
    assert said["paths"] == [
        f"tinker://{model_id}/weights/first",
        f"tinker://{model_id}/sampler_weights/first",
    ]
    assert said["again"] == model_id.replace(":0", ":1") and said["same"]
    assert [run for run in said["runs"] if run in (model_id, said["again"])] == [
        model_id,
        said["again"],
    ]
    assert said["checkpoints"] == ["sampler_weights/first", "weights/first"]
    (session,) = [
        each for each in loop_server.get("/v1/sessions")["items"] if each["name"] == "drive"
    ]
    assert (session["kind"], session["base_model"]) == ("tinker", BASE_MODEL)
    until(
        lambda: loop_server.get(f"/v1/sessions/{session['id']}")["state"] == "stopped",
        "its client finished it",
        60,
    )


@pytest.mark.timeout(300)
def test_a_program_that_trains_all_weights_runs_as_it_is(loop_server: LoopServer) -> None:
    program = str(Path(__file__).with_name("tinker_program.py"))
    said = json.loads(run(loop_server, program, BASE_MODEL, "0").splitlines()[-1])
    assert said["info"][1:] == [False, None, BASE_MODEL]
    assert (
        len(
            {
                str(each)
                for name in ("samples", "base_samples", "named_samples")
                for each in said[name]
            }
        )
        == 6
    )
    assert said["same"] and said["again"].split(":")[0] != said["info"][0].split(":")[0]


@pytest.mark.timeout(300)
def test_a_trainer_and_an_evaluator_share_the_one_runtime_that_there_is_room_for(
    loop_server: LoopServer,
) -> None:
    """The evaluator begins and ends while the trainer has the runtime, which then trains on."""
    program = str(Path(__file__).with_name("tinker_pair.py"))
    trainer = subprocess.Popen(
        [sys.executable, program, BASE_MODEL, "trainer"], env=environment_of(loop_server), cwd="/",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert trainer.stdin is not None and trainer.stdout is not None
        first = json.loads(trainer.stdout.readline())
        (session,) = live_sessions(loop_server)
        lines = run(loop_server, program, BASE_MODEL, "evaluator", first["path"]).splitlines()
        evaluator = json.loads(lines[-1])
        assert live_sessions(loop_server) == [session], "the evaluator's end ends no runtime"
        shared = loop_server.get(f"/v1/sessions/{session}/tinker")
        assert [client["finished"] for client in shared["clients"]] == [None, "success"]
        assert {model["id"] for model in shared["models"]} == {first["model"], evaluator["model"]}
        saved, base, own, again = evaluator["sampled"]
        assert saved == again and saved != base != own, "each seed was taken as it is"
        trainer.stdin.write("\n")
        trainer.stdin.flush()
        assert json.loads(trainer.stdout.readline())["norm"] == 1.0
        assert trainer.wait(60) in (0, ABORT_AT_EXIT)
    finally:
        trainer.kill()
        trainer.communicate()
    until(lambda: not live_sessions(loop_server), "its last client finished it", 60)


def live_sessions(server: LoopServer) -> list[str]:
    items = server.get("/v1/sessions")["items"]
    return [each["id"] for each in items if each["kind"] == "tinker" and each["state"] == "ready"]


@pytest.mark.timeout(300)
def test_the_benchmark_has_all_its_rows(loop_server: LoopServer) -> None:
    program = str(ROOT / "tests" / "benchmarks" / "tinker.py")
    printed = run(loop_server, program, BASE_MODEL, "--small", "--rounds", "1").splitlines()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in printed if line.startswith("| ")]
    assert rows == [
        "what", "---", "base: sample 2 requests x 2 x 4 tokens", "forward_backward 2x8",
        "forward_backward 2x8 after a prompt of 8", "optim_step alone", "forward_backward 2x8 and optim_step",
        "snapshot to first token", "sample 2 requests x 2 x 4 tokens", "sample 8 requests x 4 tokens",
        "2 adapters: forward_backward 2x8 and optim_step of each", "2 adapters: sample 2 requests x 4 tokens of each",
    ]  # fmt: skip


def all_ended(server: LoopServer) -> bool:
    return all(
        each["state"] == "stopped"
        for each in server.get("/v1/sessions")["items"]
        if each["name"] == "drive"
    )


@pytest.mark.timeout(300)
def test_the_command_line_lists_changes_downloads_and_deletes(
    loop_server: LoopServer, said: dict[str, Any], tmp_path: Path
) -> None:
    model_id, (state, sampler) = said["info"][0], said["paths"]
    trace, today = tmp_path / "trace.json", datetime.now(UTC).date()
    until(lambda: all_ended(loop_server), "the runtimes told of their work", 60)
    assert BASE_MODEL in run(loop_server, "-m", "tinker.cli", "model", "list"), (
        "a command in a process of its own"
    )
    commands = {
        "runs": ["run", "list"],
        "run": ["run", "info", model_id],
        "states": ["checkpoint", "list", "--run-id", model_id],
        "all": ["checkpoint", "list"],
        "publish": ["checkpoint", "publish", state],
        "published": ["checkpoint", "info", state],
        "unpublish": ["checkpoint", "unpublish", state],
        "unpublished": ["checkpoint", "info", state],
        "ttl": ["checkpoint", "set-ttl", state, "--ttl", "7200"],
        "for ever": ["checkpoint", "set-ttl", state, "--remove"],
        "download": ["checkpoint", "download", state, "--output", str(tmp_path)],
        "trace": ["session", "export-trace", model_id.partition(":")[0], "--output", str(trace)],
        "usage": ["billing", "usage", str(today), str(today + timedelta(days=1))],
        "storage": ["billing", "checkpoint-storage"],
        "whoami": ["auth", "whoami"],
        "status": ["auth", "status"],
        "version": ["version"],
        "delete": ["checkpoint", "delete", sampler, "-y"],
        "left": ["checkpoint", "list"],
    }
    program, absent = (
        str(Path(__file__).with_name("tinker_commands.py")),
        ["checkpoint", "info", f"{state}-not"],
    )
    *ended, failed = json.loads(
        run(loop_server, program, json.dumps([*commands.values(), absent])).splitlines()[-1]
    )
    assert [each for each in ended if each[0] != 0] == []
    assert failed == [1, "", f"Error: Checkpoint not found: {state}-not\n"]
    answers = dict(zip(commands, (said for _, said, _ in ended), strict=True))
    assert model_id in answers["runs"] and model_id in answers["run"]
    assert state in answers["states"] and sampler in answers["all"]
    assert (
        json.loads(answers["published"])["public"]
        and not json.loads(answers["unpublished"])["public"]
    )
    files = [
        path.relative_to(tmp_path)
        for path in tmp_path.rglob("*")
        if path.is_file() and path != trace
    ]
    assert {Path(*file.parts[1:]) for file in files} == {Path(name) for name in EXPORTED}
    assert {event["ph"] for event in json.loads(trace.read_text())["traceEvents"]} == {
        "M",
        "i",
        "X",
    }
    used = {event["event_info"]["type"] for event in json.loads(answers["usage"])["data"]}
    assert used == {"training", "sampling_prefill", "sampling_sample", "checkpoint"}
    assert BASE_MODEL in answers["usage"] and "alice" in answers["storage"]
    assert "tml:user:" in answers["whoami"] and answers["status"] and "0.38.0" in answers["version"]
    assert sampler not in answers["left"]


def test_the_command_line_pushes_an_adapter_to_a_hub(
    loop_server: LoopServer, said: dict[str, Any], tmp_path: Path
) -> None:
    with running_hub() as hub:
        own = {
            "HF_ENDPOINT": hub.address,
            "HF_TOKEN": TOKEN,
            "HF_HOME": str(tmp_path),
            "HF_HUB_DISABLE_XET": "1",
        }
        command = ["checkpoint", "push-hf", said["paths"][0], "--repo", "my-team/tuned"]
        run(loop_server, "-m", "tinker.cli", *command, **own)
        assert set(hub.repositories["my-team/tuned"]) == {*EXPORTED, "README.md"}
        assert hub.private == {"my-team/tuned": True}


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_each_command_ends_with_its_exit_status(
    loop_server: LoopServer, said: dict[str, Any], tmp_path: Path
) -> None:
    """Each in a process of its own, one of every group of commands, and three that fail."""
    model_id, (state, _) = said["info"][0], said["paths"]
    commands = [
        ["run", "list"], ["run", "info", model_id], ["checkpoint", "list", "--run-id", model_id],
        ["checkpoint", "publish", state], ["checkpoint", "unpublish", state],
        ["checkpoint", "download", state, "--output", str(tmp_path)],
        ["session", "export-trace", model_id.partition(":")[0], "--output", str(tmp_path / "trace.json")],
        ["billing", "checkpoint-storage"], ["auth", "whoami"], ["version"],
    ]  # fmt: skip
    for command in commands:
        run(loop_server, "-m", "tinker.cli", *command)  # it asserts how the process ended
    absent = ["checkpoint", "info", f"{state}-not"]
    for command, status in ((absent, 1), (["run", "info", "x:train:0"], 1), (["no"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "tinker.cli", *command],
            env=environment_of(loop_server), capture_output=True, text=True, timeout=240, cwd="/",
        )  # fmt: skip
        assert (done.returncode, done.stderr[:5]) == (
            status,
            "Error" if status == 1 else "Usage",
        ), done.stderr


def weights_of(server: LoopServer, model_id: str) -> str:
    """What the fake trainer's weights are in the state that the program saved: a digest of all that
    it trained.
    """
    for session in server.get("/v1/sessions")["items"]:
        for checkpoint in server.get(f"/v1/sessions/{session['id']}/checkpoints")["items"]:
            where = f"/v1/sessions/{session['id']}/checkpoints/{checkpoint['id']}/download"
            (file,) = server.get(where)["files"]
            state = json.loads(httpx.get(file["url"], timeout=30).raise_for_status().text)
            if checkpoint["kind"] == "state" and state["model"] == model_id:
                return state["weights"]
    raise AssertionError(f"no state of {model_id}")


def steps(server: LoopServer, kill_at: set[str]) -> str:
    """Run the program, SIGKILL its runtime after the named lines; the weights that it ends with."""
    program = [sys.executable, str(Path(__file__).with_name("tinker_steps.py")), BASE_MODEL]
    with subprocess.Popen(
        program, env=environment_of(server), stdout=subprocess.PIPE, text=True, cwd="/"
    ) as running:
        try:
            for line in running.stdout:
                last = line.strip()
                if last in kill_at:
                    until(lambda: runtime_killed(server), "a runtime of the session was killed")
            status = running.wait(120)
        finally:
            running.kill()
    # the model's id, after all of its work
    assert ":train:" in last, f"it ended with {status} after: {last}"
    assert status in (0, ABORT_AT_EXIT)
    return weights_of(server, last)


def runtime_killed(server: LoopServer) -> bool:
    """Kill the runtime of the one Tinker session; False while it has none that lives."""
    items = server.get("/v1/sessions")["items"]
    live = [each["id"] for each in items if each["kind"] == "tinker" and each["state"] == "ready"]
    return len(live) == 1 and server.runtime_kill(live[0])


@pytest.mark.timeout(300)
def test_a_program_whose_runtime_is_killed_ends_with_the_same_weights(
    loop_server: LoopServer,
) -> None:
    assert steps(loop_server, {"step 3", "step 8"}) == steps(loop_server, set())
