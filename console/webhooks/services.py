"""Webhooks: subscribe, unsubscribe, and put an event on its way in the transaction in which it
happens.
"""

import hashlib
import hmac
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from console.errors import Conflict, NotFound
from console.users.models import Project, new_id
from console.webhooks.addresses import url_check
from console.webhooks.models import Delivery, Webhook
from tinkerscript.wire.webhooks import WebhookEvent, WebhookTopic

MAX_WEBHOOKS = 20
KEPT_FOR = timedelta(days=30)


def webhook_create(*, project: Project, url: str, topics: list[WebhookTopic]) -> Webhook:
    """Subscribe an address. Raises InvalidRequest for one that may not be called, Conflict when
    there are too many.
    """
    url_check(url)
    if Webhook.objects.filter(project=project).count() >= MAX_WEBHOOKS:
        raise Conflict(
            f"The project has {MAX_WEBHOOKS} webhooks.", hint="Delete one that is no longer needed."
        )
    return Webhook.objects.create(project=project, url=url, topics=sorted(set(topics)))


def webhook_secrets(webhook: Webhook) -> list[str]:
    """What signs its deliveries. The first is shown when the webhook is made; another one needs
    another webhook.

    A second one is what the first was before the server's secret was rotated: receivers who know
    that are served too.
    """
    message = f"webhook|{webhook.id}".encode()
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return [f"whsec_{hmac.new(key.encode(), message, hashlib.sha256).hexdigest()}" for key in keys]


def webhook_list(*, project: Project) -> QuerySet[Webhook]:
    """The webhooks of a project, newest first."""
    return Webhook.objects.filter(project=project).order_by("-created_at", "-id")


def webhook_get(*, project: Project, webhook_id: str) -> Webhook:
    """One of them. Raises NotFound."""
    webhook = webhook_list(project=project).filter(id=webhook_id).first()
    if webhook is None:
        raise NotFound("There is no such webhook in this project.")
    return webhook


def webhook_delete(*, project: Project, webhook_id: str) -> None:
    """Unsubscribe; what is on its way is dropped. Raises NotFound."""
    webhook_get(project=project, webhook_id=webhook_id).delete()


def delivery_list(*, project: Project, webhook_id: str, limit: int = 50) -> list[Delivery]:
    """The latest deliveries of a webhook, newest first. Raises NotFound."""
    webhook = webhook_get(project=project, webhook_id=webhook_id)
    return list(Delivery.objects.filter(webhook=webhook).order_by("-created_at", "-id")[:limit])


def event_announce(
    *, project_id: str | QuerySet[Any, Any], topic: WebhookTopic, data: dict[str, Any]
) -> None:
    """Put an event on its way to those who subscribed; it leaves when the surrounding transaction
    commits.

    ``project_id`` may be a query for it, which is asked with that for them: mostly there are none.
    """
    now = timezone.now()
    with transaction.atomic(savepoint=False):
        for webhook in Webhook.objects.filter(project_id=project_id):
            if topic not in webhook.topics:
                continue
            event = WebhookEvent(
                id=new_id("evt"), topic=topic, at=now, project_id=webhook.project_id, data=data
            )
            Delivery.objects.create(
                webhook=webhook, topic=topic, body=event.model_dump_json(), next_at=now
            )
