"""Reading a page of a list whose filter nearly all episodes pass, on PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections, transaction

from console.sessions.models import EpisodeRecord


@contextmanager
def read_in_order(*, is_common: bool) -> Iterator[None]:
    """Where ``is_common``, PostgreSQL walks the index that has the order of the list until a page is full.

    It has no statistics of pieces of text and takes each for rare: without this it reads all episodes of the session
    and sorts what it finds. SQLite walks the index by itself.
    """
    database = connections[EpisodeRecord.objects.db]
    if not is_common or database.vendor != "postgresql":
        yield
        return
    with transaction.atomic(using=database.alias), database.cursor() as cursor:
        cursor.execute("SET LOCAL enable_sort = off")
        yield
        cursor.execute("SET LOCAL enable_sort = DEFAULT")  # the transaction may be that of the caller
