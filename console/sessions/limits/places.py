"""Where a session's runtime runs: here, as the server's variables say, or at a further place of
TINKERSCRIPT_PLACES; and whether it may be spread over several machines there.

It is decided when the session is made, and stays: its devices and its memory are checked against
that place.
"""

from typing import Any

from django.conf import settings
from django.db.models import Count

from console.errors import InvalidRequest
from console.sessions.models import Session
from console.sessions.states import WITH_RUNTIME
from console.users.models import Project
from tinkerscript.wire.config import HERE, SessionConfig
from tinkerscript.wire.server import PlaceView
from tinkerscript.wire.sessions import SessionState


def place_choose(*, config: SessionConfig) -> SessionConfig:
    """``config`` with the name of a place in ``place``, where it may have named a kind. Raises
    InvalidRequest.

    Of several places of one kind it is the one whose sessions, running and waiting, are the fewest
    for its room.
    """
    if config.place == HERE or config.place in settings.PLACES:
        return config
    of_kind = [place for place in settings.PLACES.values() if place.kind == config.place]
    if not of_kind:
        names = ", ".join(
            [HERE, *(f"{place.name} ({place.kind})" for place in settings.PLACES.values())]
        )
        problem = f"place is {config.place!r}; this server has {names}."
        raise InvalidRequest.of_field(
            "config.place", problem, hint="Name one of them, or its kind."
        )
    counts = _counts([SessionState.QUEUED, *WITH_RUNTIME])
    chosen = min(of_kind, key=lambda place: counts.get(place.name, 0) / place.max_runtimes)
    return config.model_copy(update={"place": chosen.name})


def place_launcher(place: str) -> Any:
    """The launcher's options of a place: LauncherOptions, as the settings hold them, of a package
    above this one.

    Raises InvalidRequest for a place that the server does not have any more.
    """
    if place == HERE:
        return settings.LAUNCHER
    if place not in settings.PLACES:
        raise InvalidRequest(
            f"The session's place is {place}, and this server has no such place any more.",
            hint="Ask its operator to put it back into TINKERSCRIPT_PLACES, or start a new "
            "session.",
        )
    return settings.PLACES[place].options


def place_list(*, project: Project | None) -> list[PlaceView]:
    """Every place of this server, with what of the project's runs and waits there; of all projects
    with None.
    """
    running, queued = _counts(list(WITH_RUNTIME), project), _counts([SessionState.QUEUED], project)
    rooms = [(HERE, "", settings.LAUNCHER.name, settings.MAX_RUNTIMES)]
    rooms += [
        (place.name, place.kind, place.options.name, place.max_runtimes)
        for place in settings.PLACES.values()
    ]
    return [
        PlaceView(
            name=name, kind=kind, launcher=launcher, max_runtimes=most, running=running.get(name, 0),
            queued=queued.get(name, 0),
        )
        for name, kind, launcher, most in rooms
    ]  # fmt: skip


def places_free() -> dict[str, int]:
    """How many more runtimes each place can have now."""
    running = _counts(list(WITH_RUNTIME))
    rooms = {HERE: settings.MAX_RUNTIMES} | {
        place.name: place.max_runtimes for place in settings.PLACES.values()
    }
    return {name: max(0, most - running.get(name, 0)) for name, most in rooms.items()}


def _counts(states: list[SessionState], project: Project | None = None) -> dict[str, int]:
    rows = Session.objects.filter(state__in=states)
    rows = rows if project is None else rows.filter(project=project)
    return dict(rows.values_list("place").order_by().annotate(total=Count("id")))


def nodes_check(*, config: SessionConfig) -> None:
    """Raises InvalidRequest, naming the option, for several nodes of a launcher that has one."""
    if config.nodes == 1:
        return
    options = place_launcher(config.place)
    if not options.row.spans_machines:
        raise InvalidRequest.of_field(
            "config.nodes",
            f"nodes is {config.nodes}: a session over several machines needs a server with "
            "TINKERSCRIPT_LAUNCHER=ray,"
            f" slurm or kubernetes, or a place of these launchers, and {config.place!r} of this one has "
            f"{options.name}.",
            hint="Leave config.nodes at 1.",
        )
    if options.name == "kubernetes" and not options.kubernetes_claim:
        raise InvalidRequest.of_field(
            "config.nodes",
            f"nodes is {config.nodes}: the machines of a session share its folder, and pods of "
            f"{config.place!r} have no"
            " volume in common.",
            hint="Leave config.nodes at 1, or ask the operator for a server with "
            "a claim in TINKERSCRIPT_KUBERNETES.",
        )


def shared_rows_check(*, config: SessionConfig, devices: int) -> None:
    """Raises InvalidRequest, naming the option, for ranks that share rows on GPUs."""
    if config.sequence_parallel and devices:
        problem = f"sequence_parallel is proven on CPUs alone, and this session has {devices} GPUs."
        raise InvalidRequest.of_field(
            "config.sequence_parallel", problem, hint="Leave config.sequence_parallel out."
        )


def ranks_fit_nodes(*, config: SessionConfig, ranks: int) -> None:
    """Raises InvalidRequest where ``ranks`` cannot be shared out evenly among the session's
    machines, or where one would be left of ranks that share rows.
    """
    if config.sequence_parallel and ranks == 1:
        problem = (
            "trainer_ranks is 1, and the session has sequence_parallel, whose ranks share rows."
        )
        raise InvalidRequest.of_field("trainer_ranks", problem, hint="Take 2 or more.")
    if ranks % config.nodes:
        problem = (
            f"trainer_ranks is {ranks}, and the session is spread over {config.nodes} machines."
        )
        raise InvalidRequest.of_field(
            "trainer_ranks", problem, hint=f"Take a multiple of {config.nodes}."
        )
