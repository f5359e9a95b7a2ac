"""What really gets loaded by what. Who may import whom is in the contracts of pyproject.toml."""

import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
# of a file of TypeScript, by a path relative to it
IMPORTED = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*["'](\.[^"']+)["']""")
HEAVY = ("torch", "vllm", "deepspeed", "transformers")


def loaded_by(statement, tmp_path, names=(*HEAVY, "django")):
    """Which of the modules ``names`` running ``statement`` in a process of its own brings in."""
    program = f"import sys\n{statement}\nprint([name for name in {names!r} if name in sys.modules])"
    environment = {"TINKERSCRIPT_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "console.settings"}
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'sdk'}:{ROOT / 'tests'}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_control_plane_loads_no_torch(tmp_path):
    assert (
        loaded_by("import django; django.setup(); import console.urls, console.asgi", tmp_path)
        == "['django']"
    )


def test_a_command_loads_no_client_of_other_servers_with_its_models(tmp_path):
    """Whatever a module of models imports, each command and each process of ours waits for."""
    asked = ("aiohttp", "boto3", "channels.layers")
    assert loaded_by("import django; django.setup()", tmp_path, asked) == "[]"


def test_a_runtimes_gateway_journal_and_agent_load_neither_torch_nor_django(tmp_path):
    """Every module but those of engine, trainer, weights and kernels, the one that reads tokenizers
    included.
    """
    heavy = ("engine", "native", "training", "weights")
    files = [path.relative_to(ROOT) for path in (ROOT / "gpu_runtime").rglob("*.py")]
    light = [
        path
        for path in files
        if path.parts[1] not in heavy and path.stem != "transformers_tokenizer"
    ]
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in light]
    names += ["support.gateway_harness"]
    assert {"gpu_runtime.gateway.app", "gpu_runtime.loop.batching"} <= set(names)
    assert loaded_by(f"import {', '.join(names)}", tmp_path) == "[]"


def test_no_files_import_each_other():
    """Within a function or for a type counts too: a reader of one would have to know the other
    first.
    """
    graph = grimp.build_graph("api", "console", "gpu_runtime", "tinkerscript", cache_dir=None)
    no_circle({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})


def test_no_files_of_the_console_import_each_other():
    """What is loaded late counts too."""
    sources = ROOT / "frontend" / "src"
    files = {path.resolve(): path.read_text() for path in sources.rglob("*.ts*")}
    imports = {
        path: {
            found
            for name in IMPORTED.findall(text)
            for ending in ("", ".ts", ".tsx", "/index.ts", "/index.tsx")
            if (found := (path.parent / f"{name}{ending}").resolve()) in files
        }
        for path, text in files.items()
    }
    assert sum(map(len, imports.values())) > len(files), "imports are relative"
    no_circle(imports)


def no_circle(imports):
    order = TopologicalSorter(imports)
    try:
        order.prepare()
    except CycleError as error:
        circle = " <- ".join(str(each) for each in error.args[1])
        raise AssertionError(f"a circle of imports: {circle}") from None
