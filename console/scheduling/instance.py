"""Which server this is. Runtimes carry it in their names, so that a server ends its own and never
those of a copy.

A backup that is restored beside the server it came from has the same sessions; so has a copy of
DATA. Neither is the same instance: ``restore`` draws another secret, and the number of SQLite's
file is part of the id.

And whether it is being drained: nothing starts, and what runs saves its state and is suspended, so
that the machine can be worked on.
"""

import hashlib
import os
import secrets

from django.db import connection

from console.live.services import event_record
from console.scheduling.launchers.protocol import launch_instance
from console.scheduling.models import Drain, LeaderLease, ServerInstance
from console.sessions.models import Desired, Session
from console.sessions.states import WITH_RUNTIME
from console.sessions.transitions import NO_LEASE
from tinkerscript.wire.config import HERE
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionState

ID_LENGTH = 8
GONE = {"launch_handle": None, "lease_sha256": "", "lease_expires_at": None, "address": ""}


def instance_id() -> str:
    """Eight hexadecimal digits, made at the first call: the same in every process of this server,
    in no other.
    """
    instance, _ = ServerInstance.objects.get_or_create(
        id=1, defaults={"secret": secrets.token_hex(16)}
    )
    return hashlib.sha256(f"{instance.secret}:{_database_file()}".encode()).hexdigest()[:ID_LENGTH]


def instance_renew() -> None:
    """Be another server from now on, whose sessions have no runtimes yet: what ran, or was about
    to, is suspended.
    """
    ServerInstance.objects.update_or_create(id=1, defaults={"secret": secrets.token_hex(16)})
    LeaderLease.objects.all().delete()
    for session in Session.objects.filter(state__in={*WITH_RUNTIME, SessionState.QUEUED}):
        _suspend(session)
    Session.objects.update(**GONE)


def foreign_runtimes_forget() -> list[str]:
    """Let go of runtimes that another instance launched; the sessions, suspended.

    They are there when DATA was copied: the server of the original has them still.
    """
    ours, suspended = instance_id(), []
    for session in Session.objects.filter(launch_handle__isnull=False):
        assert session.launch_handle is not None, "the query leaves the others out"
        if launch_instance(session.launch_handle["launch"]) != ours:
            _suspend(session)
            suspended.append(session.id)
    return suspended


def leases_revoke() -> int:
    """Fence off every runtime of this machine, which the reconciler then starts anew; how many
    there were."""
    return Session.objects.filter(place=HERE).exclude(lease_sha256="").update(**NO_LEASE)


def _suspend(session: Session) -> None:
    """Set the state directly, past the table of moves: no actor asked for it, this server found
    that it is a copy.
    """
    target = (
        SessionState.STOPPED if session.state == SessionState.STOPPING else SessionState.SUSPENDED
    )
    if session.state not in {*WITH_RUNTIME, SessionState.QUEUED}:
        Session.objects.filter(id=session.id).update(**GONE)
        return
    wanted = {} if target == SessionState.STOPPED else {"desired": Desired.SUSPEND}
    Session.objects.filter(id=session.id).update(
        state=target, phase="", restarts=0, **wanted, **GONE
    )
    data = {
        "from": session.state,
        "to": target,
        "phase": "",
        "reason": "this server is a copy of the one it ran on",
    }
    event_record(session_id=session.id, kind=EventKind.STATE, data=data)


def _database_file() -> int:
    """The number of SQLite's file, which a copy does not share; 0 for a database that is a server
    of its own.
    """
    if connection.vendor != "sqlite":
        return 0
    try:
        return os.stat(connection.settings_dict["NAME"]).st_ino
    except OSError:  # in memory
        return 0


def drain_begin() -> None:
    """From the next tick on. Again changes nothing."""
    Drain.objects.get_or_create(id=1)


def drain_end() -> None:
    """Sessions start again; those that were suspended wake at their next request, as always."""
    Drain.objects.all().delete()


def is_draining() -> bool:
    """Whether a drain was begun and not ended."""
    return Drain.objects.exists()
