"""Sending what is due. Several senders may run: each delivery is claimed by moving its next try into the future."""

import asyncio
import time
from datetime import datetime, timedelta

import aiohttp
from django.db.models import F
from django.utils import timezone

from console.webhooks.addresses import AddressRefused, PublicResolver, url_problem
from console.webhooks.models import Delivery
from console.webhooks.services import webhook_secrets
from tinkerscript.webhooks import HEADER, sign
from tinkerscript.wire.webhooks import DeliveryState

AT_ONCE = 20
TIMEOUT_S = 10.0
CLAIM = timedelta(seconds=60)  # longer than a try: a sender that died leaves its deliveries to the next
# After the first, second... try that failed. Two days in all.
BACK_OFF_S = (5, 30, 120, 600, 3600, 4 * 3600, 12 * 3600, 24 * 3600)


def deliveries_send(*, resolver: PublicResolver | None = None) -> int:
    """Try what is due, at most 20 at once; how many were tried."""
    claimed = _claim(timezone.now())
    if claimed:
        outcomes = asyncio.run(_post_all(claimed, resolver))
        for delivery, (status, error) in zip(claimed, outcomes, strict=True):
            _record(delivery, status, error)
    return len(claimed)


def _claim(now: datetime) -> list[Delivery]:
    claimed = []
    for delivery in Delivery.objects.filter(next_at__lte=now).order_by("next_at")[:AT_ONCE]:
        mine = Delivery.objects.filter(id=delivery.id, next_at=delivery.next_at)
        if mine.update(next_at=now + CLAIM, attempts=F("attempts") + 1) == 1:
            claimed.append(delivery)
    return list(Delivery.objects.select_related("webhook").filter(id__in=[delivery.id for delivery in claimed]))


async def _post_all(deliveries: list[Delivery], resolver: PublicResolver | None) -> list[tuple[int | None, str]]:
    connector = aiohttp.TCPConnector(resolver=resolver or PublicResolver(), use_dns_cache=False)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=jar, trust_env=False) as client:
        return await asyncio.gather(*(_post(client, delivery) for delivery in deliveries))


async def _post(client: aiohttp.ClientSession, delivery: Delivery) -> tuple[int | None, str]:
    """The status that it was answered with, and what went wrong in words that tell nothing of our network."""
    webhook, body = delivery.webhook, delivery.body.encode()
    if problem := url_problem(webhook.url):  # the setting may have changed since the webhook was made
        return None, problem
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "TinkerScript-Webhooks/1",
        HEADER: sign(body, *webhook_secrets(webhook), at=int(time.time())),
    }
    try:
        async with client.post(webhook.url, data=body, headers=headers, allow_redirects=False) as answer:
            good = 200 <= answer.status < 300
            return answer.status, "" if good else f"answered {answer.status}"
    except TimeoutError:
        return None, "no answer in time"
    except aiohttp.ClientConnectorDNSError as error:
        refused = isinstance(error.os_error, AddressRefused)
        return None, "its name leads to an address that is not public" if refused else "its name is not known"
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
