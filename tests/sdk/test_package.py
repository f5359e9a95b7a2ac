"""What a user installs and imports: the SDK alone."""

import builtins
import email
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from sdk.http_parts import error

import tinkerscript
from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.episodes import EpisodesRescore
from tinkerscript.wire.events import Evaluation
from tinkerscript.wire.training.changes import ConfigUpdate

ROOT = Path(__file__).parents[2]


@pytest.mark.smoke
def test_importing_the_sdk_imports_nothing_heavy():
    code = (
        "import sys, httpx, pydantic\n"
        "before = {name.partition('.')[0] for name in sys.modules}\n"  # theirs too: rich, certifi
        "import tinkerscript\n"
        "now = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(now - before - sys.stdlib_module_names))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "['tinkerscript']\n", "beside them the standard library alone"


@pytest.mark.system
def test_a_server_that_needs_the_wire_alone_does_not_import_the_client():
    code = "import sys, tinkerscript.wire.errors; print(sorted({'httpx', 'tinkerscript.client'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_every_public_name_exists_and_no_other():
    assert sorted(tinkerscript.__all__) == tinkerscript.__all__ == dir(tinkerscript)
    assert all(hasattr(tinkerscript, name) for name in tinkerscript.__all__)
    with pytest.raises(AttributeError, match="'tinkerscript' has no attribute 'Sesion'"):
        tinkerscript.Sesion  # noqa: B018


def test_single_requests_of_a_session_are_methods_of_it(server, session):
    """Those that the reference lists beside the calls that are made of them."""
    made = session.checkpoint_request(CheckpointKind.STATE)
    assert session.checkpoint(made.id).id == made.id
    measured = Evaluation(name="held-out", step=3, reward_mean=0.5, episodes=2)
    assert session.evaluation_record(measured).data["name"] == "held-out"
    episode = session.begin_episode()
    assert session.episode_heartbeat(episode.id, retry_timeout_s=0.0).episode_id == episode.id
    assert session.call_page(episode.id, None).items == []
    over = error(409, "conflict", "it is over")
    server.fail("POST .*/rescore", answer=over)
    with pytest.raises(tinkerscript.Conflict, match="it is over"):
        session.episodes_rescore(EpisodesRescore(rewards={episode.id: 1.0}))
    server.fail("PATCH .*/config", answer=over)
    with pytest.raises(tinkerscript.Conflict, match="it is over"):
        session.config_update(ConfigUpdate(kl_coef=0.1))


def test_what_docstrings_call_is_there():
    sources = [path.read_text() for path in (ROOT / "sdk" / "tinkerscript").rglob("*.py")]
    defined = {
        name
        for source in sources
        for name in re.findall(r"(?:def (?=\w+\()|\b(?=\w+: ))(\w+)", source)
    }
    docstrings = [
        text for source in sources for text in re.findall(r'"""(.*?)"""', source, re.DOTALL)
    ]
    called = {name for text in docstrings for name in re.findall(r"(?<![\w.])([a-z]\w+)\(\)", text)}
    assert called and called - defined - set(dir(builtins)) == set()


@pytest.mark.system
def test_wheel_holds_the_sdk_alone_and_needs_httpx_and_pydantic_only(tmp_path):
    command = [
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--quiet",
        "-w",
        tmp_path,
        ROOT,
    ]
    subprocess.run(
        [sys.executable, "-m", *map(str, command)], check=True, timeout=120, capture_output=True
    )
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [about] = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(about))
    assert {name.split("/")[0].split("-")[0] for name in names} == {"tinkerscript"}
    assert "tinkerscript/wire/episodes.py" in names
    assert not [name for name in names if "examples" in name or "tests" in name]
    required = [r for r in metadata.get_all("Requires-Dist") if "extra ==" not in r]
    assert sorted(r.split("<")[0].split(">")[0] for r in required) == ["httpx", "pydantic"]
