"""A gateway with room for the long instructions that agent frameworks bring."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.gateway_harness import Gateway, running_gateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """ChatML with tools in the Qwen family's dialect."""
    async with running_gateway(tmp_path, max_context_length=32_768, max_tokens=512) as served:
        yield served
