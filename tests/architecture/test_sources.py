"""How the sources are written: short files, named failures, no output of their own, nothing about
one machine.
"""

import ast
import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("api", "console", "gpu_runtime", "sdk/tinkerscript")
LINES, LINES_OF_TESTS = 400, 600
# One row of these is several lines: a route, an option of a session.
TABLES = ("api/routes.py", "sdk/tinkerscript/wire/config.py")
FILES = 16  # of code, in one folder without those below it

# Folders that hold more; the numbers may go down and never up.

# A broad `except` stands only at the top of a loop or process, where it records what happened.
# These are all of them; the numbers may go down and never up.
BROAD_EXCEPTS = {
    "api/relay/app.py": 1,
    "api/rest/endpoint.py": 1,
    "api/tinker/app.py": 1,
    "console/live/consumer.py": 1,
    "console/live/hub.py": 2,
    "console/management/commands/reconcile.py": 1,
    "console/scheduling/children/health.py": 1,
    "console/scheduling/launchers/snapshot.py": 1,  # the top of a thread: whoever looks is told
    "console/scheduling/periodic_tasks.py": 1,
    "console/scheduling/reconcile.py": 1,
    # the top of a loop: what is wrong with a grammar vLLM says to the call
    "gpu_runtime/engine/grammars/trial.py": 1,
    # the top of an operation, and of what goes on beside later ones
    "gpu_runtime/gateway/tinker/operation_runner.py": 2,
    "gpu_runtime/gateway/tinker/samples/sampling.py": 1,
    "gpu_runtime/generation/calls.py": 1,
    "gpu_runtime/episodes/ledger.py": 1,
    "gpu_runtime/training/rank_process.py": 1,
    # to the caller, who waits for what its own function returns
    "sdk/tinkerscript/connection/user_calls.py": 1,
    "sdk/tinkerscript/episodes/begins.py": 1,  # to the caller, who waits for this thread's result
    "sdk/tinkerscript/episodes/heartbeats.py": 1,
    # the top of a worker thread, and around the user's own agent
    "sdk/tinkerscript/rollouts/runner.py": 2,
    "sdk/tinkerscript/worker.py": 1,  # around the user's own agent
    "sdk/tinkerscript/rollouts/step_log.py": 1,  # around a tracker of others
    "sdk/tinkerscript/exporting/verify.py": 1,  # around libraries, whose errors are of any kind
}

# Written in two parts, so that this file does not find itself.
REGISTRIES = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "npmjs" + ".org",
    "yarnpkg" + ".com",
    "pytorch" + ".org/whl",
]
REGISTRIES += ["deb." + "debian.org", "registry.docker" + ".io", "ghcr" + ".io"]
MACHINE_PATHS = re.compile(r"(?<![\w.$}])/(?:" + "work|tmp|root|home|opt/" + "wheels)/")
UNFINISHED = re.compile("TO" + "DO|FIX" + "ME|XX" + "X")
# Names that were replaced by the field's own: a newcomer had to translate them.
RETIRED = [
    "Lease" + "Door",
    "OpenAI" + "Door",
    "Anthropic" + "Door",
    "Internal" + "Door",
    "Door" + "way",
    "batch_" + "door",
]
RETIRED += [
    "_close" + "_doors",
    "Live" + "Call",
    "Chat" + "Plan",
    "Upload" + "Plan",
    "Launcher" + "Away",
]
RETIRED += [
    "mine_or" + "_nobodys",
    "Kept" + "Answer",
    "NOBO" + "DYS",
    "store" + "_room",
    "Room" + "Watch",
    "Weight" + "Loan",
]
RETIRED += [
    "_refuse" + "_giant",
    "unless" + "_gone",
    "Episode" + "Life",
    "_Held" + "Key",
    "KNOWN" + "_MAX",
    "LOOK" + "_AGAIN_S",
]
RETIRED_NAMES = re.compile(rf"\b(?:{'|'.join(RETIRED)})\b")


