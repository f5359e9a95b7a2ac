"""Who owns things: users, projects, memberships, API keys."""

import hashlib
import secrets

from django.contrib.auth.models import AbstractUser
from django.db import models

# of Django's and django-allauth's columns; SQLite takes longer ones, PostgreSQL fails
EMAIL_MAX_LENGTH = 254
NAME_MAX_LENGTH = 120


def new_id(prefix: str) -> str:
    """A readable random id, e.g. ``ses_9f2c41d07ab3e85f``: 64 random bits after the prefix."""
    return f"{prefix}_{secrets.token_hex(8)}"


def new_project_id() -> str:
    return new_id("prj")


def new_member_id() -> str:
    return new_id("mem")


def new_key_id() -> str:
    return new_id("key")


class User(AbstractUser):
    """A person. The e-mail address is the name; ``username`` stays only because libraries ask for
    it.
    """

    email = models.EmailField(unique=True)
    # the end of their last runtime that is over (sessions/limits)
    slot_freed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "console_user"

    def get_session_auth_hash(self) -> str:
        """What ends a person's sign-ins when their password changes: it stands in each of their
        browser sessions.

        Of the password alone, unlike Django's: rows of sessions are signed as they are, and a
        rotation of the server's secret would end sign-ins by it (Django's way out gives the cookie
        another name in mid-page).
        """
        return hashlib.sha256(f"sign-in|{self.password}".encode()).hexdigest()


class Project(models.Model):
    """Every row that matters belongs to one."""

    id = models.CharField(primary_key=True, max_length=40, default=new_project_id, editable=False)
    name = models.CharField(max_length=NAME_MAX_LENGTH)
    created_at = models.DateTimeField(auto_now_add=True)
    # Set by who runs the server (manage.py set_quota); none means no limit.
    # GPUs in use at once; a runtime without one counts as one
    device_quota = models.PositiveIntegerField(null=True)
    session_quota = models.PositiveIntegerField(null=True)  # sessions that have not ended
    storage_quota_bytes = models.PositiveBigIntegerField(null=True)  # committed checkpoints
    slot_freed_at = models.DateTimeField(null=True)  # as a person's, of sessions that name none

    class Meta:
        db_table = "console_project"


class Membership(models.Model):
    """A user's role in a project: owner, member or viewer (tinkerscript.wire.account.Role).

    An invitation is one without a user: ``email`` says who may take it, and is empty once it was
    accepted.
    """

    member_id = models.CharField(max_length=40, default=new_member_id, unique=True, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships", null=True)
    email = models.EmailField(blank=True)
    role = models.CharField(max_length=10)
    # the newest of the project's alerts that this person has seen
    alerts_read = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "console_membership"
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="one_role_per_member"),
            models.UniqueConstraint(
                fields=["project", "email"],
                condition=~models.Q(email=""),
                name="one_invitation_per_address",
            ),
        ]


class ApiKey(models.Model):
    """A key of a project. The secret is 256 random bits, shown once; only its SHA-256 is kept."""

    id = models.CharField(primary_key=True, max_length=40, default=new_key_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="keys")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="keys")
    name = models.CharField(max_length=120, blank=True)
    prefix = models.CharField(max_length=16)
    sha256 = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    allowed_models = models.JSONField(null=True)  # names of base models; None: every one
    # device-seconds of the sessions that it made; None: no cap
    spend_cap_s = models.PositiveBigIntegerField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    # no column: what its maker is in its project, once users/keys.py has looked
    maker_role: str | None = None

    class Meta:
        db_table = "console_apikey"


class IdempotencyRecord(models.Model):
    """The response to a request with an Idempotency-Key; for a day a repeated request gets the same
    again.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    request = models.CharField(max_length=300)
    body_sha256 = models.CharField(max_length=64)
    # None: the response held a secret and was not kept
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "console_idempotencyrecord"
        constraints = [
            models.UniqueConstraint(
                fields=["project", "key"], name="one_answer_per_idempotency_key"
            )
        ]
        indexes = [models.Index(fields=["project", "created_at"], name="answer_age")]
