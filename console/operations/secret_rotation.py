"""Replaces the secrets that the server made for itself, while it does not run.

What the server's secret signed or encrypted is accepted under the one before it too, until the next
rotation or ``previous_forget``. Every step leaves a server that starts and knows everybody, so that
an interruption loses nothing: rows are first brought under the secret that is in force now, which
the files name before and after their replacement.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings

from console.config.private_files import replace
from console.errors import Conflict
from console.object_store import seaweedfs
from console.scheduling.children.supervisor import AlreadyRunning, lock_take
from console.scheduling.leader import leader_status
from console.sessions.models import Session
from console.users.sealing import sealed_renew

FROM_ENVIRONMENT = (
    "Suspend what runs (`manage.py drain`), stop the server, set TINKERSCRIPT_SECRET_KEY to a new "
    "key (openssl rand -hex 32), a space and the present one, start it (`manage.py prepare` first, "
    "where it is not `up`), and `manage.py drain --off`. Before the next time let it start once "
    "with both."
)


def secrets_rotate() -> bool:
    """New secrets; whether the store's are among them. Raises Conflict when the server's is not
    ours or it runs.
    """
    _refuse_given()
    with _stopped():
        sealed_renew()
        if not settings.S3_ENDPOINT_URL:
            seaweedfs.credentials_rotate(settings.DATA)
        # Last: a rotation that was interrupted before it can be run again.
        replace(settings.SECRET_KEY_FILE, f"{secrets.token_urlsafe(64)}\n{settings.SECRET_KEY}\n")
    return not settings.S3_ENDPOINT_URL


def previous_forget() -> None:
    """Accept the secret in force alone. Raises Conflict when there is no other, it is not ours or
    the server runs.
    """
    _refuse_given()
    if not settings.SECRET_KEY_FALLBACKS:
        raise Conflict("No older secret is accepted.")
    with _stopped():
        sealed_renew()
        replace(settings.SECRET_KEY_FILE, f"{settings.SECRET_KEY}\n")


def _refuse_given() -> None:
    if settings.SECRET_KEY_IS_GIVEN:
        raise Conflict(
            "The server's secret comes from TINKERSCRIPT_SECRET_KEY: nothing was changed.",
            hint=FROM_ENVIRONMENT,
        )


@contextmanager
def _stopped() -> Iterator[None]:
    """While nothing of the server runs: its processes read secrets when they start. Raises
    Conflict.
    """
    hint = (
        "Stop it, rotate, and start it again: sessions go on from their last state and no one "
        "is signed out."
    )
    try:
        lock = lock_take(settings.DATA / "run")
    except AlreadyRunning as holder:
        raise Conflict(
            f"`manage.py up` (pid {holder}) serves {settings.DATA}.", hint=hint
        ) from None
    with lock:
        if leader_status() is not None:
            raise Conflict("A reconciler is at work, or was until some seconds ago.", hint=hint)
        if running := Session.objects.filter(launch_handle__isnull=False).count():
            raise Conflict(
                f"{running} runtimes of this server are there; they know the old secrets.",
                hint="Start the server and stop it with Ctrl-C, or let it suspend them (`manage.py "
                "drain`) first.",
            )
        yield