@cache
def tracked():
    """Every file that the repository holds."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@cache
def texts():
    """Path relative to the root -> text, of every tracked text file."""
    found = {}
    for path in tracked():
        content = path.read_bytes()
        if b"\0" not in content:
            found[path.relative_to(ROOT).as_posix()] = content.decode()
    return found


def python(*folders):
    return {
        name: text
        for name, text in texts().items()
        if name.endswith(".py")
        and (not folders or name.startswith(tuple(f"{folder}/" for folder in folders)))
    }


def test_no_file_is_too_long_to_be_read_at_once():
    limits = {
        name: LINES_OF_TESTS if name.startswith("tests/") else LINES
        for name in python()
        if "/migrations/" not in name and name not in TABLES
    }
    too_long = {
        name: count for name in limits if (count := texts()[name].count("\n")) > limits[name]
    }
    assert too_long == {}


def test_generated_data_is_the_same_in_every_run_and_no_clock_bounds_it():
    """Every test over generated data has the settings of tests/support/generated.py."""
    for name, text in python("tests").items():
        for node in ast.walk(ast.parse(text)) if "@given(" in text else ():
            decorators = [ast.unparse(each) for each in getattr(node, "decorator_list", [])]
            if any(each.startswith("given(") for each in decorators):
                assert "any_speed" in " ".join(decorators), f"{name}: {node.name}"


def test_no_folder_is_too_large_to_be_known():
    names = [
        name
        for name in python(*PACKAGES)
        if not name.endswith("/__init__.py") and "/migrations/" not in name
    ]
    counts = Counter(name.rpartition("/")[0] for name in names)
    assert {folder: n for folder, n in counts.items() if n > FILES} == {}


def test_every_module_says_what_it_is_for():
    silent = [
        name
        for name, text in python(*PACKAGES).items()
        if text.strip() and not ast.get_docstring(ast.parse(text))
    ]
    assert [name for name in silent if "/migrations/" not in name] == []


def test_packages_have_empty_init_files():
    full = [
        name
        for name, text in python("api", "console", "gpu_runtime").items()
        if name.endswith("/__init__.py")
        and any(not is_docstring(node) for node in ast.parse(text).body)
    ]
    assert full == []


def is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def broad_excepts(text):
    handlers = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ExceptHandler)]
    # One that ends by raising again cleans up and hides nothing.
    hiding = [handler for handler in handlers if not isinstance(handler.body[-1], ast.Raise)]
    return sum(handler.type is None or catches_all(handler.type) for handler in hiding)


def catches_all(node):
    names = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(
        isinstance(name, ast.Name) and name.id in {"Exception", "BaseException"} for name in names
    )


def test_no_failure_is_caught_without_a_name():
    found = {
        name: count for name, text in python(*PACKAGES).items() if (count := broad_excepts(text))
    }
    assert found == BROAD_EXCEPTS


def test_no_package_prints():
    def prints(text):
        calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        return any(isinstance(called, ast.Name) and called.id == "print" for called in calls)

    commands = ("sdk/tinkerscript/cli.py", "sdk/tinkerscript/commands/")
    packages = {
        name: text for name, text in python(*PACKAGES).items() if not name.startswith(commands)
    }
    assert [name for name, text in packages.items() if prints(text)] == []


def test_nothing_names_a_package_registry():
    assert [
        name for name, text in texts().items() if any(host in text for host in REGISTRIES)
    ] == []


def test_nothing_names_a_path_of_one_machine():
    found = {
        name: MACHINE_PATHS.findall(text)
        for name, text in texts().items()
        if MACHINE_PATHS.search(text)
    }
    assert found == {}


def test_nothing_is_left_for_later():
    assert [name for name, text in texts().items() if UNFINISHED.search(text)] == []


def test_no_retired_name_comes_back():
    sources = {
        name: text for name, text in texts().items() if name.endswith((".py", ".ts", ".tsx"))
    }
    found = {
        name: RETIRED_NAMES.findall(text)
        for name, text in sources.items()
        if "/migrations/" not in name
    }
    assert {name: names for name, names in found.items() if names} == {}


def test_no_row_that_others_refer_to_is_locked_against_them():
    """PostgreSQL's FOR UPDATE of a project keeps every row from being added that refers to it: a
    session that is created would wait for each other one, and a heartbeat's transaction for what
    anybody writes of its session.
    """
    found = []
    for name, text in python("console").items():
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            of = ast.unparse(node.func.value)
            referred_to = of in {
                f"{model}.objects" for model in ("Project", "User", "Session", "TinkerSession")
            }
            if node.func.attr == "select_for_update" and referred_to and not node.keywords:
                found.append(f"{name}:{node.lineno}")
    assert not found, f"these say no_key=True: {found}"


def test_no_callback_is_hung_on_an_object_after_it_was_made():
    """Constructors are complete: who follows what happens subscribes to the bus
    (gpu_runtime/events.py).
    """
    hung = [
        f"{name}:{target.lineno}"
        for name, text in python("gpu_runtime").items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for each in (target.elts if isinstance(target, ast.Tuple) else [target])
        if isinstance(each, ast.Attribute) and each.attr.startswith("on_")
    ]
    assert hung == []
