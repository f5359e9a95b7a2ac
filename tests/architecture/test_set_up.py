"""Set-up where something fails: it ends at once, leaves nothing running, and its cause is the last thing said."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console.catalogue.memory_estimate import ModelShape
from console.catalogue.memory_places import memory_predict, place_least_bytes
from support.waiting import wait_until
from tinkerscript.wire.config import SessionConfig

ROOT = Path(__file__).resolve().parents[2]
# In the place of the environment's interpreter: what pip was asked for decides what it does.
PYTHON = """#!/bin/sh
echo "$*" >>calls
case "$*" in
  *launchers.lock*) sleep 1; echo "no matching distribution for launchers"; exit 1 ;;
  *dev.lock*) echo begun >dev; exec sleep 97 ;;
  *torch-cpu.lock*) echo "no such build"; exit ${NO_CPU_BUILD:-0} ;;
esac
"""


# In the place of uv, where a test puts it there.
UV = """#!/bin/sh
echo "uv $* index $UV_DEFAULT_INDEX constraint $UV_CONSTRAINT" >>calls
exit ${UV_STATUS:-0}
"""
SHARE = "sdk/tinkerscript/processes/machine_share.py"
SETTINGS = ROOT / "requirements" / "uv_settings.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The set-up and what it reads, with an environment that is made already."""
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / SHARE).parent.mkdir(parents=True)
    shutil.copy(ROOT / SHARE, tmp_path / SHARE)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "stamps").mkdir()
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    version = "{}.{}".format(*sys.version_info)
    (tmp_path / ".venv" / "stamps" / "venv").write_text(f"{tmp_path} python {version}")
    return tmp_path


def set_up(checkout: Path, *steps: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "requirements/install.sh", *steps], cwd=checkout, capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHON": sys.executable} | environment,
    )  # fmt: skip


def working_in(folder: Path) -> list[Path]:
    """The processes whose working directory it is."""
    return [path for path in Path("/proc").glob("[0-9]*/cwd") if path.exists() and path.resolve() == folder]


def test_the_first_chain_that_fails_ends_the_others_and_its_cause_comes_last(checkout: Path) -> None:
    began = time.monotonic()
    made = set_up(checkout, "dev", "+", "launchers")
    assert made.returncode == 1 and time.monotonic() - began < 30
    assert (checkout / "dev").exists(), "the other chain was at work"
    last = made.stderr.strip().splitlines()[-2:]
    assert "set-up failed: clients of Docker and Kubernetes" in last[0] and ".venv/setup.log" in last[0]
    assert last[1] == "no matching distribution for launchers"
    wait_until(lambda: not working_in(checkout), 20)  # a child of a child ends on its own after the signal
    assert "no matching distribution" in (checkout / ".venv" / "setup.log").read_text()


def test_a_failure_is_forgotten_by_the_next_set_up(checkout: Path) -> None:
    assert set_up(checkout, "launchers").returncode == 1
    made = set_up(checkout, "dev", "+", "launchers")
    assert made.stderr.count("set-up failed: clients") == 2, "said when it happened and at the end, of this run alone"


def test_the_quickstart_needs_no_pages(checkout: Path) -> None:
    """Where they cannot be built, here because there is nothing to build them of, the other chains go on."""
    made = set_up(checkout, "swift", "+", "pages")
    assert made.returncode == 0, made.stderr
    assert "goes on without the console's pages" in made.stderr
    assert set_up(checkout, "frontend").returncode != 0


@pytest.mark.parametrize(("missing", "asked"), [("0", ["torch-cpu.lock"]), ("1", ["torch-cpu.lock", "torch.lock"])])
def test_torch_is_the_build_for_cpus_where_the_index_has_one(checkout: Path, missing: str, asked: list[str]) -> None:
    made = set_up(checkout, "runtime", NO_CPU_BUILD=missing)
    assert made.returncode == 0, made.stderr
    calls = [line for line in (checkout / "calls").read_text().splitlines() if "torch" in line]
    assert [wanted in call for wanted, call in zip(asked, calls, strict=True)] == [True] * len(asked)
    assert all("--require-hashes" in call and "--no-deps" in call for call in calls)
    assert "takes 3.6 GB of this disk" in made.stderr


