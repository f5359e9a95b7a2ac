"""Set-up where something fails: it ends at once, leaves nothing running, and its cause is the last
thing said.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from console.catalogue.memory_estimate import ModelShape
from console.catalogue.memory_places import memory_predict, place_least_bytes
from support.another_user import NOBODY, require_root
from support.waiting import wait_until
from tinkerscript.wire.config import SessionConfig

pytestmark = [pytest.mark.system, pytest.mark.smoke]

ROOT = Path(__file__).resolve().parents[2]
# In the place of the environment's interpreter: what pip was asked for decides what it does.
VERSION = "{}.{}".format(*sys.version_info)
PYTHON = f"""#!/bin/sh
case "$*" in
  *version_info*) echo {VERSION}; exit ;;
  *memory_bytes*) exec {sys.executable} "$@" ;;
esac
echo "$*" >>calls
case "$*" in
  *bundled_model*) sleep 1; echo "no space for the model"; exit ${{NO_MODEL:-0}} ;;
esac
"""
# In the place of uv; where it is told to, it hangs, or has no build of torch for CPUs.
UV = """#!/bin/sh
case "$*" in *--dry-run*) exit ${NO_CPU_BUILD:-0} ;; esac
echo "uv $* index $UV_DEFAULT_INDEX $DS_BUILD_OPS$DS_IGNORE_CUDA_DETECTION" >>calls
case "$*" in
  *tests.txt*) echo begun >begun; [ -z "$HANGS" ] || exec sleep 97 ;;
  *uv/cpu.txt*) cp .venv/uv/cpu.txt asked ;;
esac
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
    program_put(tmp_path / ".venv" / "bin" / "uv", UV)
    (tmp_path / ".venv" / "lib" / f"python{VERSION}").mkdir(parents=True)
    (tmp_path / ".venv" / "stamps" / "venv").write_text(f"{tmp_path} python {VERSION}")
    return tmp_path


def set_up(checkout: Path, *steps: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "requirements/install.sh", *steps], cwd=checkout, capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""} | environment,
    )  # fmt: skip


def working_in(folder: Path) -> list[Path]:
    """The processes whose working directory it is."""
    return [
        path
        for path in Path("/proc").glob("[0-9]*/cwd")
        if path.exists() and path.resolve() == folder
    ]


def test_the_first_chain_that_fails_ends_the_others_and_its_cause_comes_last(
    checkout: Path,
) -> None:
    began = time.monotonic()
    made = set_up(checkout, "tests", "+", "model", HANGS="1", NO_MODEL="1")
    assert made.returncode == 1 and time.monotonic() - began < 30
    assert (checkout / "begun").exists(), "the other chain was at work"
    last = made.stderr.strip().splitlines()[-2:]
    assert "set-up failed: the base model" in last[0] and ".venv/setup.log" in last[0]
    assert last[1] == "no space for the model"
    # a child of a child ends on its own after the signal
    wait_until(lambda: not working_in(checkout), 20)
    assert "no space for the model" in (checkout / ".venv" / "setup.log").read_text()


def test_a_failure_is_forgotten_by_the_next_set_up(checkout: Path) -> None:
    assert set_up(checkout, "model", NO_MODEL="1").returncode == 1
    made = set_up(checkout, "tests", "+", "model", NO_MODEL="1", HANGS="1")
    assert made.stderr.count("set-up failed: the base") == 2, (
        "said when it happened and at the end, of this run alone"
    )


def test_the_quickstart_needs_no_pages(checkout: Path) -> None:
    """Where they cannot be built, here because there is nothing to build them of, the other chains
    go on.
    """
    made = set_up(checkout, "tests", "+", "pages")
    assert made.returncode == 0, made.stderr
    assert "goes on without the console's pages" in made.stderr
    assert set_up(checkout, "frontend").returncode != 0


