"""What a browser asks django-allauth's JSON endpoints."""

import re
from typing import Any
from urllib.parse import unquote

import factories
from django.core import mail
from django.test import Client

from console import settings as server_settings
from console.users.models import User

JSON = "application/json"
NEW = {"email": "nina@example.com", "password": "a long enough passphrase"}
OTHER_PASSWORD = "quite another passphrase"


def ask(client: Client, method: str, path: str, body: Any = None, **extra: Any):
    return client.generic(
        method, f"/_allauth/browser/v1/{path}", client._encode_json(body or {}, JSON), content_type=JSON, **extra
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
    return unquote(re.search(rf"{re.escape(server_settings.PUBLIC_URL)}/{path}/(\S+)", message.body)[1])