def test_what_the_set_up_takes_is_said_before_it_begins(checkout: Path) -> None:
    """Of the quickstart and of the suite; and a disk with less room is refused."""
    suite = set_up(checkout, "runtime", "launchers", "dev")  # the second fails, as here it always does
    assert "takes 5.4 GB of this disk" in suite.stderr
    (checkout / ".venv" / "stamps" / "torch").unlink()
    df = checkout / "bin" / "df"
    df.parent.mkdir()
    df.write_text("#!/bin/sh\necho; echo / 9000 4600 4400 50% /\n")
    df.chmod(0o755)
    full = set_up(checkout, "runtime", PATH=f"{df.parent}:{os.environ['PATH']}")
    assert full.returncode == 1 and "4400 MB free, 4500 are needed" in full.stderr


def test_too_little_memory_for_a_session_is_said_before_anything_is_downloaded(checkout: Path) -> None:
    """By the arithmetic with which the server refuses it, of the quickstart's session."""
    shape = ModelShape(134_515_008, 576, 30, 49_152, 2 * 30 * 3 * 64, 9, 3, 1536)
    (machine,) = memory_predict(shape, SessionConfig(max_context_length=256)).places
    needed_mb = -(-place_least_bytes(machine) // 2**20)
    says = f"needs {needed_mb} MB of memory"
    (checkout / SHARE).write_text("memory_bytes = lambda: 2 << 30\n")
    little = set_up(checkout, "runtime")
    assert f"{says}, and 2048 are here" in little.stderr
    assert little.stderr.index(says) < little.stderr.index("torch (about")
    (checkout / ".venv" / "stamps" / "torch").unlink(missing_ok=True)
    (checkout / SHARE).write_text(f"memory_bytes = lambda: {needed_mb} << 20\n")
    assert says not in set_up(checkout, "runtime").stderr


def program_put(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_builds_for_gpus_come_into_an_environment_of_their_own_and_only_where_there_is_a_gpu(checkout: Path) -> None:
    program_put(checkout / ".venv" / "bin" / "uv", UV)
    program_put(checkout / "bin" / "nvidia-smi", "#!/bin/sh\nexit 9\n")
    with_path = {"PATH": f"{checkout / 'bin'}:{os.environ['PATH']}"}
    none = set_up(checkout, "cuda", **with_path)
    assert none.returncode == 1 and "nvidia-smi lists no GPU" in none.stderr
    program_put(checkout / "bin" / "nvidia-smi", "#!/bin/sh\necho GPU 0: of a test\n")
    program_put(checkout / "bin" / "df", "#!/bin/sh\necho; echo / 90000 75000 15000 50% /\n")
    full = set_up(checkout, "cuda", **with_path)
    assert full.returncode == 1 and "15000 MB free, 16000 are needed" in full.stderr
    program_put(checkout / "bin" / "df", "#!/bin/sh\necho; echo / 90000 5000 85000 50% /\n")
    assert "-cuda" not in (checkout / "calls").read_text(), "nothing was downloaded"
    packages = checkout / ".venv-cuda-trl" / "lib" / "python3.11" / "site-packages"  # as the interpreter would make it
    packages.mkdir(parents=True)
    made = set_up(checkout, "cuda", **with_path)
    assert made.returncode == 0, made.stderr
    calls = [line for line in (checkout / "calls").read_text().splitlines() if "-cuda" in line and ".lock" in line]
    locks = [re.findall(r"requirements/(\S+)\.lock", line)[0] for line in calls]
    assert locks == ["runtime-cuda", "server", "gateway", "launchers", "dev", "runtime-source", "trl"]
    assert all("--require-hashes --no-deps" in line for line in calls)
    assert (packages / "runtime.pth").read_text() == "../../../../.venv-cuda/lib/python3.11/site-packages\n"


@pytest.mark.parametrize(("status", "by"), [("0", ["uv"]), ("1", ["uv", "-m pip"])])
def test_packages_come_with_uv_and_with_pip_where_uv_fails(checkout: Path, status: str, by: list[str]) -> None:
    uv = checkout / ".venv" / "bin" / "uv"
    uv.write_text(UV)
    uv.chmod(0o755)
    made = set_up(checkout, "swift", UV_STATUS=status, UV_DEFAULT_INDEX="https://index", UV_CONSTRAINT="/site")
    assert made.returncode == 0 and "could not be installed" not in made.stderr, made.stderr
    calls = [line for line in (checkout / "calls").read_text().splitlines() if "swift.lock" in line]
    assert [call.startswith(who) for call, who in zip(calls, by, strict=True)] == [True] * len(by), calls
    assert calls[0].endswith(" index https://index constraint "), "uv takes no constraints beside hashes"
    assert all("--require-hashes" in call and "-r requirements/swift.lock" in call for call in calls)
    said = (checkout / ".venv" / "setup.log").read_text()
    assert ("uv could not: pip goes on" in said) == (status == "1")
    assert not (checkout / ".venv" / "uv").exists(), "neither cache nor settings are left"


def test_two_set_ups_of_one_folder_go_one_after_the_other(checkout: Path) -> None:
    """They share the environments, and the cache and settings of uv, which the first to end removes."""
    uv = checkout / ".venv" / "bin" / "uv"
    uv.write_text("#!/bin/sh\nmkdir inside || echo both >>calls\nsleep 1\nrmdir inside\necho uv >>calls\n")
    uv.chmod(0o755)
    started = [
        subprocess.Popen(
            ["bash", "requirements/install.sh", step], cwd=checkout, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHON": sys.executable},
        )
        for step in ("swift", "tinker")
    ]  # fmt: skip
    said = [each.communicate(timeout=60)[1] for each in started]
    assert [each.returncode for each in started] == [0, 0], said
    calls = (checkout / "calls").read_text().splitlines()
    assert calls.count("uv") == 2 and "both" not in calls
    assert sum("another one of this folder is at work" in each for each in said) == 1


def uv_settings(folder: Path, options: str) -> subprocess.CompletedProcess[str]:
    """What it prints where pip's only configuration is ``options``."""
    (folder / "pip.conf").write_text(f"[global]\n{options}")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "SSL_"))}
    return subprocess.run(
        [sys.executable, SETTINGS], capture_output=True, text=True, timeout=60,
        env=kept | {"PIP_CONFIG_FILE": str(folder / "pip.conf"), "PIP_INDEX_URL": "https://of/environment"},
    )  # fmt: skip


def test_uv_is_told_what_pip_is_set_to_and_left_out_where_it_has_no_word_for_it(tmp_path: Path) -> None:
    told = uv_settings(tmp_path, "index-url = https://of/file\nfind-links = /one\n /two\nno-input = true\ncert = a b\n")
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert {"export UV_DEFAULT_INDEX=https://of/environment", "export UV_FIND_LINKS=/one,/two"} <= set(lines), lines
    assert "export UV_INDEX_STRATEGY=unsafe-best-match" in lines and "export SSL_CERT_FILE='a b'" in lines
    told = uv_settings(tmp_path, "no-index = true\n")
    assert told.returncode == 1 and "no-index" in told.stderr and told.stdout == ""


def test_every_step_that_the_makefile_asks_for_is_one_of_set_up() -> None:
    asked = set(" ".join(re.findall(r"^\t@\$\(SETUP\) (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)).split())
    script = (ROOT / "requirements" / "install.sh").read_text()
    (known,) = re.findall(r"^ *([a-z |]+)\) \"install_\$wanted\" ;;$", script, re.MULTILINE)
    assert asked - {"+"} <= set(known.split(" | ")), "make would end with: unknown step"
    assert all(f"install_{step}() {{" in script for step in known.split(" | "))
