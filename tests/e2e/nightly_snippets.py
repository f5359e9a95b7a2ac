"""The tests of test_snippets.py with the real engine and trainer; part of ``make nightly``.

What a newcomer pastes then trains the bundled model as it does for them, and no advice of the
server's comes with it.
"""

from collections.abc import Iterator

import pytest
from e2e.loop_server import BUNDLED, RealServer
from e2e.test_snippets import *  # noqa: F403 - every test, and what they ask for
from e2e.test_snippets import NEEDS

from gpu_runtime.bundled_model import is_complete

# The longest plays 320 episodes one after the other, and ten steps.
pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(1800), *NEEDS]


@pytest.fixture(scope="module")
def loop_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """``manage.py up`` as a person starts it. No process of it is left at the end."""
    if not is_complete(BUNDLED):
        pytest.skip("the bundled model is not there: make quickstart")
    server = RealServer(tmp_path_factory.mktemp("real"))
    try:
        server.start()
        yield server
    finally:
        server.close()
