"""Django's admin, for the operator: everything can be looked at, nothing that a service guards can
be changed.
"""

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from console.audit.models import AuditRecord
from console.scheduling.models import WarmRuntime
from console.sessions.models import Checkpoint, Session
from console.users.models import ApiKey, Membership, Project, User
from console.webhooks.models import Webhook


class ReadOnly(admin.ModelAdmin):
    """Rows change through services alone; a form would skip their rules."""

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(User)
class UserAdmin(ReadOnly):
    list_display = ["email", "is_active", "date_joined"]
    exclude = ["password"]


@admin.register(Project)
class ProjectAdmin(ReadOnly):
    list_display = ["id", "name", "created_at"]


@admin.register(Membership)
class MembershipAdmin(ReadOnly):
    list_display = ["project", "user", "role"]


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnly):
    list_display = ["prefix", "project", "user", "created_at", "last_used_at", "revoked_at"]
    exclude = ["sha256"]


@admin.register(Session)
class SessionAdmin(ReadOnly):
    list_display = [
        "id",
        "project",
        "base_model",
        "state",
        "desired",
        "policy_version",
        "restarts",
        "updated_at",
    ]
    exclude = ["lease_sha256"]


@admin.register(WarmRuntime)
class WarmRuntimeAdmin(ReadOnly):
    list_display = ["id", "is_ready", "started_at"]


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnly):
    list_display = ["id", "session", "kind", "state", "step", "created_at"]


@admin.register(AuditRecord)
class AuditRecordAdmin(ReadOnly):
    list_display = ["project_id", "number", "content"]


@admin.register(Webhook)
class WebhookAdmin(ReadOnly):
    list_display = ["id", "project", "url", "created_at"]


def sign_in(request: HttpRequest, extra_context: object = None) -> HttpResponse:
    """Sign in at the console's page, which has lock-out and second factor: the admin's own form has
    neither.
    """
    if request.user.is_authenticated:
        raise PermissionDenied("This is for the server's staff.")
    return redirect("/signin?next=%2Fadmin%2F")


admin.site.login = sign_in  # type: ignore[method-assign]
