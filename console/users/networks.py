"""From which networks a person signs in, so that a stranger's wrong passwords do not lock the
person out.

Wrong passwords are counted by account and network, and by address over all accounts. Guesses at one
account from many networks are counted together too; a network that the person has signed in from in
the last weeks is not stopped by those. What is known is kept in the cache: where that is lost, an
account under attack is safe but shut for an hour.
"""

import hashlib
import ipaddress
from typing import Any

from allauth.account import signals
from allauth.account.adapter import get_adapter
from django.core.cache import cache
from django.dispatch import receiver
from django.http import HttpRequest

from console.users.models import User

KNOWN_FOR_S = 60 * 24 * 3600
PREFIX = {4: 24, 6: 64}  # what one household or office has


def client_network(request: HttpRequest) -> str:
    """The network of the client's address."""
    address = get_adapter().get_client_ip(request)
    try:
        version = ipaddress.ip_address(address).version
    except ValueError:  # a socket that has none
        return address
    return str(ipaddress.ip_network(f"{address}/{PREFIX[version]}", strict=False))


def network_is_known(request: HttpRequest, account: str) -> bool:
    """Whether ``account``, an address in lower case, has signed in from the client's network
    lately.
    """
    return cache.get(_key(request, account)) is not None


@receiver(signals.user_logged_in)
def network_remember(request: HttpRequest, user: User, **_: Any) -> None:
    cache.set(_key(request, user.email.lower()), True, KNOWN_FOR_S)


def _key(request: HttpRequest, account: str) -> str:
    return (
        "signed-in:" + hashlib.sha256(f"{account}|{client_network(request)}".encode()).hexdigest()
    )
