"""A release is an archive with the console built, the client's wheel and what both are made of; or
it is refused.
"""

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tinkerscript.wire.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
NAME = f"tinkerscript-{VERSION}"
DIGEST = "@sha256:" + 64 * "0"


def git(folder: Path, *words: str) -> None:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Pin")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of this one as it is, with pages that were built and base images that have
    digests.
    """
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    folder = tmp_path_factory.mktemp("checkout") / "tree"
    git(ROOT, "clone", "-q", str(ROOT), str(folder))
    for path in subprocess.check_output(
        ["git", "ls-files", "-mo", "--exclude-standard"], cwd=ROOT, text=True
    ).split():
        if (ROOT / path).is_file():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes((ROOT / path).read_bytes())
            (folder / path).chmod((ROOT / path).stat().st_mode)
    for name in ("control-plane.Dockerfile", "runtime.Dockerfile", "compose.yaml"):
        path = folder / "docker" / name
        text = re.sub(r"@sha256:[0-9a-f]{64}", "", path.read_text())
        text = re.sub(
            r"^(ARG [A-Z]*_IMAGE=\S+| *image: (?!tinkerscript-)\S+)$",
            rf"\1{DIGEST}",
            text,
            flags=re.MULTILINE,
        )
        path.write_text(text)
    commit(folder)
    (folder / "frontend" / "dist").mkdir()
    (folder / "frontend" / "dist" / "index.html").write_text("<title>built</title>")
    (folder / ".venv" / "bin").mkdir(parents=True)
    python = folder / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return folder


def release(checkout: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "requirements" / "release.sh"], capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def released(checkout: Path) -> Path:
    done = release(checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    return checkout / "dist" / "release"


def test_a_release_has_an_archive_a_wheel_a_bill_of_materials_and_their_sums(
    released: Path,
) -> None:
    sums = dict(
        reversed(line.split("  ")) for line in (released / "SHA256SUMS").read_text().splitlines()
    )
    assert sums.keys() == {f"{NAME}.tar.gz", f"{NAME}-py3-none-any.whl", "sbom.json"}
    for name, digest in sums.items():
        assert hashlib.sha256((released / name).read_bytes()).hexdigest() == digest
    assert json.loads((released / "sbom.json").read_text())["bomFormat"] == "CycloneDX"
    names = zipfile.ZipFile(released / f"{NAME}-py3-none-any.whl").namelist()
    assert "tinkerscript/__init__.py" in names and not any(
        name.startswith("console/") for name in names
    )


def test_the_same_tree_gives_the_same_bytes(checkout: Path, released: Path) -> None:
    before = (released / "SHA256SUMS").read_text()
    assert release(checkout).returncode == 0
    assert (released / "SHA256SUMS").read_text() == before


def test_a_server_is_set_up_from_the_archive_with_its_pages_and_without_npm(
    released: Path, tmp_path: Path
) -> None:
    with tarfile.open(released / f"{NAME}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / NAME
    assert (folder / "frontend" / "dist" / "index.html").read_text() == "<title>built</title>"
    assert (
        not (folder / "tests" / "docker" / "__pycache__").exists()
        and (folder / "manage.py").is_file()
    )
    # A virtual environment that is there: the step alone is tried.
    stamps, programs = folder / ".venv" / "stamps", folder / ".venv" / "bin"
    stamps.mkdir(parents=True)
    programs.mkdir()
    (folder / ".venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}").mkdir(
        parents=True
    )
    (stamps / "venv").write_text(f"{folder} python {sys.version_info[0]}.{sys.version_info[1]}\n")
    tools = (folder / "requirements" / "tools.txt").read_bytes()
    (stamps / "tools").write_text(hashlib.sha256(tools).hexdigest() + "\n")
    for name, script in (
        ("python", f'case "$*" in *pip*) exit 6 ;; esac\nexec {sys.executable} "$@"'),
        ("uv", "exit 7"),
        ("npm", "exit 8"),
        ("node", "exit 9"),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "PYTHON": sys.executable,
        "HOME": str(tmp_path),
    }
    command = [folder / "requirements" / "install.sh", "frontend"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "frontend" / "src" / "more.ts").write_text("export const more = 1;\n")
    changed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert changed.returncode != 0 and "Node" in changed.stderr, (
        "pages of another source are built anew"
    )


@pytest.mark.parametrize("lack", ["a digest", "a commit", "pages"])
def test_a_release_that_could_not_be_repeated_is_refused(lack: str, checkout: Path) -> None:
    compose, page = (
        checkout / "docker" / "compose.yaml",
        checkout / "frontend" / "dist" / "index.html",
    )
    before = compose.read_text()
    if lack == "pages":
        page.rename(page.with_suffix(".away"))
    else:
        compose.write_text(
            before.replace(DIGEST, "", 1) if lack == "a digest" else before + "# changed\n"
        )
    if lack == "a digest":
        commit(checkout)
    try:
        refused = release(checkout)
    finally:
        compose.write_text(before)
        if lack == "pages":
            page.with_suffix(".away").rename(page)
        if lack == "a digest":
            commit(checkout)
    why = {"a digest": "docker/pin.sh", "a commit": "not committed", "pages": "make frontend"}[lack]
    assert refused.returncode == 1 and "no release: " in refused.stderr and why in refused.stderr
