"""Webhooks and their deliveries."""

from api.presenters import delivery_view, webhook_created, webhook_view
from api.rest.authentication import Caller
from console.webhooks import services
from tinkerscript.wire.webhooks import DeliveryList, WebhookCreate, WebhookCreated, WebhookList


def webhook_list(caller: Caller) -> WebhookList:
    """The project's webhooks."""
    return WebhookList(
        items=[webhook_view(webhook) for webhook in services.webhook_list(project=caller.project)]
    )


def webhook_create(caller: Caller, body: WebhookCreate) -> WebhookCreated:
    """Subscribe an address; the secret that signs is in this response and nowhere else."""
    webhook = services.webhook_create(project=caller.project, url=body.url, topics=body.topics)
    return webhook_created(webhook, services.webhook_secrets(webhook)[0])


def webhook_delete(caller: Caller, webhook_id: str) -> None:
    """Unsubscribe an address."""
    services.webhook_delete(project=caller.project, webhook_id=webhook_id)


def delivery_list(caller: Caller, webhook_id: str) -> DeliveryList:
    """What was sent, or is on its way, to a webhook."""
    deliveries = services.delivery_list(project=caller.project, webhook_id=webhook_id)
    return DeliveryList(items=[delivery_view(delivery) for delivery in deliveries])
