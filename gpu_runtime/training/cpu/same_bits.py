"""The same operations give the same bits on a CPU, so that a run that goes on after a kill ends as
one that was not killed.

The gradient of a tensor that is read by index has a sum for each of its rows. Threads of torch add
to such a row in the order in which they come: the biases of GPT-OSS's experts got other last bits
in each pass. torch's own deterministic algorithms add in one order.
"""

import torch
import torch.utils.deterministic


def same_bits_keep() -> None:
    """From now on this process sums in one order. An operation without such an order is named in a
    warning.
    """
    torch.use_deterministic_algorithms(True, warn_only=True)
    # by itself that mode also fills each new tensor, to show reads of what was not written
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
