"""Which part of a session's GPUs is the engines' and which the trainer's: for the runtime and for a dry run."""

from tinkerscript.wire.config import SessionConfig


def engine_device_count(config: SessionConfig, devices: int) -> tuple[int, bool]:
    """On how many of ``devices`` GPUs engines run, and whether the trainer's ranks use the same ones.

    Every rank has one. What is left is the engines'; where nothing is left, or by ``placement="shared"``, engines and
    ranks share those of the ranks.
    """
    is_shared = config.placement == "shared" or devices <= config.trainer_ranks
    return (config.trainer_ranks if is_shared else devices - config.trainer_ranks), is_shared


def engines_most(config: SessionConfig, devices: int) -> int:
    """How many engines a session with these GPUs has where its model fits one of them; fewer where it does not.

    One where the ranks use its GPUs too: each engine that sleeps would keep its weights in the memory of the host.
    """
    count, is_shared = engine_device_count(config, devices)
    return 1 if is_shared else count
