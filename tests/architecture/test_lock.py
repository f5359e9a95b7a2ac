"""The lock names a version for everything that set-up installs, so that two machines get the same."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
LOCK = "constraints.txt"
# By requirements that have an environment of their own.
OWN_LOCKS = {"clients.txt": "clients.lock", "swift.txt": "swift.lock"}


def requirements(name):
    lines = [line.partition(" #")[0].strip() for line in (REQUIREMENTS / name).read_text().splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def test_every_requirement_is_locked_to_a_version_that_it_allows():
    for path in REQUIREMENTS.glob("*.txt"):
        locked = {canonicalize_name(pin.name): pin for pin in requirements(OWN_LOCKS.get(path.name, LOCK))}
        for wanted in requirements(path.name):
            pin = locked.get(canonicalize_name(wanted.name)) or wanted
            assert re.fullmatch(r"==[^*,]+", str(pin.specifier)), f"{path.name}: {wanted} is pinned nowhere"
            version = str(pin.specifier).removeprefix("==")
            assert wanted.specifier.contains(version), f"{path.name}: {wanted} does not allow {version}"


@pytest.mark.parametrize("lock", [LOCK, *OWN_LOCKS.values()])
def test_no_locked_version_is_that_of_one_build_or_file(lock):
    assert [str(pin) for pin in requirements(lock) if pin.url or "+" in str(pin.specifier)] == []
