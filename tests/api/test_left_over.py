"""What one test leaves behind does not reach into the next."""

from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from asgiref.sync import SyncToAsync
from django.db import connection

LOOKS = 100  # more than the database is cleared in


@pytest.fixture(scope="module")
def left() -> Iterator[list[Future[None]]]:
    """What tests leave to asgiref's thread; all of it can use the database until it has ended."""
    jobs: list[Future[None]] = []
    yield jobs
    for job in jobs:
        job.result(25)


def look_up() -> None:
    for _ in range(LOOKS):
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM console_user")
            assert cursor.fetchone() == (1,), "it is still the test's"
        connection.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("time", range(3))
@pytest.mark.usefixtures("alice")
async def test_a_look_up_that_no_one_waits_for_ends_before_the_database_is_cleared(
    time: int, left: list[Future[None]]
) -> None:
    left.append(SyncToAsync.single_thread_executor.submit(look_up))
