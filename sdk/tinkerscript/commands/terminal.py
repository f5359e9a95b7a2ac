"""What commands share: a connection with the environment's settings, and lists for people or for
programs.
"""

import contextlib
import sys
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table

from tinkerscript.connection.connecting import connect
from tinkerscript.connection.transport import Transport

out = Console()


@contextlib.contextmanager
def connection() -> Iterator[Transport]:
    """A connection that is closed at the end, however that comes."""
    # one try at first: whoever reads the answer can try again
    with contextlib.closing(connect(retry_timeout_s=30.0, first_contact_s=0.0)) as transport:
        yield transport


def rows_print(columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    """A table on a terminal; elsewhere whole values with tabs between them, for programs."""
    texts = [tuple("" if value is None else str(value) for value in row) for row in rows]
    if not sys.stdout.isatty():
        for row in texts:
            print("\t".join(row))
        return
    table = Table(*columns)
    for row in texts:
        table.add_row(*row)
    out.print(table)
