"""Django's admin, for the operator: everything can be looked at, nothing that a service guards can be changed."""

from django.contrib import admin

from console.models import ApiKey, Checkpoint, Membership, Project, Session, User


class ReadOnly(admin.ModelAdmin):
    """Rows change through services alone; a form would skip their rules."""

    def has_add_permission(self, request, obj=None):
        return False

    def has_change_permission(self, request, obj=None):
        return False

    def has_delete_permission(self, request, obj=None):
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
    list_display = ["id", "project", "base_model", "state", "desired", "policy_version", "restarts", "updated_at"]
    exclude = ["lease_sha256"]


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnly):
    list_display = ["id", "session", "kind", "state", "step", "created_at"]
