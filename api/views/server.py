"""What this server is, for clients of other versions."""

from api.rest.authentication import Caller
from console.operations.capacity import capacity_get as capacity
from tinkerscript.wire.dialects.table import DIALECTS
from tinkerscript.wire.server import CapacityView, ServerView
from tinkerscript.wire.version import VERSION

MINIMUM_CLIENT = "0.2.0"
CAPABILITIES = ("priority", "budget", "serving")  # beside the dialects


def server_get(caller: Caller) -> ServerView:
    """The server's version, the oldest client that it serves, and what not every version can do."""
    of_dialects = [name for row in DIALECTS for name in row.capabilities]
    return ServerView(
        version=VERSION,
        minimum_client=MINIMUM_CLIENT,
        capabilities=sorted([*CAPABILITIES, *of_dialects]),
    )


def capacity_get(caller: Caller) -> CapacityView:
    """What the project has of the server and waits for; a signed-in operator (Django staff) is told
    of all.
    """
    return capacity(project=caller.project, is_operator=caller.is_operator)