def test_a_chain_of_node_alone_does_not_wait_for_the_environment(checkout: Path) -> None:
    """Python's packages come meanwhile; a chain that needs the environment follows it."""
    for name in ("package.json", "package-lock.json", ".npmrc"):
        program_put(checkout / "frontend" / name, "")
    program_put(checkout / "bin" / "node", "#!/bin/sh\n")
    build = "mkdir $PAGES_FOLDER && touch $PAGES_FOLDER/index.html"
    program_put(
        checkout / "bin" / "npm",
        f"#!/bin/sh\ntouch npm; case $3 in ci) mkdir $2/node_modules ;; *) {build} ;; esac\n",
    )
    wait = "for _ in $(seq 100); do [ ! -e npm ] || exit 0; sleep 0.1; done; echo no npm; exit 1"
    program_put(
        checkout / ".venv" / "bin" / "python", f'{PYTHON}case "$*" in *tools.txt*) {wait} ;; esac\n'
    )
    path = {"PATH": f"{checkout / 'bin'}:{os.environ['PATH']}"}
    made = set_up(checkout, "tests", "+", "frontend", **path)
    assert made.returncode == 0, made.stderr
    assert (checkout / "frontend" / "dist" / "index.html").exists()
    assert locks_called(checkout) == [["tests"]] and not (checkout / ".venv" / "uv").exists()
    (checkout / "npm").unlink()
    (checkout / ".venv" / "stamps" / "tools").unlink()
    program_put(checkout / "bin" / "node", "#!/bin/sh\nexit 1\n")
    refused = set_up(checkout, "tests", "+", "frontend", **path)
    assert refused.returncode == 1 and "set-up failed: uv, which installs" in refused.stderr


@pytest.mark.parametrize(("missing", "torch"), [("", "torch==2.13.0+cpu"), ("1", "torch==2.13.0")])
def test_torch_is_the_build_for_cpus_where_the_index_has_one(
    checkout: Path, missing: str, torch: str
) -> None:
    """Else its build for CUDA, with the libraries that it loads."""
    made = set_up(checkout, "runtime", NO_CPU_BUILD=missing)
    assert made.returncode == 0, made.stderr
    asked = re.findall(r"^[a-z0-9-]+==[^ ]+", (checkout / "asked").read_text(), re.MULTILINE)
    assert [each for each in asked if each.startswith("torch==")] == [torch]
    assert (
        any(each.startswith("nvidia-") for each in asked)
        == bool(missing)
        == ("5 GB larger" in made.stderr)
    )
    calls = [
        line
        for line in (checkout / "calls").read_text().splitlines()
        if line.startswith("uv ") and " -r " in line
    ]
    assert all("--require-hashes" in call and "--no-deps" in call for call in calls)
    assert "takes 3.6 GB of this disk" in made.stderr


def test_an_environment_gets_what_is_new_in_a_lock_and_nothing_twice(checkout: Path) -> None:
    """One call of uv for all; what another lock brought stays."""
    assert (
        set_up(checkout, "light").returncode == set_up(checkout, "runtime", "tests").returncode == 0
    )
    assert set_up(checkout, "runtime", "tests").returncode == 0
    assert [names for names in locks_called(checkout)] == [["server", "tests"], ["cpu"]]
    (checkout / "requirements" / "server.txt").write_text("django==6\n")
    assert set_up(checkout, "light").returncode == 0
    assert locks_called(checkout)[2:] == [["server"]]


def test_what_a_failure_left_half_is_installed_again_when_the_lock_is_the_earlier_one(
    checkout: Path,
) -> None:
    lock = checkout / "requirements" / "server.txt"
    earlier = lock.read_text()
    assert set_up(checkout, "light").returncode == 0
    lock.write_text("django==6\n")
    assert set_up(checkout, "light", UV_STATUS="1").returncode == 1
    lock.write_text(earlier)
    assert set_up(checkout, "light").returncode == 0
    assert locks_called(checkout)[1:] == [["server"]] * 2


def test_what_the_set_up_takes_is_said_before_it_begins(checkout: Path) -> None:
    """Of the quickstart and of the suite; and a disk with less room is refused."""
    suite = set_up(checkout, "runtime", "tests", UV_STATUS="1")
    assert "takes 5 GB of this disk" in suite.stderr
    df = checkout / "bin" / "df"
    df.parent.mkdir()
    df.write_text("#!/bin/sh\necho; echo / 9000 4600 4400 50% /\n")
    df.chmod(0o755)
    full = set_up(checkout, "runtime", PATH=f"{df.parent}:{os.environ['PATH']}")
    assert full.returncode == 1 and "4400 MB free, 4500 are needed" in full.stderr


