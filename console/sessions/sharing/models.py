"""Links to runs. A link's token is shown once; its hash is kept."""

from django.conf import settings
from django.db import models

from console.sessions.models import Session
from console.users.models import ApiKey, new_id


def new_share_id() -> str:
    return new_id("shr")


class ShareLink(models.Model):
    """Reads one session until ``expires_at``. A revoked link is deleted: the audit log remembers
    it.

    ``key`` made it; a person in the console had none.
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_share_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="share_links")
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", null=True
    )
    key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="+", null=True)
    sha256 = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "console_sharelink"
