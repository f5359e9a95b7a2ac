"""Webhooks and what is on its way to them."""

from django.db import models

from console.users.models import Project, new_id


def new_webhook_id() -> str:
    return new_id("whk")


def new_delivery_id() -> str:
    return new_id("dlv")


class Webhook(models.Model):
    """An address to which a project wants its events sent. Its secret is derived from the server's
    and kept nowhere.
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_webhook_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField(max_length=2000)
    topics = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "console_webhook"


class Delivery(models.Model):
    """One event for one webhook. ``next_at`` is when it is tried next; None: it is done with."""

    id = models.CharField(primary_key=True, max_length=40, default=new_delivery_id, editable=False)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    topic = models.CharField(max_length=40)
    body = models.TextField()
    state = models.CharField(max_length=10, default="pending")
    attempts = models.PositiveIntegerField(default=0)
    status = models.PositiveSmallIntegerField(null=True)
    error = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    next_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "console_delivery"
        indexes = [
            models.Index(
                fields=["next_at"], name="delivery_due", condition=models.Q(next_at__isnull=False)
            ),
            models.Index(fields=["webhook", "-created_at"], name="delivery_list"),
        ]
