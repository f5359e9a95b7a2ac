"""Which policy version sampled each token of a call that goes on while weights are replaced under
it.

vLLM labels what its core returns with the weights that it served then (``weight_version``), and
keeps of each request where a label begins. Labels here count hand-overs: two of them may serve the
same policy version, and a step that had nothing to learn gives the weights that are served the next
number.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from gpu_runtime.interfaces import Delta

if TYPE_CHECKING:
    from vllm.outputs import CompletionOutput
    from vllm.v1.engine.async_llm import AsyncLLM

# (policy version, index of the first token that it sampled), by index
Starts = Sequence[tuple[int, int]]
UNLABELLED = "default"  # vLLM's label of the weights that it was started with


class ServedVersions:
    """The policy version of each label. ``current`` is that of the weights that are served."""

    def __init__(self) -> None:
        self._by_label = [0]

    @property
    def current(self) -> int:
        """The policy version being served."""
        return self._by_label[-1]

    @current.setter
    def current(self, version: int) -> None:
        self._by_label[-1] = version

    def hand_over(self, version: int) -> str:
        """The label of new weights, which are ``version``."""
        self._by_label.append(version)
        return str(len(self._by_label) - 1)

    def starts(self, llm: "AsyncLLM", request_id: str, completion: "CompletionOutput") -> Starts:
        """Where each version begins among all tokens of a call so far; ask as soon as
        ``completion`` is received.

        A finished completion brings its own list. Of any other vLLM still has the request, with
        exactly the tokens that were received: it hands over all that it has at once, and no other
        task runs in between.
        """
        if completion.weight_versions is not None:
            labelled = [(span.version, span.start) for span in completion.weight_versions]
        else:
            (internal_id,) = llm.output_processor.external_req_ids[request_id]
            labelled = llm.output_processor.request_states[internal_id].weight_version_starts
        return [
            (self._by_label[0 if label == UNLABELLED else int(label)], start)
            for label, start in labelled
        ]


def delta_split(delta: Delta, starts: Starts, before: int) -> list[Delta]:
    """``delta`` as one piece for each version that sampled it; ``before`` counts the call's earlier
    tokens.

    The text comes with the last piece: it may not be shown before its tokens are there.
    """
    end = before + len(delta.token_ids_T)
    cuts = [max(0, start - before) for version, start in starts if start < end]
    versions = [version for version, start in starts if start < end]
    bounds = [*cuts, len(delta.token_ids_T)]
    pieces = [
        _piece(delta, first, last, version)
        for version, (first, last) in zip(versions, pairwise(bounds), strict=True)
        if last > first
    ]
    if len(pieces) < 2:
        return [replace(delta, version=versions[-1])] if versions else [delta]
    silent = [
        replace(piece, text="", finish_reason=None, stop_reason=None) for piece in pieces[:-1]
    ]
    return [*silent, replace(pieces[-1], prompt_logprobs_P=())]


def _piece(delta: Delta, first: int, last: int, version: int) -> Delta:
    return replace(
        delta,
        token_ids_T=delta.token_ids_T[first:last],
        logprobs_T=delta.logprobs_T[first:last],
        top_logprobs_T=delta.top_logprobs_T[first:last],
        allowed_T=delta.allowed_T[first:last],
        raw_logprobs_T=delta.raw_logprobs_T[first:last],
        experts_T=delta.experts_T[first:last],
        version=version,
        prompt_logprobs_P=delta.prompt_logprobs_P if first == 0 else (),
    )
