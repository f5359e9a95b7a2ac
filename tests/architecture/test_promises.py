"""tests/promises.toml: each promise of the documentation has a test that `make test` runs, and
every test exists.

Tests are read, not imported, so that this takes a second: the tier of a test follows from its
folder, its marks and the names of the fixtures that it asks for, as ``support.quick`` has them.
"""

import ast
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support.quick import CHECKED_FOLDERS, FIXTURES, FOLDERS, MARKS, TESTS

ROOT = TESTS.parent
FIELDS = {"says", "page", "invariant", "quick", "more"}
MOST_WORDS = 20
INVARIANTS = range(1, 12)  # of docs/architecture.md
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """What a file of tests says of its tests: names of fixtures -> those that they ask for, marks,
    tests by name.
    """

    marks: frozenset[str]
    fixtures: dict[str, frozenset[str]]
    automatic: frozenset[str]
    tests: dict[str, Function]


def marks_of(node: ast.expr) -> frozenset[str]:
    """The marks of a decorator or of ``pytestmark``; of single parameters `smoke` alone, for a case
    that is it.
    """
    if isinstance(node, (ast.List, ast.Tuple)):
        return frozenset().union(*map(marks_of, node.elts))
    named = node.func if isinstance(node, ast.Call) else node
    if ast.unparse(named) == "real_stores":  # support/real_stores.py
        return frozenset({"system"})
    found = re.fullmatch(r"pytest\.mark\.(\w+)", ast.unparse(named))
    if found and found[1] == "parametrize":
        return frozenset({"smoke"} if "marks=pytest.mark.smoke" in ast.unparse(node) else ())
    return frozenset(found.groups() if found else ())


def arguments_of(node: Function) -> frozenset[str]:
    given = node.args
    return frozenset(
        argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)
    )


def asked_by_mark(node: Function) -> frozenset[str]:
    """Fixtures that ``pytest.mark.usefixtures`` names."""
    texts = [ast.unparse(decorator) for decorator in node.decorator_list]
    return frozenset(
        name for text in texts if "usefixtures" in text for name in re.findall(r"'(\w+)'", text)
    )


@cache
def module_of(path: Path) -> Module:
    tree = ast.parse(path.read_text())
    functions = [node for node in tree.body if isinstance(node, Function)]
    made = {
        node: text
        for node in functions
        for decorator in node.decorator_list
        if re.match(r"(pytest|pytest_asyncio)\.fixture", text := ast.unparse(decorator))
    }
    set_here = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and names(node, "pytestmark")
    ]
    return Module(
        marks=frozenset().union(*map(marks_of, set_here)),
        fixtures={node.name: arguments_of(node) for node in made},
        automatic=frozenset(node.name for node, text in made.items() if "autouse=True" in text),
        tests={node.name: node for node in functions if node.name.startswith("test_")},
    )


