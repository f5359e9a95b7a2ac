"""Ends a call whose grammar takes too long to be followed, in the process of the engine's core,
which samples for all.

``trial.py`` tries a new grammar along a text of 64 tokens; one may grow slow only after more of
them. So what the core computes for each call's grammar is added up, and a call beyond its budget
ends as vLLM ends one whose grammar refuses a token: with the finish reason "error".

It is installed in the core's process: by its worker where that is in it, else by its executor
(executors.py).
"""

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

FOLLOW_CPU_S = 10.0  # of a call, of one core
TOKEN_CPU_S = 0.005  # and for each token
ENDED = "error"  # the finish reason
TOO_SLOW = (
    f"its grammar took more than {FOLLOW_CPU_S:g} s of a core to be followed, and more with each "
    "token: write rules "
    "that read a text in one way, with fewer and smaller counts inside one another"
)


def budget_install(cpu_s: float = FOLLOW_CPU_S) -> None:
    """Bound every grammar that vLLM makes in this process from now on."""
    from vllm.v1.structured_output import backend_xgrammar

    made = backend_xgrammar.XgrammarGrammar
    backend_xgrammar.XgrammarGrammar = bounded(getattr(made, "unbounded", made), cpu_s)


def bounded(made: type[Any], cpu_s: float) -> type[Any]:
    """vLLM's class of a grammar that is followed, with a budget."""

    class BoundedGrammar(made):
        unbounded = made
        spent_s, taken = 0.0, 0

        def fill_bitmask(self, bitmask: "torch.Tensor", idx: int) -> None:
            if self.is_over:  # its call ends with the next token, whichever that is
                bitmask[idx].fill_(-1)
                return
            began = time.thread_time()
            super().fill_bitmask(bitmask, idx)
            self.spent_s += time.thread_time() - began

        def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
            if self.is_over:
                return False
            began = time.thread_time()
            is_accepted: bool = super().accept_tokens(request_id, tokens)
            self.spent_s += time.thread_time() - began
            self.taken += len(tokens)
            return is_accepted and (self.is_terminated() or not self.is_over)

        @property
        def is_over(self) -> bool:
            return self.spent_s > cpu_s + TOKEN_CPU_S * self.taken

    return BoundedGrammar
