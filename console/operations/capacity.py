"""What a project has of the server and waits for; and, for who runs the server, what every project
has.
"""

from collections import defaultdict

from django.conf import settings
from django.db.models import Count, Min, Q, QuerySet

from console.scheduling.instance import is_draining
from console.scheduling.models import WarmRuntime
from console.sessions.limits.devices import Device
from console.sessions.limits.queue import devices_in_use, queue_places
from console.sessions.limits.quotas import quotas_get
from console.sessions.models import Session
from console.sessions.states import WITH_RUNTIME
from console.users.models import Project
from tinkerscript.wire.server import (
    CapacityView,
    DeviceUse,
    ProjectUse,
    RunningSession,
    ServerCapacity,
    WaitingSession,
)
from tinkerscript.wire.sessions import SessionState

MAX_NAMED = 200  # sessions of each list
IS_QUEUED = Q(state=SessionState.QUEUED)
RUNNING, QUEUED = Count("id", filter=~IS_QUEUED), Count("id", filter=IS_QUEUED)


def capacity_get(*, project: Project, is_operator: bool) -> CapacityView:
    """Of the project alone, and with ``is_operator`` of the whole server: others' use shows with
    nobody else.
    """
    return CapacityView(
        max_runtimes=settings.MAX_RUNTIMES
        + sum(place.max_runtimes for place in settings.PLACES.values()),
        is_draining=is_draining(),
        running=_running(project),
        waiting=_waiting(project),
        quotas=quotas_get(project=project),
        server=_server() if is_operator else None,
    )


def _running(project: Project) -> list[RunningSession]:
    rows = Session.objects.filter(project=project, state__in=WITH_RUNTIME).order_by("-created_at")[
        :MAX_NAMED
    ]
    devices: defaultdict[str, list[str]] = defaultdict(list)
    held = Device.objects.filter(session__project=project).order_by("position")
    for session_id, device in held.values_list("session_id", "id"):
        devices[session_id].append(device)
    return [
        RunningSession(
            session_id=row.id, name=row.name, state=SessionState(row.state), since=row.state_since,
            devices=devices[row.id],
        )
        for row in rows
    ]  # fmt: skip


def _waiting(project: Project) -> list[WaitingSession]:
    queued = list(Session.objects.filter(project=project, state=SessionState.QUEUED))
    places = queue_places(row.id for row in queued)
    waiting = [
        WaitingSession(
            session_id=row.id,
            name=row.name,
            since=row.state_since,
            position=places[row.id][0],
            is_held=places[row.id][1],
        )
        for row in queued
        if row.id in places  # it has not started meanwhile
    ]
    return sorted(waiting, key=lambda row: row.position)[:MAX_NAMED]


def _server() -> ServerCapacity:
    devices = Device.objects.select_related("session").order_by("position")
    sessions = Session.objects.filter(state__in=[SessionState.QUEUED, *WITH_RUNTIME])
    counts = sessions.aggregate(
        runtimes=RUNNING, waiting=QUEUED, oldest_waits_since=Min("state_since", filter=IS_QUEUED)
    )
    return ServerCapacity(
        **counts,
        warm_runtimes=WarmRuntime.objects.filter(is_ready=True).count(),
        devices=[_device(device) for device in devices],
        projects=_projects(sessions),
    )


def _device(device: Device) -> DeviceUse:
    if (session := device.session) is not None:
        return DeviceUse(
            device=device.id, used_by="session", session_id=session.id, session_name=session.name
        )
    return DeviceUse(device=device.id, used_by="nobody", session_id=None, session_name=None)


def _projects(sessions: QuerySet[Session]) -> list[ProjectUse]:
    devices = devices_in_use()
    counted = sessions.order_by().values_list(
        "project_id", "project__name", "project__device_quota"
    )
    rows = [
        ProjectUse(
            project_id=project_id, name=name, runtimes=runtimes, devices=devices[project_id],
            device_quota=quota, waiting=waiting,
        )
        for project_id, name, quota, runtimes, waiting in counted.annotate(
            runtimes=RUNNING, waiting=QUEUED
        )
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row.devices, row.name))