def names(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def fixtures_of(path: Path, test: Function) -> frozenset[str]:
    """All fixtures that a test asks for, through one another, of its file and of the folders above
    it.
    """
    folders = [folder for folder in reversed(path.parents) if folder.is_relative_to(TESTS)]
    modules = [module_of(found) for folder in folders if (found := folder / "conftest.py").exists()]
    modules.append(module_of(path))
    known = {name: asked for module in modules for name, asked in module.fixtures.items()}
    waiting = {
        *arguments_of(test),
        *asked_by_mark(test),
        *(name for module in modules for name in module.automatic),
    }
    seen: set[str] = set()
    while waiting:
        seen.add(name := waiting.pop())
        waiting |= known.get(name, frozenset()) - seen
    return frozenset(seen)


def fault_of(named: str) -> str | None:
    """Why ``tests/....py::test_...`` is no test that exists, or None; a file alone is one that has
    tests.
    """
    file, _, test = named.partition("::")
    path = ROOT / file
    if not path.is_file():
        return "no such file"
    tests = module_of(path).tests
    return None if (test in tests if test else tests) else "no such test"


def slow_of(named: str) -> str | None:
    """Why `make test` does not run the test ``named``, or None where it does."""
    file, _, name = named.partition("::")
    if not name:
        return "name a test, not a file"
    path = ROOT / file
    module = module_of(path)
    test = module.tests[name]
    marks = module.marks.union(*map(marks_of, test.decorator_list)).intersection(MARKS)
    folder = path.relative_to(TESTS).parts[0]
    if folder in CHECKED_FOLDERS or ("smoke" in marks and "nightly" not in marks):
        return None
    if marks:
        return f"it is marked {', '.join(sorted(marks))}"
    if folder in FOLDERS:
        return f"tests/{folder} starts servers"
    found = FIXTURES & fixtures_of(path, test)
    return f"it asks for {', '.join(sorted(found))}" if found else None


@cache
def promises() -> list[dict]:
    return tomllib.loads((TESTS / "promises.toml").read_text())["promise"]


def listed() -> set[str]:
    return {
        named for promise in promises() for named in (*promise["quick"], *promise.get("more", ()))
    }


def test_every_promise_has_a_test_that_make_test_runs() -> None:
    without = [promise["says"] for promise in promises() if not promise["quick"]]
    assert without == []
    slow = {
        named: why
        for promise in promises()
        for named in promise["quick"]
        if not fault_of(named) and (why := slow_of(named))
    }
    assert slow == {}, (
        "a test of `quick` starts nothing or is marked `smoke`; others belong to `more`"
    )


def test_every_test_that_a_promise_names_exists() -> None:
    assert {named: why for named in sorted(listed()) if (why := fault_of(named))} == {}


def test_a_promise_is_one_sentence_of_a_page_and_stands_once() -> None:
    says = [promise["says"] for promise in promises()]
    assert sorted(said for said in set(says) if says.count(said) > 1) == []
    for promise in promises():
        assert set(promise) <= FIELDS and promise["says"].endswith("."), promise
        assert len(promise["says"].split()) <= MOST_WORDS, promise["says"]
        assert (ROOT / promise["page"]).is_file(), promise
    pages = [promise["page"] for promise in promises()]
    blocks = [page for page, before in zip(pages, [None, *pages], strict=False) if page != before]
    assert len(blocks) == len(set(blocks)), "promises of one page stand together"


def test_every_invariant_has_its_promises() -> None:
    of_page = [promise for promise in promises() if promise["page"] == "docs/architecture.md"]
    assert {promise["invariant"] for promise in of_page if "invariant" in promise} == set(
        INVARIANTS
    )
    rows = re.findall(r"^\| (\d+) \| ", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE)
    assert [int(row) for row in rows] == list(INVARIANTS)


def test_every_test_of_the_invariants_and_of_the_security_table_is_one_of_a_promise() -> None:
    files = {named.partition("::")[0] for named in listed()}
    for page, row in (("docs/architecture.md", r"\d+"), ("docs/security.md", r"[^|]+")):
        rows = re.findall(rf"^\| {row} \|.*$", (ROOT / page).read_text(), re.MULTILINE)
        found = {
            named for text in rows for named in re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", text)
        }
        assert len(found) > 10, page
        absent = {named for named in found if named not in (listed() if "::" in named else files)}
        assert (page, absent) == (page, set())


def test_the_tier_of_a_test_is_read_as_pytest_chooses_it() -> None:
    quick = "tests/api/test_auth.py::test_a_revoked_key_stops_at_once"
    assert (fault_of(quick), slow_of(quick)) == (None, None)
    assert fault_of("tests/api/test_auth.py::test_of_nothing") == "no such test"
    assert fault_of("tests/api/test_of_nothing.py") == "no such file"
    slow = {
        "tests/api/test_auth.py": "name a test, not a file",
        "tests/console/test_uploads.py::test_a_presigned_url_expires": "it is marked system",
        "tests/api/test_store_links.py::test_a_part_is_written_by_put": "it asks for embedded_s3",
        "tests/gpu_runtime/test_grammar_budget.py::test_it_ends_within_its_budget_and_a_quick_one_goes_on": "engine",
        "tests/e2e/test_private_files.py::test_nothing_that_a_server_writes_is_open_to_another_user": "starts servers",
    }
    for named, why in slow.items():
        assert why in (slow_of(named) or "quick"), named
