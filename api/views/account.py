"""The caller and their API keys."""

from django.http import HttpRequest

from api.presenters import account_view, key_created, key_view
from console.users.selectors import key_list as keys_of
from console.users.selectors import project_list
from console.users.services import key_create as create
from console.users.services import key_revoke as revoke
from tinkerscript.wire.account import AccountView, KeyCreate, KeyCreated, KeyList


def account_get(request: HttpRequest) -> AccountView:
    """Who is calling, and their projects; a key knows only its own."""
    memberships = project_list(user=request.auth.user)
    if request.auth.key:
        memberships = memberships.filter(project=request.auth.project)
    return account_view(request.auth.user, memberships)


def key_list(request: HttpRequest) -> KeyList:
    """The project's API keys."""
    return KeyList(items=[key_view(key) for key in keys_of(project=request.auth.project)])


def key_create(request: HttpRequest, body: KeyCreate) -> KeyCreated:
    """Make an API key; its secret is in this answer and nowhere else."""
    key, secret = create(project=request.auth.project, user=request.auth.user, **dict(body))
    return key_created(key, secret)


def key_revoke(request: HttpRequest, key_id: str) -> None:
    """End an API key."""
    revoke(project=request.auth.project, key_id=key_id)
