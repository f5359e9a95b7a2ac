"""Which part of a session's GPUs is the engines' and which the trainer's: for the runtime and for a
dry run.

And among how many devices one engine can share its layers out.
"""

from tinkerscript.wire.config import SessionConfig

# vLLM pads a vocabulary to a multiple of 64, which it must share out evenly
SIZES = (1, 2, 4, 8, 16)


def layers_divide(count: int, *, heads: int, key_heads: int, intermediate: int) -> bool:
    """Whether vLLM can share out layers of these sizes among ``count``; heads of keys are copied
    where they are few.
    """
    has_keys = key_heads % count == 0 or count % key_heads == 0
    return count in SIZES and heads % count == 0 and intermediate % count == 0 and has_keys


def engine_device_count(config: SessionConfig, devices: int) -> tuple[int, bool]:
    """On how many of a machine's ``devices`` GPUs engines run, and whether the trainer's ranks use
    the same ones.

    Every rank has one. What is left is the engines'; where nothing is left, or by
    ``placement="shared"``, engines and ranks share those of the ranks.
    """
    ranks = config.trainer_ranks // config.nodes
    is_shared = config.placement == "shared" or devices <= ranks
    return (ranks if is_shared else devices - ranks), is_shared
