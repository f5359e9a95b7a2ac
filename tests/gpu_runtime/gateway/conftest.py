"""A gateway for every test that asks for one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.gateway_harness import Gateway, running_gateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """ChatML with tools; groups of two, batches of two groups."""
    async with running_gateway(tmp_path) as served:
        yield served