def test_too_little_memory_for_a_session_is_said_before_anything_is_downloaded(
    checkout: Path,
) -> None:
    """By the arithmetic with which the server refuses it, of the quickstart's session."""
    shape = ModelShape(134_515_008, 576, 30, 49_152, 2 * 30 * 3 * 64, 9, 3, 1536)
    (machine,) = memory_predict(shape, SessionConfig(max_context_length=256)).places
    needed_mb = -(-place_least_bytes(machine) // 2**20)
    says = f"needs {needed_mb} MB of memory"
    (checkout / SHARE).write_text("memory_bytes = lambda: 2 << 30\n")
    little = set_up(checkout, "runtime")
    assert f"{says}, and 2048 are here" in little.stderr
    assert little.stderr.index(says) < little.stderr.index("set-up: the server")
    (checkout / ".venv" / "stamps" / "cpu").unlink()
    (checkout / SHARE).write_text(f"memory_bytes = lambda: {needed_mb} << 20\n")
    assert says not in set_up(checkout, "runtime").stderr


def program_put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def machine_put(checkout: Path, driver: str = "580.65.06", free_mb: int = 85000) -> dict[str, str]:
    """A machine with a GPU and that much of a disk, as the variables of a set-up on it."""
    listed = f'case "$1" in -L) echo "GPU 0: of a test" ;; --query-gpu=driver_version) echo {driver} ;; esac'
    program_put(checkout / "bin" / "nvidia-smi", f"#!/bin/sh\n{listed}\n")
    program_put(checkout / "bin" / "df", f"#!/bin/sh\necho; echo / 90000 5000 {free_mb} 50% /\n")
    return {"PATH": f"{checkout / 'bin'}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "0"}


def locks_called(checkout: Path, where: str = "") -> list[list[str]]:
    """The locks of each call of uv in ``where``."""
    lines = (checkout / "calls").read_text().splitlines()
    return [
        re.findall(r"-r \S+/(\S+)\.txt", line)
        for line in lines
        if " -r " in line and where in line and "uv " in line
    ]


def test_builds_for_gpus_come_into_an_environment_of_their_own_and_only_where_there_is_a_gpu(
    checkout: Path,
) -> None:
    machine = machine_put(checkout, free_mb=15000)
    program_put(checkout / "bin" / "nvidia-smi", "#!/bin/sh\nexit 9\n")
    none = set_up(checkout, "cuda", **machine)
    assert none.returncode == 1 and "nvidia-smi lists no GPU" in none.stderr
    machine_put(checkout, free_mb=15000)
    for step in ("cuda", "runtime"):
        full = set_up(checkout, step, **machine)
        assert full.returncode == 1 and "15000 MB free, 16000 are needed" in full.stderr
    assert not locks_called(checkout, "-cuda"), "nothing large was downloaded"
    machine_put(checkout)
    cuda_put(checkout)
    made = set_up(checkout, "cuda", **machine)
    assert made.returncode == 0, made.stderr
    assert locks_called(checkout, "-cuda") == [["tools"], ["server", "cuda", "tests"]]
    calls = [
        line
        for line in (checkout / "calls").read_text().splitlines()
        if "-cuda" in line and " -r " in line
    ]
    assert all("--no-deps" in line and "--require-hashes" in line for line in calls)


def cuda_put(checkout: Path) -> None:
    """The environment for GPUs, empty, as the interpreter would make it."""
    program_put(checkout / ".venv-cuda" / "bin" / "python", PYTHON)
    (checkout / ".venv-cuda" / "lib" / f"python{VERSION}" / "site-packages").mkdir(parents=True)


MACHINES = {
    "a driver that is new enough": ({}, "580.65.06", True, "has a GPU and driver 580.65.06"),
    "a newer one": ({}, "601.1", True, "has a GPU and driver 601.1"),
    "one that is too old": (
        {},
        "570.133.20",
        False,
        "driver 570.133.20; CUDA 13 needs driver 580 or newer",
    ),
    "one without a version": ({}, "[N/A]", False, "no version of its driver"),
    "too old, and CUDA by hand": ({"BUILD": "cuda"}, "570.133.20", True, ""),
    "CPU by hand": ({"BUILD": "cpu"}, "580.65.06", False, ""),
    "a GPU that is hidden": ({"CUDA_VISIBLE_DEVICES": ""}, "580.65.06", False, ""),
}


@pytest.mark.parametrize("name", MACHINES)
def test_set_up_takes_the_builds_that_the_machine_can_run_before_it_downloads(
    checkout: Path, name: str
) -> None:
    given, driver, on_gpu, says = MACHINES[name]
    cuda_put(checkout)
    made = set_up(checkout, "runtime", "+", "model", **(machine_put(checkout, driver) | given))
    assert made.returncode == 0, made.stderr
    asked = [name for names in locks_called(checkout) for name in names]
    assert ("cuda" in asked, "cpu" in asked) == (on_gpu, not on_gpu)
    assert "server" in [
        name for names in locks_called(checkout, "--python .venv/") for name in names
    ], "the commands of manage.py run from .venv on any machine"
    assert made.stderr.count(says) >= 1 and made.stderr.count("has a GPU") <= 1, (
        "said once, by the set-up alone"
    )
    runs = (checkout / ".venv" / "stamps" / "server-python").read_text().strip()
    assert runs == (".venv-cuda/bin/python" if on_gpu else ".venv/bin/python")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "mismatch"),
        ("echo 'Unable to determine the device handle for GPU0: Unknown Error'; exit 15", "handle"),
        ('echo "couldn\'t communicate with the NVIDIA driver" >&2; exit 9', "communicate"),
        ("exit 124", "does not answer"),
        ("echo 'No devices were found'; exit 6", ""),
        ("echo 'No devices were found'", ""),
    ],
)
def test_a_driver_that_fails_is_said_where_the_builds_for_cpus_are_taken(
    checkout: Path, answer: str, says: str
) -> None:
    machine = machine_put(checkout)
    program_put(checkout / "bin" / "nvidia-smi", f"#!/bin/sh\n{answer}\n")
    made = set_up(checkout, "runtime", **machine)
    assert made.returncode == 0, made.stderr
    assert ("no GPU of this machine is used" in made.stderr) == bool(says) and says in made.stderr
    assert (checkout / ".venv" / "stamps" / "server-python").read_text() == ".venv/bin/python\n"


