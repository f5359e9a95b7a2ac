"""A rank that loads nothing, for tests of how ranks are started and ended."""

from multiprocessing.connection import Connection

from gpu_runtime.training.rank_spec import RankSpec


def idle_rank(connection: Connection, spec: RankSpec) -> None:
    """Every command is done at once."""
    while True:
        try:
            connection.recv()
        except EOFError:
            return
        connection.send(("ok", None))
