"""What keeps this server from serving, and what is wrong without keeping it from that."""

import urllib.error
import urllib.request

from django.conf import settings
from django.core.cache import cache
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from console.object_store.client import store_get
from console.object_store.free_space import shortage_find
from console.scheduling.leader import leader_status

STORE_TIMEOUT_S = 2.0
FRESH_S = 2.0


def obstacle_find() -> str | None:
    """Why no request can be served: the database is unreachable or not up to date. None: they
    can.
    """
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        return f"The database does not answer: {error}"
    if missing:
        first = missing[0][0].name
        return (
            f"The database lacks {len(missing)} migrations, from {first} on: run `python "
            "manage.py migrate`."
        )
    return None


def problems_list() -> list[str]:
    """What does not work though requests are served, as it was FRESH_S ago at most: asking may take
    seconds.
    """
    problems: list[str] | None = cache.get_or_set("readiness.problems", problems_find, FRESH_S)
    return problems or []


def problems_find() -> list[str]:
    problems = []
    if leader_status() is None:
        where = " for one of the places" if settings.PLACES else ""
        problems.append(
            f"No reconciler runs{where}: sessions do not start or end. Run `python manage.py "
            "reconcile`."
        )
    url = store_get().endpoint_url
    try:
        with urllib.request.urlopen(url, timeout=STORE_TIMEOUT_S):
            pass
    except urllib.error.HTTPError:
        # It responds, which is all that is asked here; whether it accepts our credentials shows at
        # a read or write.
        pass
    except OSError as error:
        problems.append(
            f"The object store at {url} does not answer: {error}. Checkpoints cannot be kept or "
            "fetched."
        )
    if shortage := shortage_find():
        problems.append(f"{shortage.message} {shortage.hint}")
    return problems
