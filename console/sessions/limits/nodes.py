"""Whether a session may be spread over several machines here, and its ranks share rows."""

from console.errors import InvalidRequest
from console.sessions.limits.places import place_launcher
from tinkerscript.wire.config import SessionConfig

LAUNCHERS = ("ray", "slurm", "kubernetes")  # that start one runtime on several machines


def nodes_check(*, config: SessionConfig) -> None:
    """Raises InvalidRequest, naming the option, for several nodes of a launcher that has one."""
    if config.nodes == 1:
        return
    options = place_launcher(config.place)
    if options.name not in LAUNCHERS:
        _refuse(
            f"nodes is {config.nodes}: a session over several machines needs a server with "
            "TINKERSCRIPT_LAUNCHER=ray,"
            f" slurm or kubernetes, or a place of these launchers, and {config.place!r} of this one has "
            f"{options.name}.",
            hint="Leave config.nodes at 1.",
        )
    if options.name == "kubernetes" and not options.kubernetes_claim:
        _refuse(
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
        fields = [{"field": "config.sequence_parallel", "problem": problem}]
        raise InvalidRequest(
            problem, hint="Leave config.sequence_parallel out.", details={"fields": fields}
        )


def ranks_fit_nodes(*, config: SessionConfig, ranks: int) -> None:
    """Raises InvalidRequest where ``ranks`` cannot be shared out evenly among the session's
    machines, or where one would be left of ranks that share rows.
    """
    if config.sequence_parallel and ranks == 1:
        problem = (
            "trainer_ranks is 1, and the session has sequence_parallel, whose ranks share rows."
        )
        raise InvalidRequest(
            problem,
            hint="Take 2 or more.",
            details={"fields": [{"field": "trainer_ranks", "problem": problem}]},
        )
    if ranks % config.nodes:
        problem = (
            f"trainer_ranks is {ranks}, and the session is spread over {config.nodes} machines."
        )
        fields = [{"field": "trainer_ranks", "problem": problem}]
        raise InvalidRequest(
            problem, hint=f"Take a multiple of {config.nodes}.", details={"fields": fields}
        )


def _refuse(problem: str, hint: str) -> None:
    fields = [{"field": "config.nodes", "problem": problem}]
    raise InvalidRequest(problem, hint=hint, details={"fields": fields})
