"""One at a time, in all processes of a server: work on a session's objects that two callers at once
would undo.

A turn is a row with an end, taken and prolonged by one conditional UPDATE. It holds no connection
to the database, so that a pool of connections may stand before it, and no transaction around
requests to the object store; what a process held that was killed ends by itself.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import IntegrityError, models, transaction
from django.utils import timezone

from console.errors import SessionNotReady
from console.sessions.models import Session

TURN_S = 300.0  # longer than the work between two renewals, which is on one object
RETRY_AFTER_S = 2


class SessionTurn(models.Model):
    """A row while someone works on the objects of a session; ``holder`` is a random name of theirs.
    After ``expires_at`` another may take it.
    """

    session = models.OneToOneField(
        Session, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    holder = models.CharField(max_length=32)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "console_sessionturn"


class Turn:
    """The turn at one session that its holder has, or had until another took it."""

    def __init__(self, session_id: str) -> None:
        self._session_id, self._holder = session_id, secrets.token_hex(16)

    def renew(self) -> None:
        """Have it for TURN_S from now. Raises SessionNotReady when it ran out and another caller
        took it.

        Inside a transaction no other can take it before the end of that: what is written there is
        written in turn.
        """
        values = {"expires_at": timezone.now() + timedelta(seconds=TURN_S)}
        if not SessionTurn.objects.filter(session_id=self._session_id, holder=self._holder).update(
            **values
        ):
            raise _taken()

    def take(self) -> None:
        """Begin. Raises SessionNotReady while another caller has it."""
        now = timezone.now()
        values = {"holder": self._holder, "expires_at": now + timedelta(seconds=TURN_S)}
        if SessionTurn.objects.filter(session_id=self._session_id, expires_at__lte=now).update(
            **values
        ):
            return
        try:
            with transaction.atomic():
                SessionTurn.objects.create(session_id=self._session_id, **values)
        except IntegrityError:
            raise _taken() from None

    def release(self) -> None:
        """Let the next one begin at once."""
        SessionTurn.objects.filter(session_id=self._session_id, holder=self._holder).delete()


@contextmanager
def session_turn(session_id: str) -> Iterator[Turn]:
    """Have the session's turn within the block, which renews it before each object. Raises
    SessionNotReady.

    While another caller has it there is no waiting: many who wait would each hold a thread and a
    connection to the database. Clients of REST try 503 again by themselves.
    """
    turn = Turn(session_id)
    turn.take()
    try:
        yield turn
    finally:
        turn.release()


def _taken() -> SessionNotReady:
    return SessionNotReady(
        "Another episode of this session is being erased.",
        hint="Try again in a moment; one is erased at a time.",
        details={"retry_after_s": RETRY_AFTER_S},
    )
