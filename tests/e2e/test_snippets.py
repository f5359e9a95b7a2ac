"""Every program that a page, the README or the manual shows runs as it is shown, and ends what it
starts.

Here with fake engines; nightly_snippets.py has the same tests with real ones.

A page that shows another program names it in ``frontend/scripts/snippets.mjs``. A block of the
manual that is no whole program stands in ``documented.FRAGMENTS``, with what it is a part of.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from e2e.loop_server import BASE_MODEL, ROOT, LoopServer, until

import tinkerscript
from support.documented import blocks, key_of
from support.tinker_exit import ended_well
from tinkerscript.wire.version import VERSION

EQUAL = "all rewards are equal"
ADVICE = " in this session: "  # what the server finds wrong with how a newcomer trains
# of a program with a real engine; the limit of the test is the shorter one with a fake
LIMIT_S = 1500
# of a program whose rewards may all be equal by chance, one time in sixty: then it says so
TRIES = 3
# what `pip install` puts beside the interpreter
CLIENT = f'tinkerscript() {{ {sys.executable} -m tinkerscript "$@"; }};'
NEEDS = [
    pytest.mark.skipif(
        not (ROOT / "frontend/node_modules").exists(), reason="the front end is not installed"
    ),
]
pytestmark = [pytest.mark.timeout(300), *NEEDS]


def shown(server: LoopServer, **values: Any) -> dict[str, str]:
    """What the pages show, by name, with this server's address and key."""
    given = {
        "origin": server.url,
        "secret": server.api_key,
        "version": VERSION,
        "baseModel": BASE_MODEL,
    } | values
    made = subprocess.run(
        ["node", "frontend/scripts/snippets.mjs"],
        cwd=ROOT,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout.splitlines()[-1])


