"""What a browser asks django-allauth's JSON endpoints."""

import json
import re
from typing import Any
from urllib.parse import unquote

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.core import mail
from django.test import Client

from console import settings as server_settings
from console.users.models import User
from console.users.sign_in_sessions import SessionStore
from support import factories

JSON = "application/json"
NEW = {"email": "nina@example.com", "password": "a long enough passphrase"}
OTHER_PASSWORD = "quite another passphrase"


def ask(client: Client, method: str, path: str, body: Any = None, **extra: Any):
    return client.generic(
        method, f"/_allauth/browser/v1/{path}", json.dumps(body or {}), content_type=JSON, **extra
    )


def sign_in(client: Client, user: User, password: str = factories.PASSWORD):
    return ask(client, "POST", "auth/login", {"email": user.email, "password": password})


def signed_in(user: User) -> Client:
    client = Client()
    assert sign_in(client, user).status_code == 200
    return client


def is_in(client: Client) -> bool:
    return client.get("/v1/account").status_code == 200


def key_in(message: mail.EmailMessage, path: str) -> str:
    """The key at the end of the link that the mail carries."""
    return unquote(
        re.search(rf"{re.escape(server_settings.PUBLIC_URL)}/{path}/(\S+)", message.body)[1]
    )


async def cookie_of(user: User) -> bytes:
    """The Cookie header of a browser that this person has signed in with."""
    store = SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    await sync_to_async(store.save)()
    return f"{settings.SESSION_COOKIE_NAME}={store.cookie}".encode()
