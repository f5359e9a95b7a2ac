"""Which part of a session's GPUs is the engines' and which the trainer's: for the runtime and for a dry run."""

from tinkerscript.wire.config import SessionConfig


def engine_device_count(config: SessionConfig, devices: int) -> tuple[int, bool]:
    """On how many of ``devices`` GPUs engines run, and whether the trainer's ranks use the same ones.

    Every rank has one. What is left is the engines'; where nothing is left, or by ``placement="shared"``, engines and
    ranks share those of the ranks.
    """
    is_shared = config.placement == "shared" or devices <= config.trainer_ranks
    return (config.trainer_ranks if is_shared else devices - config.trainer_ranks), is_shared
