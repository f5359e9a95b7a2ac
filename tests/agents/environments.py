"""Environments of outside agents, in .venv-agents: each of its own, built side by side, from the
newest versions.

One that cannot be built is said in words and its agents are skipped; the others go on.
"""

import json
import os
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv-agents"
UV = Path(sys.executable).with_name("uv")
# the index and the certificates that pip is set to
SETTINGS = ROOT / "requirements" / "uv_settings.py"
WANTED = tomllib.loads((ROOT / "tests" / "agents" / "agents.toml").read_text())
NODE = "node"  # all packages of npm are in one folder
AT_ONCE = 4
BUILD_S = 900


@dataclass(frozen=True)
class Environment:
    """``trouble`` says why it could not be built; ``versions`` are those of the packages that were
    asked for.
    """

    folder: Path
    versions: str = ""
    trouble: str = ""


def build_all(names: Iterable[str], *, reuse: bool = False) -> dict[str, Environment]:
    """Environments by their names in agents.toml; ``reuse`` keeps those that are there."""
    wanted = set(names)
    python = sorted(wanted & WANTED["python"].keys())
    node = sorted(wanted & WANTED["node"].keys())
    built: dict[str, Environment] = {}
    FOLDER.mkdir(exist_ok=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        in_node = pool.submit(build_node, node, reuse=reuse) if node else None
        tried = pool.map(lambda name: build_python(name, reuse=reuse), python)
        built |= dict(zip(python, tried, strict=True))
        if in_node is not None:
            built |= in_node.result()
    return built


def build_python(name: str, *, reuse: bool) -> Environment:
    """One that needs a later Python than this one names it."""
    folder, wanted = FOLDER / name, WANTED["python"][name]
    packages = wanted["packages"] if isinstance(wanted, dict) else wanted
    base = interpreter(wanted["python"]) if isinstance(wanted, dict) else sys.executable
    python = str(folder / "bin" / "python")
    trouble = ""
    if base is None:
        trouble = f"there is no Python {wanted['python']} on this machine"
    elif not (reuse and versions_of(folder, packages)):
        make = [str(UV), "venv", "-q", "--clear", "--python", base, str(folder)]
        trouble = run(make) or run([str(UV), "pip", "install", "-q", "--python", python, *packages])
    return Environment(folder, versions_of(folder, packages), trouble)


def interpreter(version: str) -> str | None:
    """A program of this Python, of the search path or of pyenv, whose own links start only the
    version that is switched on."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *sorted(kept.glob(f"{version}.*/bin/python"))]
    return next((str(each) for each in found if each and not run([str(each), "-c", ""])), None)


def versions_of(folder: Path, packages: Iterable[str]) -> str:
    """Names and versions, "" where one is missing."""
    sites = [str(path) for path in folder.glob("lib/python*/site-packages")]
    found = (
        {canonicalize_name(str(each.name)): each.version for each in distributions(path=sites)}
        if sites
        else {}
    )
    names = [canonicalize_name(Requirement(package).name) for package in packages]
    return (
        ", ".join(f"{name} {found[name]}" for name in names)
        if all(name in found for name in names)
        else ""
    )


def build_node(names: list[str], *, reuse: bool) -> dict[str, Environment]:
    """One folder of packages for all of ``names``, with the programs beside them: that is where
    Node looks.
    """
    folder = FOLDER / NODE
    folder.mkdir(parents=True, exist_ok=True)
    packages = sorted({package for name in names for package in WANTED["node"][name]})
    npm = shutil.which("npm") or shutil.which("npm", path=str(Path(sys.executable).parent))
    trouble = ""
    if npm is None:
        trouble = "npm is not there"
    elif not (reuse and all(node_version(folder, package) for package in packages)):
        shutil.rmtree(folder / "node_modules", ignore_errors=True)
        (folder / "package.json").write_text(
            json.dumps({"name": "outside-agents", "private": True, "type": "module"})
        )
        (folder / "package-lock.json").unlink(missing_ok=True)
        # npm itself chooses an older version where the newest asks for another Node
        newest = [f"{package}@latest" for package in packages]
        trouble = run([npm, "install", "--no-audit", "--no-fund", "--no-progress", *newest], folder)
    for program in Path(__file__).with_name("programs").glob("*.mjs"):
        shutil.copy(program, folder)
    versions = {
        name: ", ".join(
            f"{package} {node_version(folder, package)}" for package in WANTED["node"][name]
        )
        for name in names
    }
    return {name: Environment(folder, "" if trouble else versions[name], trouble) for name in names}


def node_version(folder: Path, package: str) -> str:
    try:
        return str(
            json.loads((folder / "node_modules" / package / "package.json").read_text())["version"]
        )
    except OSError:
        return ""


def run(command: list[str], folder: Path = ROOT) -> str:
    """Why the command failed, in its own last line; "" when it did not."""
    cache = {"UV_CACHE_DIR": str(FOLDER / "cache"), "UV_LINK_MODE": "hardlink"}
    try:
        environment = os.environ | cache | runpy.run_path(str(SETTINGS))["settings"]()
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=BUILD_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as failure:
        return str(failure)
    lines = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
    return "" if done.returncode == 0 else lines[-1].strip()
