"""Base images have versions and digests, and docker/pin.sh writes which image each is."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

DOCKER = Path(__file__).resolve().parents[2] / "docker"
FILES = ("control-plane.Dockerfile", "runtime.Dockerfile", "compose.yaml")
# For a name its digest: of as many figures as the name is long, so that each has its own.
STUB = """#!/bin/sh
[ "$1 $2 $3 $5 $6" = 'buildx imagetools inspect --format {{.Manifest.Digest}}' ] || exit 3
case $4 in *@*) exit 4 ;; esac
[ -z "$BROKEN" ] && printf 'sha256:%s%064x\\n' "" "$(($SALT + ${#4}))" || echo "$BROKEN"
"""


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    """A copy of the folder, and a program "docker" that says a digest of any name."""
    copy = tmp_path / "docker"
    copy.mkdir()
    for name in (*FILES, "pin.sh"):
        shutil.copy(DOCKER / name, copy)
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin" / "docker"
    stub.write_text(STUB)
    stub.chmod(0o755)
    return copy


def pin(
    docker: Path, *words: str, salt: int = 0, broken: str = ""
) -> subprocess.CompletedProcess[str]:
    path = f"{docker.parent / 'bin'}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "SALT": str(salt), "BROKEN": broken}
    return subprocess.run(
        [docker / "pin.sh", *words], env=environment, capture_output=True, text=True, timeout=60
    )


def images(folder: Path) -> set[str]:
    """What the files begin with, but for what is built here."""
    text = "".join((folder / name).read_text() for name in FILES[:2])
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"].values()
    named = re.findall(r"^ARG \w+_IMAGE=(\S+)$", text, re.MULTILINE) + [
        service["image"] for service in services
    ]
    return {image for image in named if not image.startswith("tinkerscript-")}


@pytest.mark.smoke
def test_each_image_has_a_version_and_a_digest() -> None:
    for image in images(DOCKER):
        assert re.fullmatch(r"[\w./-]+:[\w.-]*\d[\w.-]*@sha256:[0-9a-f]{64}", image), image
    for path in (*DOCKER.rglob("*.yaml"), *DOCKER.glob("*Dockerfile")):
        assert ":latest" not in path.read_text(), path


def test_the_digest_of_every_image_is_written_and_renewed(docker: Path) -> None:
    names = {image.partition("@")[0] for image in images(docker)}
    assert pin(docker).returncode == 0
    first = images(docker)
    assert (
        first == {f"{name}@sha256:{len(name):064x}" for name in names}
        and pin(docker, "--check").returncode == 0
    )
    assert pin(docker, salt=16).returncode == 0
    assert images(docker) == {f"{name}@sha256:{16 + len(name):064x}" for name in names}


def test_what_has_no_digest_is_named(docker: Path) -> None:
    for name in FILES:
        path = docker / name
        path.write_text(re.sub(r"@sha256:[0-9a-f]{64}", "", path.read_text()))
    checked = pin(docker, "--check")
    assert (
        checked.returncode == 1 and "python:3.11" in checked.stderr and "caddy:" in checked.stderr
    )
    before = images(docker)
    refused = pin(docker, broken="<no value>")
    assert (
        refused.returncode == 1
        and "no digest but '<no value>'" in refused.stderr
        and images(docker) == before
    )
    assert pin(docker, "--all").returncode == 2
