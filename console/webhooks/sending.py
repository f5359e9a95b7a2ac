"""Sending what is due. Several senders may run: each delivery is claimed by moving its next try
into the future.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from typing import TypeVar

import aiohttp
from django.db.models import F
from django.utils import timezone

from console.webhooks.addresses import AddressRefused, PublicResolver, public_client, url_problem
from console.webhooks.models import Delivery
from console.webhooks.services import webhook_secrets
from tinkerscript.webhooks import HEADER, sign
from tinkerscript.wire.webhooks import DeliveryState

T = TypeVar("T")

MAX_IN_FLIGHT = 64  # of all projects
MAX_PER_PROJECT = 2
TIMEOUT_S = 10.0
LOOK_S = 0.5  # how soon a new delivery is found while others are on their way
# longer than a try: a sender that died leaves its deliveries to the next
CLAIM = timedelta(seconds=60)
# After the first, second... try that failed. Two days in all.
BACK_OFF_S = (5, 30, 120, 600, 3600, 4 * 3600, 12 * 3600, 24 * 3600)


def deliveries_send(
    *, resolver: PublicResolver | None = None, stopped: Callable[[], bool] = lambda: False
) -> int:
    """Try what is due until nothing is, or ``stopped()``; how many were tried.

    A project has two on their way at once and projects take turns, so that one whose receivers
    never respond delays its own deliveries alone.
    """
    sender, tried = Sender(resolver), 0
    try:
        while sender.in_flight or not stopped():
            tried += 0 if stopped() else sender.claim()
            if not sender.in_flight:
                return tried
            sender.wait()
        return tried
    finally:
        sender.close()


class Sender:
    """What is on its way. Its event loop turns only inside ``wait``: the tables are read and
    written between.
    """

    def __init__(self, resolver: PublicResolver | None) -> None:
        self.in_flight: dict[asyncio.Task[tuple[int | None, str]], Delivery] = {}
        self._resolver = resolver
        self._client: aiohttp.ClientSession | None = None
        self._runner = asyncio.Runner()
        # when each project's last delivery left: the longest ago is next
        self._served_at: dict[str, float] = {}

    def claim(self) -> int:
        """Send what is due and has a place; how many."""
        taken = Counter(delivery.webhook.project_id for delivery in self.in_flight.values())
        claimed = 0
        while len(self.in_flight) < MAX_IN_FLIGHT:
            full = [project for project, count in taken.items() if count >= MAX_PER_PROJECT]
            due = Delivery.objects.filter(next_at__lte=timezone.now()).exclude(
                webhook__project_id__in=full
            )
            projects = list(due.order_by().values_list("webhook__project_id", flat=True).distinct())
            # Where all have a place: as many as a project may have, of one read. Else each in its
            # turn.
            is_room = len(projects) * MAX_PER_PROJECT <= MAX_IN_FLIGHT - len(self.in_flight)
            for project in sorted(projects, key=lambda project: self._served_at.get(project, 0.0)):
                if len(self.in_flight) == MAX_IN_FLIGHT:
                    break
                self._served_at[project] = time.monotonic()
                for delivery in _claim(
                    project, timezone.now(), MAX_PER_PROJECT - taken[project] if is_room else 1
                ):
                    self.in_flight[self._runner.get_loop().create_task(self._post(delivery))] = (
                        delivery
                    )
                    claimed += 1
                taken[project] += 1
            if is_room:
                break
        return claimed

    def wait(self) -> None:
        """Until one has an outcome, which is recorded, or it is time to look for new ones."""
        waiting = asyncio.wait(self.in_flight, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        done, _ = self._runner.run(_awaited(waiting))
        for task in done:
            _record(self.in_flight.pop(task), *task.result())

    def close(self) -> None:
        if self._client is not None:
            self._runner.run(self._client.close())
        self._runner.close()

    async def _post(self, delivery: Delivery) -> tuple[int | None, str]:
        if self._client is None:
            self._client = public_client(self._resolver or PublicResolver(), timeout_s=TIMEOUT_S)
        return await _post(self._client, delivery)


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable  # a runner takes coroutines alone


def _claim(project_id: str, now: datetime, most: int) -> Iterator[Delivery]:
    """The project's deliveries that have been due longest, but for those where another sender was
    faster.
    """
    due = Delivery.objects.select_related("webhook").filter(
        webhook__project_id=project_id, next_at__lte=now
    )
    for delivery in due.order_by("next_at", "id")[:most]:
        mine = Delivery.objects.filter(id=delivery.id, next_at=delivery.next_at)
        if mine.update(next_at=now + CLAIM, attempts=F("attempts") + 1) == 1:
            delivery.attempts += 1
            yield delivery


async def _post(client: aiohttp.ClientSession, delivery: Delivery) -> tuple[int | None, str]:
    """The response's status, and what went wrong in words that reveal nothing of our network."""
    webhook, body = delivery.webhook, delivery.body.encode()
    # the setting may have changed since the webhook was made
    if problem := url_problem(webhook.url):
        return None, problem
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "TinkerScript-Webhooks/1",
        HEADER: sign(body, *webhook_secrets(webhook), at=int(time.time())),
    }
    try:
        async with client.post(
            webhook.url, data=body, headers=headers, allow_redirects=False
        ) as response:
            good = 200 <= response.status < 300
            return response.status, "" if good else f"status {response.status}"
    except TimeoutError:
        return None, "no response in time"
    except aiohttp.ClientConnectorDNSError as error:
        refused = isinstance(error.os_error, AddressRefused)
        return (
            None,
            "its name leads to an address that is not public"
            if refused
            else "its name is not known",
        )
    except aiohttp.ClientError as error:
        return None, f"no connection ({type(error).__name__})"


def _record(delivery: Delivery, status: int | None, error: str) -> None:
    now, attempts = timezone.now(), delivery.attempts
    if not error:
        fields = {"state": DeliveryState.DELIVERED, "delivered_at": now, "next_at": None}
    elif attempts > len(BACK_OFF_S):
        fields = {"state": DeliveryState.FAILED, "next_at": None}
    else:
        fields = {"next_at": now + timedelta(seconds=BACK_OFF_S[attempts - 1])}
    Delivery.objects.filter(id=delivery.id).update(status=status, error=error, **fields)
