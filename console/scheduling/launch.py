"""How the reconciler launches a session's runtime: a warm one where one waits, else a new one."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import transaction

from console.live.services import event_record
from console.scheduling.instance import instance_id
from console.scheduling.launchers.protocol import Handle, Launcher, MachinesShort
from console.scheduling.launchers.warm import WarmRuntimes
from console.server.lease_address import runtime_server_url
from console.sessions.limits.devices import devices_take
from console.sessions.limits.places import place_launcher
from console.sessions.limits.quotas import device_quota_recheck
from console.sessions.models import Session
from console.sessions.runtime.leases import lease_issue
from console.sessions.states import WITH_RUNTIME, Actor
from console.sessions.transitions import session_move
from tinkerscript.processes.port_owner import TRUSTED
from tinkerscript.wire.config import HERE
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionState


class NotStarted(Exception):
    """The launcher could not start it, for the reason given."""


def runtime_launch(
    session: Session,
    *,
    launcher: Launcher,
    warm: WarmRuntimes | None,
    known: Sequence[str],
    kept: int,
) -> None:
    """Move the session to provisioning, with a lease, and start its runtime.

    Raises DevicesShort, MachinesShort, NotStarted, SlowToEnd while an earlier one is not gone, and
    Conflict where it cannot be now.

    ``known`` are this machine's devices, ``kept`` how many stay free for sessions before it in the
    queue. What names the runtime is stored before it is started.
    """
    chosen = warm.choose(session) if warm else None
    with transaction.atomic():
        device_quota_recheck(session=session)
        named = session.devices if place_launcher(session.place).row.names_devices else 0
        devices = devices_take(session_id=session.id, count=named, known=known, kept=kept)
        fresh = handle_new(session, launcher, gpus=session.devices, devices=devices)
        fresh |= {"warm": chosen} if chosen else {}
        # Over several machines: of some launchers alone (console/sessions/limits/places.py).
        fresh |= {"nodes": nodes} if (nodes := session.config.get("nodes", 1)) > 1 else {}
        session_move(
            session_id=session.id,
            source=SessionState(session.state),
            target=SessionState.PROVISIONING,
            actor=Actor.RECONCILER,
            reason=_reason(session, warm=warm, chosen=chosen),
            launcher=launcher.name,
            launch_handle=fresh,
            progress=0,
            progress_at=None,
        )
        token = lease_issue(session=session)
    environment = {
        "TINKERSCRIPT_SERVER_URL": runtime_server_url(),
        "TINKERSCRIPT_LEASE": token,
        "TINKERSCRIPT_RUNTIME_DIR": fresh["folder"],
    }
    if settings.TRUSTED_USERS and session.place == HERE:
        environment[TRUSTED] = ",".join(map(str, settings.TRUSTED_USERS))
    handle: dict[str, Any] | None = None
    try:
        if warm and chosen:
            handle = warm.take(fresh, environment)
            if handle is None:
                _not_taken_note(session)
        elif warm:  # first, so that there are never more than MAX_RUNTIMES
            warm.shrink(
                room=settings.MAX_RUNTIMES
                - Session.objects.filter(state__in=WITH_RUNTIME, place=HERE).count()
            )
        handle = handle or launcher.start(fresh, environment=environment)
    except MachinesShort:
        raise
    except OSError as error:
        raise NotStarted(f"the runtime could not be started: {error}") from error
    Session.objects.filter(id=session.id, lease_sha256=session.lease_sha256).update(
        launch_handle=handle
    )


def earlier_end(session: Session, *, launcher: Launcher) -> None:
    """End what is left of earlier launches of a session that has none now. Raises SlowToEnd while
    it is not gone.
    """
    launcher.others_end(handle_new(session, launcher))


def handle_new(
    session: Session, launcher: Launcher, *, gpus: int = 0, devices: Sequence[str] = ()
) -> Handle:
    """The handle of a launch of the session that is not started yet."""
    return launcher.new_handle(
        session_id=session.id,
        instance_id=instance_id(),
        folder=settings.DATA / "runtimes" / session.id,
        gpus=gpus,
        devices=devices,
    )


def runtime_handle(session: Session) -> dict[str, Any]:
    """By what the launcher finds the session's runtime: set together with the first state that has
    one.
    """
    assert session.launch_handle is not None, (
        f"{session.id} is {session.state} and was never launched"
    )
    return session.launch_handle


def _not_taken_note(session: Session) -> None:
    """The reason of its move names a warm runtime, which did not become the session's after all."""
    data = {
        "name": "warm_runtime",
        "cause": "the warm runtime did not take the session, so a new one is started",
    }
    event_record(session_id=session.id, kind=EventKind.EVENT, data=data)


def _reason(session: Session, *, warm: WarmRuntimes | None, chosen: str | None) -> str:
    reason = "a slot is free" if not session.restarts else f"restart {session.restarts}"
    if warm is None:
        return reason
    return f"{reason}: {'a warm runtime' if chosen else 'no warm runtime is ready, so a new one'}"
