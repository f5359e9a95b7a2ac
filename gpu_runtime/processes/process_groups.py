"""torch's process groups of an engine's workers: another user of the machine in one is refused.

vLLM makes its groups itself, one after another, and through each of gloo passes pickles. So each is
looked at as it is made: its peers are connected by then, and nothing has been sent.
"""

from functools import wraps
from typing import Any

from gpu_runtime.processes.foreign_peers import foreign_peers_refuse

MADE_BY = ("init_process_group", "new_group")


def groups_watch() -> None:
    """From now on groups that torch makes in this process raise ForeignPeer. A second call
    changes nothing.
    """
    from torch import distributed  # here and not above: a runtime's gateway loads no torch

    for name in MADE_BY:
        if not hasattr(make := getattr(distributed, name), "is_watched"):
            vars(distributed)[name] = _watched(make, distributed)


def _watched(make: Any, distributed: Any) -> Any:
    @wraps(make)
    def made(*arguments: Any, **options: Any) -> Any:
        group = make(*arguments, **options)
        if distributed.get_world_size() > 1:  # else there are no peers
            foreign_peers_refuse()
        return group

    vars(made)["is_watched"] = True
    return made
