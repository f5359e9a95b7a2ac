"""What the documentation says is there: files, tests, commands, settings, names in its examples,
dead links.
"""

import ast
import importlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from support.documented import FRAGMENTS, blocks, key_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("api", "console", "gpu_runtime", "sdk/tinkerscript")
FOLDERS = (
    "api",
    "console",
    "gpu_runtime",
    "sdk",
    "frontend",
    "tests",
    "docker",
    "docs",
    "requirements",
)
# A path under one of our folders, perhaps with the name of a test behind it; the second kind stands
# at the root.
NAMED = re.compile(
    rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./*-]*(?:::\w+)?|\b[\w.-]+\.(?:md|toml|json|yml)\b"
)
SETTING = re.compile(r"\b(?:TINKERSCRIPT_[A-Z_]+|S3_[A-Z_]+|DATABASE_URL|REDIS_URL)\b")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OTHERS = {
    "agentlightning",
    "openhands",
    "tinker",
}  # a server is installed without them, and their examples are run elsewhere
# By set-up, a backup, an export, for an outside agent.
MADE_LATER = {
    "backup.json",
    "frontend/dist",
    "frontend/node_modules",
    "config.json",
    "generation_config.json",
    "tinkerscript.json",
    "global-settings.json",
    "models.json",
    "opencode.json",
    "settings.json",
    "trajectory.json",
}


@cache
def tracked():
    """Every file of the repository, and every folder that holds one, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    files = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    return files | {str(parent) for name in files for parent in PurePosixPath(name).parents}


def pages():
    """Path -> text of what is written for people. The change log names what has been."""
    names = [
        name
        for name in tracked()
        if re.fullmatch(r"(docs/.*|[A-Z]+)\.md", name) and name != "CHANGELOG.md"
    ]
    return {name: (ROOT / name).read_text() for name in sorted(names)}


def sources(*folders):
    return {
        name: (ROOT / name).read_text()
        for name in sorted(tracked())
        if name.endswith(".py") and name.startswith(folders)
    }


def is_there(path):
    if "NAME" in path:  # of a recipe
        return True
    path, _, test = path.partition("::")
    path = path.rstrip("./")
    if "*" in path:
        return any(PurePosixPath(name).match(path) for name in tracked())
    if test:
        return path in tracked() and f"def {test}(" in (ROOT / path).read_text()
    return path in tracked() or path in MADE_LATER


def test_pages_name_only_files_and_tests_that_exist():
    absent = {
        (page, named)
        for page, text in pages().items()
        # What a link leads to is relative to its page, and mkdocs' to check.
        for named in NAMED.findall(re.sub(r"\]\([^)]*\)", "]", text))
        if not is_there(named)
    }
    assert absent == set()


def comments_and_docstrings(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def test_comments_and_docstrings_name_only_modules_that_exist():
    """From the root, from a package, or from a folder above the file that says it; a bare name from
    anywhere.
    """
    modules = {PurePosixPath(name).name for name in tracked()}

    def resolves(path, of):
        roots = ["", *(f"{package}/" for package in (*PACKAGES, "sdk", "tests"))]
        roots += [f"{parent}/" for parent in PurePosixPath(of).parents]
        return path in modules or any(f"{root}{path}" in tracked() for root in roots)

    named = re.compile(r"(?<![\w./-])[a-z_]+(?:/[a-z_]+)*\.py\b")
    absent = {
        (name, path)
        for name, text in sources(*PACKAGES, "tests/", "docs/").items()
        # Most files name nothing else, and to tell comments from code takes longer than all the
        # rest.
        if not all(resolves(path, name) for path in named.findall(text))
        for said in comments_and_docstrings(text)
        for path in named.findall(said)
        if not resolves(path, name)
    }
    assert absent == set()


def test_make_targets_and_server_commands_that_pages_name_exist():
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    ours = {path.stem for path in (ROOT / "console/management/commands").glob("[a-z]*.py")}
    said = "\n".join(pages().values())
    code = "\n".join(re.findall(r"`+[^`]+`+", said))
    assert set(re.findall(r"\bmake ([a-z][a-z-]*)", code)) <= targets
    assert set(re.findall(r"manage\.py ([a-z_]+)", said)) <= ours | {
        "migrate",
        "makemigrations",
        "createsuperuser",
    }
    table = re.search(r"^\| `python manage.py ...`.*?\n\n", said, re.MULTILINE | re.DOTALL)
    listed = re.findall(
        r"`([a-z_]+)(?: [^`]*)?`",
        "\n".join(row.split("|")[1] for row in table[0].split("\n")[2:-2]),
    )
    assert set(listed) == ours


def test_every_setting_is_documented():
    # In quotes: the name as it is read from the environment.
    texts = [
        (ROOT / f"console/{name}.py").read_text()
        for name in ("settings", "scheduling/launchers/options")
    ]
    read = {name for text in texts for name in re.findall(rf'"({SETTING.pattern})"', text)}
    assert len(read) > 20, "settings are read elsewhere now"
    assert read - set(SETTING.findall(pages()["docs/operations/settings.md"])) == set()


def test_every_documented_setting_is_read_somewhere():
    documented = {name for text in pages().values() for name in SETTING.findall(text)}
    read = "\n".join(
        [*sources("console", "gpu_runtime", "sdk").values(), *sources("tests/").values()]
    )
    assert {name for name in documented if f'"{name}"' not in read} == set()


def examples():
    """(page, source) of every block of Python."""
    return [
        (page, code)
        for page, text in pages().items()
        for language, code in FENCE.findall(text)
        if language == "python"
    ]


def test_python_examples_parse_and_import_what_exists():
    assert len(examples()) >= 4
    for page, code in examples():
        for node in ast.walk(ast.parse(code, page)):
            if (
                isinstance(node, ast.ImportFrom)
                and (node.module or "").split(".")[0] == "tinkerscript"
            ):
                module = importlib.import_module(node.module)
                absent = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                assert (page, absent) == (page, [])


def test_what_runs_alone_and_what_is_a_part_is_known_of_each_example():
    """The whole ones run in tests/e2e/test_snippets.py; every name that a part imports is there."""
    found = blocks()
    assert [(block.page, block.code) for block in found] == examples()
    parts = [
        (page, begins) for block in found for page, begins in FRAGMENTS if _is(block, page, begins)
    ]
    assert sorted(parts) == sorted(FRAGMENTS), (
        "one block of each name, and no name of a block that is gone"
    )
    whole = [key_of(block) for block in found if block.reason is None]
    assert len(whole) == len(set(whole)) >= 5
    for block in found:
        for node in ast.walk(ast.parse(block.code, block.page)):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            absent = [
                name
                for name in names
                if name.partition(".")[0] not in OTHERS and importlib.util.find_spec(name) is None
            ]
            assert (block.page, absent) == (block.page, [])


def _is(block, page, begins):
    return block.page == page and block.code.startswith(begins)


def test_links_of_the_first_page_lead_to_files():
    text = (ROOT / "README.md").read_text()
    targets = [target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in target]
    assert len(targets) > 8 and [target for target in targets if target not in tracked()] == []


def test_pictures_of_pages_are_small_and_each_is_shown():
    shown = (ROOT / "README.md").read_text() + (ROOT / "docs/quickstart.md").read_text()
    pictures = sorted((ROOT / "docs/pictures").iterdir())
    assert [path.name for path in pictures if f"pictures/{path.name})" not in shown] == []
    assert {path.suffix for path in pictures} == {".webp"}
    assert max(path.stat().st_size for path in pictures) < 60_000


def test_examples_call_only_methods_and_options_that_exist():
    from tinkerscript import Episode, Session, SessionConfig, TinkerScript

    methods = {name for kind in (TinkerScript, Session, Episode) for name in dir(kind)}
    calls = re.compile(r"\b(?:session|tinkerjet_remote|episode)\.(\w+)")
    spans = "\n".join(span for text in pages().values() for span in re.findall(r"`+[^`]+`+", text))
    # attributes; topics; a file
    shown = {"id", "model", "base_url", "api_key", "state", "failed", "stuck", "py"}
    assert {name for name in calls.findall(spans) if name not in methods} - shown == set()
    options = {
        keyword.arg
        for _page, code in examples()
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "TinkerScript"
        for keyword in node.keywords
    }
    own = {
        "base_model",
        "base_url",
        "api_key",
        "name",
        "session_id",
        "wait_timeout_s",
        "begin_timeout_s",
    }
    assert options - own <= set(SessionConfig.model_fields)


def test_the_site_builds_without_a_dead_link_and_asks_no_other_host(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    loads = re.compile(
        r"<(?:script|img|iframe)[^>]*\bsrc=\"(?:https?:)?//|<link[^>]*\bhref=\"(?:https?:)?//"
    )
    assert [page.name for page in tmp_path.rglob("*.html") if loads.search(page.read_text())] == []