def test_builds_that_are_none_are_refused_before_anything_is_done(checkout: Path) -> None:
    made = set_up(checkout, "runtime", BUILD="rocm")
    assert made.returncode == 2 and "BUILD is cpu or cuda, and not rocm" in made.stderr
    assert not (checkout / "calls").exists()


def test_the_server_runs_on_the_builds_that_set_up_chose_and_the_suite_on_those_for_cpus() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in ("up", "quickstart"):
        (recipe,) = re.findall(rf"^{target}:\n((?:\t.*\n)+)", makefile, re.MULTILINE)
        assert "$(SERVER) " in recipe and "$(RUN)" not in recipe
    for recipe in re.findall(r"^\t@(.*\$\(SETUP\) runtime tests.*)$", makefile, re.MULTILINE):
        assert recipe.startswith("BUILD=cpu ")


def test_deepspeed_is_built_without_a_toolkit_of_cuda(checkout: Path) -> None:
    """Where a GPU is visible its build asks each kernel for one, unless it is told not to."""
    told = "DS_BUILD_OPS=0 DS_IGNORE_CUDA_DETECTION=1"
    assert set_up(checkout, "runtime").returncode == 0
    (built,) = [line for line in (checkout / "calls").read_text().splitlines() if "cpu.txt" in line]
    assert built.endswith(" 01")
    image = (ROOT / "docker" / "runtime.Dockerfile").read_text()
    (line,) = [line for line in image.splitlines() if "requirements/source" in line]
    assert told in line and f"export {told}" in (ROOT / "requirements" / "install.sh").read_text()


def aside(checkout: Path) -> list[Path]:
    return sorted(checkout.glob(".venv.old-*"))


def environment_is_kept(checkout: Path, made: subprocess.CompletedProcess[str]) -> bool:
    return made.returncode == 0 and (checkout / ".venv" / "served").exists() and not aside(checkout)


@pytest.fixture
def served(checkout: Path) -> Path:
    """A checkout from whose environment a server runs."""
    (checkout / ".venv" / "served").write_text("")
    return checkout


def test_another_python_first_on_the_path_leaves_a_working_environment_alone(served: Path) -> None:
    old, new = served / "bin" / "python3", served / "bin" / "python-new"
    program_put(old, "#!/bin/sh\necho 3.9\nexit 1\n")
    program_put(new, "#!/bin/sh\necho 3.99\n")
    path = f"{served / 'bin'}:{os.environ['PATH']}"
    made = set_up(served, "tests", PYTHON="python3", PATH=path)
    assert environment_is_kept(served, made) and ".venv" not in made.stderr, made.stderr
    assert environment_is_kept(served, set_up(served, "tests", PYTHON="/is/not/there"))
    asked = set_up(served, "tests", PYTHON=str(new))
    assert (
        environment_is_kept(served, asked)
        and f"of Python {VERSION} is kept. For Python 3.99 move" in asked.stderr
    )


