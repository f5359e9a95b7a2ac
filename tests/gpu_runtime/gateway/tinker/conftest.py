"""A runtime of a Tinker session for every test that asks for one."""

from pathlib import Path

import pytest

from support.tinker_harness import Open, opening


@pytest.fixture
def wire_open(tmp_path: Path) -> Open:
    """Opens a runtime on the test's volume; leaving the block is a kill: nothing is saved."""
    return opening(tmp_path)
