"""What a session of each kind is made of: one row a kind.

episodes    engine, trainer, journal, archive, batches, learner, and the gateway of episodes
Tinker      an engine of many samplers, a trainer of many models, journal, ledger of operations,
            the Tinker wire
serving     an engine, and the gateway of a model that is not trained
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from tinkerscript.wire.sessions import SessionKind

from .kinds.episodes import episodes_open
from .kinds.serving import serving_open
from .kinds.tinker import tinker_open
from .session import Parts, Session

# Each loads what its kind needs and gives the parts, built; after the block every process of theirs
# has ended.
PARTS: dict[SessionKind, Callable[[Session], AbstractAsyncContextManager[Parts]]] = {
    SessionKind.EPISODES: episodes_open,
    SessionKind.TINKER: tinker_open,
    SessionKind.SERVING: serving_open,
}
