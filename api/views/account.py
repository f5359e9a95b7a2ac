"""The caller and their API keys."""

from api.presenters import account_view, key_view, sign_in_view
from api.rest.authentication import Caller
from api.views.queries import LimitQuery
from console.sessions.limits.usage import spent_by_key
from console.users import keys, sign_ins
from console.users.members import invitation_list
from console.users.selectors import key_list as keys_of
from console.users.selectors import project_list
from tinkerscript.wire.account import AccountView, KeyCreate, KeyCreated, KeyList, SignInList


def account_get(caller: Caller) -> AccountView:
    """Who is calling, and their projects; a key knows only its own."""
    user, key = caller.user, caller.key
    memberships = project_list(user=user)
    if key:
        return account_view(user, memberships.filter(project=caller.project), [])
    return account_view(user, memberships, invitation_list(user=user))


def sign_in_list(caller: Caller, query: LimitQuery) -> SignInList:
    """The caller's own sign-ins, refused ones, and changes of password and second factor."""
    records = sign_ins.sign_in_list(user=caller.user, limit=query.limit)
    return SignInList(items=[sign_in_view(record) for record in records])


def key_list(caller: Caller) -> KeyList:
    """The project's API keys."""
    project = caller.project
    spent = spent_by_key(project=project)  # by the sessions of each
    return KeyList(
        items=[key_view(key, spent.get(key.id, 0.0)) for key in keys_of(project=project)]
    )


def key_create(caller: Caller, body: KeyCreate) -> KeyCreated:
    """Make an API key; its secret is in this response and nowhere else."""
    key, secret = keys.key_create(project=caller.project, user=caller.user, **dict(body))
    return KeyCreated(**key_view(key).model_dump(), secret=secret)


def key_revoke(caller: Caller, key_id: str) -> None:
    """End an API key."""
    keys.key_revoke(project=caller.project, user=caller.user, key_id=key_id)