def test_an_environment_of_another_user_is_named_before_anything_is_begun(served: Path) -> None:
    require_root()
    with TemporaryDirectory() as folder:
        other = Path(folder, "checkout")
        shutil.copytree(served, other)
        subprocess.run(["chmod", "-R", "u=rwX,go=rX", folder], check=True)
        made = subprocess.run(
            ["bash", "requirements/install.sh", "light"], cwd=other, user=NOBODY, capture_output=True, text=True
        )  # fmt: skip
        assert made.returncode == 1 and not (other / "calls").exists()
        (said,) = made.stderr.splitlines()
        assert "nobody may not write into" in said and "manage.py up" in said


def test_the_same_checkout_by_another_path_has_the_same_environment(
    served: Path, tmp_path_factory
) -> None:
    link = tmp_path_factory.mktemp("home") / "link"
    link.symlink_to(served)
    assert environment_is_kept(served, set_up(link, "tests"))
    # made by way of the link
    (served / ".venv" / "stamps" / "venv").write_text(f"{link}/./ python {VERSION}")
    assert environment_is_kept(served, set_up(served, "tests"))
    # made by another tool, or a set-up that was cut short
    (served / ".venv" / "stamps" / "venv").unlink()
    assert environment_is_kept(served, set_up(served, "tests"))
    assert (served / ".venv" / "stamps" / "venv").read_text() == f"{served} python {VERSION}\n"


@pytest.mark.parametrize(
    "kind", ["does not start", "is too old", "of another Python now", "made in another folder"]
)
def test_an_environment_that_serves_no_more_is_moved_aside_and_said(
    served: Path, kind: str, tmp_path_factory
) -> None:
    python = served / ".venv" / "bin" / "python"
    if kind == "does not start":
        python.unlink()
    elif kind == "is too old":
        python.write_text("#!/bin/sh\necho 3.9\nexit 1\n")
    elif kind == "of another Python now":
        python.write_text("#!/bin/sh\necho 3.99\n")
    else:
        original = tmp_path_factory.mktemp("original")
        (served / ".venv" / "stamps" / "venv").write_text(f"{original} python {VERSION}")
    new = served / "new"
    program_put(
        new,
        f'#!/bin/sh\ncase "$*" in *version_info*) echo {VERSION} ;; *) mkdir -p .venv/lib/python{VERSION} '
        f'.venv/bin && cp "{served}/kept" .venv/bin/python ;; esac\n',
    )
    program_put(
        served / "kept", f'{PYTHON}case "$*" in *tools.txt*) cp "{served}/uv" .venv/bin ;; esac\n'
    )
    program_put(served / "uv", UV)
    made = set_up(served, "tests", PYTHON=str(new))
    assert made.returncode == 0, made.stderr
    (old,) = aside(served)
    assert (old / "served").exists() and f"it is now {old.name}" in made.stderr
    assert (served / ".venv" / "stamps" / "venv").read_text() == f"{served} python {VERSION}\n"


def test_where_no_python_is_new_enough_nothing_is_moved(served: Path) -> None:
    program_put(served / "old", "#!/bin/sh\necho 3.9\nexit 1\n")
    (served / ".venv" / "bin" / "python").unlink()
    made = set_up(served, "tests", PYTHON=str(served / "old"))
    assert made.returncode == 1 and "Python 3.11 or newer is needed" in made.stderr
    assert (served / ".venv" / "served").exists() and not aside(served)


def test_other_environments_and_the_pages_are_kept_until_what_follows_them_is_whole(
    checkout: Path,
) -> None:
    """A new lock is installed into an environment that is there; npm and vite work in a folder of
    their own.
    """
    cuda_put(checkout)
    assert set_up(checkout, "cuda", **machine_put(checkout)).returncode == 0
    assert "venv --without-pip" not in (checkout / "calls").read_text() and not list(
        checkout.glob(".venv-cuda.old*")
    )
    (checkout / "frontend" / "dist").mkdir(parents=True)
    (checkout / "frontend" / "dist" / "index.html").write_text("served")
    (checkout / "frontend" / "node_modules").mkdir()
    for name in ("package.json", "package-lock.json", ".npmrc"):
        (checkout / "frontend" / name).write_text("")
    program_put(checkout / "bin" / "node", "#!/bin/sh\n")
    npm = checkout / "bin" / "npm"
    path = {"PATH": f"{npm.parent}:{os.environ['PATH']}"}
    program_put(npm, "#!/bin/sh\nmkdir -p $2/node_modules; exit 1\n")
    assert set_up(checkout, "frontend", **path).returncode == 1
    assert (checkout / "frontend" / "node_modules").is_dir()
    program_put(
        npm,
        "#!/bin/sh\ncase $3 in ci) mkdir $2/node_modules && echo new >$2/node_modules/of ;; *) mkdir "
        "$PAGES_FOLDER && echo new >$PAGES_FOLDER/index.html; exit ${BROKEN:-0} ;; esac\n",
    )
    assert set_up(checkout, "frontend", BROKEN="1", **path).returncode == 1
    assert (checkout / "frontend" / "dist" / "index.html").read_text() == "served"
    assert set_up(checkout, "frontend", **path).returncode == 0
    assert (checkout / "frontend" / "dist" / "index.html").read_text() == "new\n"
    assert (checkout / "frontend" / "node_modules" / "of").read_text() == "new\n"
    assert not list(checkout.glob(".frontend-new*"))


