"""Nothing is defined that nothing uses. Tests do not count as a use; names are compared, as vulture
does.
"""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from vulture import Vulture

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("api", "console", "gpu_runtime", "sdk/tinkerscript")
# Django reads its settings, clients the wire.
READ_BY_OTHERS = re.compile(r"console/settings\.py|sdk/tinkerscript/wire/")
OURS = ("api", "console", "gpu_runtime", "tinkerscript")
# bases that read nothing
SAY_NOTHING = {"Protocol", "Generic", "Enum", "StrEnum", "IntEnum", "NamedTuple"}
PUBLIC = re.compile(r"sdk/tinkerscript/[a-z_]+\.py")
DECORATORS = [
    "@app.command",
    "@*validator*",
    "@*serializer*",
    "@receiver*",
    "@*.register*",
    "@overload",
]
EXPECTED = {
    "__getattr__", "__dir__",  # of a module: Python calls them
    # called or read by Django and vLLM
    "urlpatterns", "handler400", "handler403", "handler404", "handler500", "take_weights", "domain",
    "worker_prepare", "add_lora_linear", "add_lora_logits", "capture", "RecordingScheduler", "AsyncRecordingScheduler",
    "aux_output_connector", "aux_output_connector_output", "get_output",
    # set on objects of libraries, which read them
    "login", "should_exit", "row_factory", "use_cache", "retries", "pre_tokenizer", "bos_token", "eos_token",
    "pad_token", "bos_token_id", "eos_token_id", "pad_token_id", "model_max_length", "argtypes", "restype",
    "check_hostname", "verify_mode", "map_entry", "type_name", "oneof_index", "proto3_optional",
    "prompt_cache_hit_tokens", "checkpoint_engine",
    "base_model_name_or_path", "inference_mode", "recompile_limit", "ValueClass", "moe_kernel", "redirect_slashes",
    "fill_uninitialized_memory",
    "_repr_svg_",  # of a notebook
    # keeps memory alive that another process reads
    "exported",
    # of tests alone: several event loops in one process, the bucket that a store was opened with
    "client_close", "bucket",
}  # fmt: skip


@cache
def sources():
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    names = [
        name
        for name in listed.stdout.split()
        if name.startswith(PACKAGES) and (ROOT / name).is_file()
    ]
    return {name: (ROOT / name).read_text() for name in names}


@cache
def nodes_of(text):
    """All nodes of a source."""
    return list(ast.walk(ast.parse(text)))


@cache
def scanned(name, text):
    """What one file defines and uses."""
    found = Vulture(ignore_names=[], ignore_decorators=DECORATORS)
    found.scan(text, filename=name)
    return found


DEFINED = (
    "defined_attrs", "defined_classes", "defined_funcs", "defined_imports", "defined_methods", "defined_props",
    "defined_vars", "unreachable_code",
)  # fmt: skip


def together(texts):
    """What several files define and use: each is read once, alone and among the others."""
    found = Vulture(ignore_names=[], ignore_decorators=DECORATORS)
    for name, text in texts.items():
        of_file = scanned(name, text)
        found.used_names.update(of_file.used_names)
        for kind in DEFINED:
            getattr(found, kind).extend(getattr(of_file, kind))
    return found


def library_names(nodes):
    """What a file imports from elsewhere, by the name that it has there."""
    return {
        alias.asname or alias.name.partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
        for alias in node.names
        if (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        not in OURS
    } - SAY_NOTHING


def lines_read_by_libraries(texts):
    """(path, line) of classes with an ancestor in a library, which finds, calls and reads what they
    define.
    """
    nodes = {name: nodes_of(text) for name, text in texts.items()}
    theirs = {name: library_names(of_file) for name, of_file in nodes.items()}
    classes = [
        (name, node, [ast.unparse(base).partition("[")[0] for base in node.bases])
        for name, of_file in nodes.items()
        for node in of_file
        if isinstance(node, ast.ClassDef)
    ]
    heirs = set()
    for _generation in range(4):
        names = {node.name for _, node in heirs}
        heirs |= {
            (name, node)
            for name, node, bases in classes
            if any(base.partition(".")[0] in theirs[name] for base in bases) or names & set(bases)
        }
    return {
        (name, line) for name, node in heirs for line in range(node.lineno, node.end_lineno + 1)
    }


def unused(texts, *, names_in_text="", only=lambda item: True):
    """Definitions of ``texts`` (path -> source) whose name occurs nowhere else in them, nor as a
    word of the text.

    ``only`` chooses among them, before their classes are looked at: that costs most.
    """
    found = together(texts)
    words = set(re.findall(r"\w+", names_in_text))
    items = [
        item
        for item in found.get_unused_code(min_confidence=60)
        if item.name not in words
        and item.typ != "import"  # imports and arguments are ruff's
        and item.confidence < 100
        and only(item)
    ]
    theirs = lines_read_by_libraries(texts) if items else set()
    return [item for item in items if (str(item.filename), item.first_lineno) not in theirs]


def quoted_names(texts):
    """``"package.module.name"`` in a string is a use (settings, plug-ins), and so is a quoted type:
    ``"Run[Any]"``.
    """
    text = "\n".join(texts.values())
    types = re.findall(r"[\"']([A-Z]\w*(?:\[[^\"'\n]*\])?)[\"']", text)
    return " ".join([*re.findall(r"[\"']((?:\w+\.)+\w+)[\"']", text), *types])


def test_every_definition_is_used_somewhere():
    dead = [
        f"{item.filename}:{item.first_lineno} {item.typ} {item.name}"
        for item in unused(sources(), names_in_text=quoted_names(sources()))
        if item.name not in EXPECTED
        and not READ_BY_OTHERS.match(str(item.filename))
        and not (
            PUBLIC.fullmatch(str(item.filename))
            and item.typ in ("method", "function", "property", "variable")
        )
    ]
    assert dead == []


def private_lines(text):
    """Lines of classes whose name begins with an underscore: who uses them stands in the same file.

    Not of those with a base: that may read what they define.
    """
    for node in nodes_of(text):
        if isinstance(node, ast.ClassDef) and node.name.startswith("_") and not node.bases:
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def private_dead(texts):
    dead = []
    for name, text in texts.items():
        lines = set(private_lines(text)) if "class _" in text else set()

        def is_private(item, lines=lines):
            return item.name not in EXPECTED and (
                item.name.startswith("_") or item.first_lineno in lines
            )

        found = unused({name: text}, only=is_private)
        dead += [f"{name}:{item.first_lineno} {item.typ} {item.name}" for item in found]
    return dead


def test_what_is_private_is_used_in_its_own_file():
    assert private_dead(sources()) == []


def test_a_field_of_a_private_class_is_found_though_its_name_is_used_elsewhere():
    draft = "class _Draft:\n    ids: list\n    taken: int\n\n\n_Draft().ids\n"
    assert private_dead({"a.py": draft, "b.py": "taken = 1\nprint(taken)\n"}) == [
        "a.py:3 variable taken"
    ]
