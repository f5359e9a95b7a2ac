"""The lock names a version for everything that set-up installs, so that two machines get the same."""

import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
LOCK = "constraints.txt"


def requirements(name):
    lines = [line.partition(" #")[0].strip() for line in (REQUIREMENTS / name).read_text().splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def test_every_requirement_is_locked_to_a_version_that_it_allows():
    locked = {canonicalize_name(pin.name): pin for pin in requirements(LOCK)}
    for path in REQUIREMENTS.glob("*.txt"):
        for wanted in requirements(path.name):
            pin = locked.get(canonicalize_name(wanted.name)) or wanted
            assert re.fullmatch(r"==[^*,]+", str(pin.specifier)), f"{path.name}: {wanted} is pinned nowhere"
            version = str(pin.specifier).removeprefix("==")
            assert wanted.specifier.contains(version), f"{path.name}: {wanted} does not allow {version}"


def test_no_locked_version_is_that_of_one_build_or_file():
    assert [str(pin) for pin in requirements(LOCK) if pin.url or "+" in str(pin.specifier)] == []