def test_packages_come_with_uv_by_their_hashes_and_its_cache_goes(checkout: Path) -> None:
    made = set_up(checkout, "tests", UV_DEFAULT_INDEX="https://index")
    assert made.returncode == 0, made.stderr
    lines = (checkout / "calls").read_text().splitlines()
    (first,) = [line for line in lines if line.startswith("-m pip install")]
    assert "--require-hashes -r requirements/tools.txt" in first, "pip brings uv, and uv the rest"
    (call,) = [line for line in lines if "tests.txt" in line]
    assert "--require-hashes" in call and " index https://index" in call
    assert not (checkout / ".venv" / "uv").exists(), "neither cache nor settings are left"
    refused = set_up(checkout, "runtime", UV_STATUS="1")
    assert refused.returncode == 1 and "set-up failed: the server" in refused.stderr
    assert not (checkout / ".venv" / "stamps" / "cpu").exists()


def test_two_set_ups_of_one_folder_go_one_after_the_other(checkout: Path) -> None:
    """They share the environments, and the cache and settings of uv, which the first to end
    removes.
    """
    uv = checkout / ".venv" / "bin" / "uv"
    uv.write_text(
        "#!/bin/sh\nmkdir inside || echo both >>calls\nsleep 1\nrmdir inside\necho uv >>calls\n"
    )
    uv.chmod(0o755)
    started = [
        subprocess.Popen(
            ["bash", "requirements/install.sh", step], cwd=checkout, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHON": sys.executable, "BUILD": "cpu"},
        )
        for step in ("tests", "runtime")
    ]  # fmt: skip
    said = [each.communicate(timeout=60)[1] for each in started]
    assert [each.returncode for each in started] == [0, 0], said
    calls = (checkout / "calls").read_text().splitlines()
    assert calls.count("uv") == 4 and "both" not in calls
    assert sum("another one of this folder is at work" in each for each in said) == 1


def uv_settings(folder: Path, options: str) -> subprocess.CompletedProcess[str]:
    """What it prints where pip's only configuration is ``options``."""
    (folder / "pip.conf").write_text(f"[global]\n{options}")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIP_", "UV_", "SSL_"))
    }
    return subprocess.run(
        [sys.executable, SETTINGS], capture_output=True, text=True, timeout=60,
        env=kept | {"PIP_CONFIG_FILE": str(folder / "pip.conf"), "PIP_INDEX_URL": "https://of/environment"},
    )  # fmt: skip


def test_uv_is_told_what_pip_is_set_to(tmp_path: Path) -> None:
    told = uv_settings(
        tmp_path,
        "index-url = https://of/file\nfind-links = /one\n /two\nno-input = true\ncert = a b\n",
    )
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert {
        "export UV_DEFAULT_INDEX=https://of/environment",
        "export UV_FIND_LINKS=/one,/two",
    } <= set(lines), lines
    assert (
        "export UV_INDEX_STRATEGY=unsafe-best-match" in lines
        and "export SSL_CERT_FILE='a b'" in lines
    )


def test_every_step_that_the_makefile_asks_for_is_one_of_set_up() -> None:
    asked = set(
        " ".join(
            re.findall(r"^\t@\$\(SETUP\) (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
        ).split()
    )
    script = (ROOT / "requirements" / "install.sh").read_text()
    (known,) = re.findall(r"^ *([a-z |]+)\) \"install_\$wanted\" ;;$", script, re.MULTILINE)
    assert asked - {"+"} <= set(known.split(" | ")), "make would end with: unknown step"
    assert all(f"install_{step}() {{" in script for step in known.split(" | "))