def run(program: str, folder: Path, *, variables: str = "", **more: str) -> str:
    """A program in an empty folder, after a shell has read ``variables``; Python, unless it is a
    shell's own.
    """
    clean = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    name = "program.sh" if program.startswith("#!") else "program.py"
    (folder / name).write_text(program)
    command = f"bash {name}" if name.endswith("sh") else f"{sys.executable} {name}"
    done = subprocess.run(
        ["bash", "-ec", f"{variables}\nexec {command}"],
        cwd=folder,
        env=clean | {"TINKER_TELEMETRY": "0"} | more,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    said = done.stdout + done.stderr
    print(said)
    assert ended_well(done.returncode, done.stderr) or EQUAL in said, (
        f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    )
    assert ADVICE not in done.stderr, done.stderr[-6000:]
    return said if EQUAL in said else done.stdout


def without_install(shell: str) -> str:
    """The variables of a shell's block alone: what it installs is there."""
    return "\n".join(line for line in shell.splitlines() if line.startswith("export "))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A path with the client alone, for an environment that has nothing of ours."""
    folder = tmp_path_factory.mktemp("client")
    shutil.copytree(Path(tinkerscript.__file__).parent, folder / "tinkerscript")
    return str(folder)


@pytest.fixture(autouse=True)
def nothing_is_left(loop_server: LoopServer) -> Any:
    """No session outlives the program that started it."""
    before = running(loop_server)
    yield
    until(lambda: running(loop_server) <= before, "every session has ended", 60)


def running(server: LoopServer) -> set[str]:
    ended = {"stopped", "stopping", "failed", "cancelled"}
    return {
        each["id"] for each in server.get("/v1/sessions")["items"] if each["state"] not in ended
    }


def steps_of_last(server: LoopServer) -> int:
    return server.get("/v1/sessions")["items"][0]["policy_version"]


@pytest.mark.parametrize("name", [pytest.param("openai", marks=pytest.mark.smoke), "curl"])
def test_a_program_of_a_new_key_trains_a_step_and_ends_its_session(
    loop_server: LoopServer, tmp_path: Path, name: str
) -> None:
    snippets = shown(loop_server)
    for _ in range(TRIES):
        said = run(snippets[name], tmp_path, variables=snippets["server_variables"])
        if EQUAL not in said:
            break
    assert said.splitlines()[-1] == "steps trained: 1" and steps_of_last(loop_server) == 1


def test_the_tinker_program_of_a_new_key_trains_with_the_key_as_it_is_shown(
    loop_server: LoopServer, tmp_path: Path
) -> None:
    snippets = shown(loop_server)
    assert loop_server.api_key.startswith("tml-"), "as every key of this server"
    said = run(
        snippets["tinker"], tmp_path, variables=without_install(snippets["tinker_variables"])
    )
    assert said.count("loss") == 3 and said.splitlines()[-1].startswith("tinker://")


def test_the_loop_of_a_new_key_installs_the_client_of_this_server_and_trains(
    loop_server: LoopServer, tmp_path: Path
) -> None:
    snippets = shown(loop_server)
    # and what the environment has already: nothing is asked of an index
    target = tmp_path / "installed"
    pip = f'pip() {{ {sys.executable} -m pip -q "$@" --no-deps --no-index --target {target}; }}'
    said = run(
        snippets["loop_new"],
        tmp_path,
        variables=f"{pip}\n{snippets['loop_shell']}",
        PYTHONPATH=str(target),
    )
    assert (
        said.count("-run:") == 4 * 8 * 10 and (tmp_path / "tuned_model" / "tokenizer.json").exists()
    )
    assert steps_of_last(loop_server) >= 8


def test_the_loop_of_a_session_that_waits_trains_it(
    loop_server: LoopServer, tmp_path: Path, ours: str
) -> None:
    # With two attempts in a group three of four groups are level by chance, which gets advice.
    session = loop_server.session(grpo_n=4, tasks_per_batch=4)
    snippets = shown(loop_server, session=session.id, grpoN=4)
    session.close(stop=False)
    assert run(
        snippets["playground_policy"],
        tmp_path,
        variables=snippets["server_variables"],
        PYTHONPATH=ours,
    ).strip()
    run(snippets["loop_attach"], tmp_path, variables=snippets["server_variables"], PYTHONPATH=ours)
    path = f"/v1/sessions/{session.id}"
    assert loop_server.get(path)["policy_version"] >= 1
    (model,) = [
        each for each in loop_server.get(f"{path}/checkpoints")["items"] if each["kind"] == "model"
    ]
    download = loop_server.get(f"{path}/checkpoints/{model['id']}/download")
    snippets = shown(loop_server, session=session.id, download=download)
    said = run(snippets["download_script"], tmp_path)
    assert said.count(": OK") == len(download["files"]) > 1
    run(
        f"#!/bin/bash\n{CLIENT} {snippets['download_command']}",
        tmp_path,
        variables=snippets["server_variables"],
        PYTHONPATH=ours,
    )
    brought = {path.name for path in (tmp_path / model["id"]).iterdir()}
    assert {file["path"] for file in download["files"]} <= brought


def test_the_program_of_a_runs_options_starts_a_session_with_them_and_ends_it(
    loop_server: LoopServer, tmp_path: Path, ours: str
) -> None:
    snippets = shown(loop_server)
    said = run(
        snippets["same_options"],
        tmp_path,
        variables=snippets["server_variables"],
        PYTHONPATH=ours,
    )
    session = loop_server.get(f"/v1/sessions/{said.strip()}")
    assert session["state"] in ("stopping", "stopped") and session["base_model"] == BASE_MODEL
    asked = snippets["asked_options"]
    assert asked and asked.items() <= session["config"].items()


def test_the_calls_of_a_served_model_and_its_checkpoints_script_run(
    loop_server: LoopServer, tmp_path: Path, ours: str
) -> None:
    with tinkerscript.serve(
        BASE_MODEL, base_url=loop_server.url, api_key=loop_server.api_key
    ) as served:
        values = {
            "baseUrl": served.base_url,
            "key": served.api_key,
            "model": served.model,
            "id": served.id,
        }
        snippets = shown(loop_server, served=values)
        assert run(snippets["call_python"], tmp_path, variables=snippets["call_key"]).strip()
        curl = run(
            f"#!/bin/bash\n{snippets['call_curl']}", tmp_path, variables=snippets["call_key"]
        )
        assert json.loads(curl)["choices"][0]["message"]["content"]
        ours_alone = snippets["server_variables"]
        assert run(snippets["playground_python"], tmp_path, variables=ours_alone).strip()
        curl = run(f"#!/bin/bash\n{snippets['playground_curl']}", tmp_path, variables=ours_alone)
        assert json.loads(curl)["choices"][0]["message"]["content"]
        # An endpoint elsewhere is one by its address, name and key alone, which this has too.
        of_endpoint = f"export ENDPOINT_API_KEY={served.api_key}"
        assert run(snippets["outside_python"], tmp_path, variables=of_endpoint).strip()
        curl = run(f"#!/bin/bash\n{snippets['outside_curl']}", tmp_path, variables=of_endpoint)
        assert json.loads(curl)["choices"][0]["message"]["content"]


def runnable() -> Mapping[str, str]:
    """The whole programs of the README and the manual."""
    return {key_of(block): block.code for block in blocks() if block.reason is None}


@pytest.mark.parametrize("key", runnable())
def test_a_program_of_the_readme_and_the_manual_runs_as_it_is_printed(
    loop_server: LoopServer, tmp_path: Path, ours: str, key: str
) -> None:
    code = runnable()[key]
    if "import tinker\n" in code:
        variables = without_install(shown(loop_server)["tinker_variables"])
        assert run(code, tmp_path, variables=variables).strip()
        return
    variables = shown(loop_server)["server_variables"]
    said = run(code, tmp_path, variables=variables, PYTHONPATH=ours)
    assert (tmp_path / "tuned_model" / "tokenizer.json").exists() and "tuned_model" in said
    assert steps_of_last(loop_server) >= 1
