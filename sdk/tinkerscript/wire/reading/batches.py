"""One batch as a file of JSON lines: all that recomputing its loss and gradient needs, and where
each number came from.

The first line is a BatchHeader, then come its episodes, then the samples that they became, in the
trainer's order.

The loss is the sum over samples s in the gradient and their trained tokens t of scale(s) * loss(p,
``logprobs[t]``, ``advantages[t]``), where p is the log-probability under the weights of the step
before, over the ids of ``allowed[t]``, with logits divided by ``temperatures[t]``:
gpu_runtime/training/losses.py has scale and loss of each ``config.loss`` in a line.
``metrics.loss`` and ``metrics.grad_norm`` (before the clip) are what came of it.
"""

import base64
import zlib
from typing import Literal

from pydantic import Field

from ..base import Response
from ..config import SessionConfig
from ..episodes import WorkflowOutput
from ..events import StepMetrics
from .calls import CallView


class BatchHeader(Response):
    """The first line."""

    kind: Literal["batch"] = "batch"
    name: str = Field(
        description="The step's number; of a refused batch the name that the event gave it."
    )
    session_id: str
    base_model: str
    step: int = Field(
        description="The step that it was for; a refused one's number was given to a later batch."
    )
    state: Literal["trained", "refused", "journaled"] = Field(
        description="journaled: its step is not done yet."
    )
    reason: str = Field("", description="Why it was refused.")
    policy_version: int = Field(description="The version served when the batch was fixed.")
    seed: int
    config: SessionConfig
    metrics: StepMetrics | None = Field(description="What the step measured, once it is done.")
    groups: int
    episodes: int = Field(description="Lines of kind episode.")
    samples: int = Field(
        description="Lines of kind sample: the file is whole when they are all there."
    )


class BatchEpisode(Response):
    """An episode of the batch, with its calls token by token."""

    kind: Literal["episode"] = "episode"
    group: int
    episode_id: str
    task: str | None
    group_key: str | None
    output: WorkflowOutput
    begun_at: float
    ended_at: float | None
    calls: list[CallView]


class BatchSample(Response):
    """One trained token sequence. All lists have the same length; a token is trained where ``mask``
    is 1.

    A token that was the only one which a grammar allowed is no trained one.
    """

    kind: Literal["sample"] = "sample"
    group: int
    episode_id: str
    calls: list[str] = Field(description="The calls whose answers are trained here.")
    token_ids: list[int]
    mask: list[int]
    logprobs: list[float] = Field(
        description="The engine's, of the distribution that was sampled from; 0 where the mask is "
        "0."
    )
    raw_logprobs: list[float | None] = Field(
        [],
        description="The engine's, of temperature 1 over all token ids; null where they were not "
        "recorded (SampledAnswer), 0 where the mask is 0.",
    )
    trainer_logprobs: list[float | None] = Field(
        [],
        description="The trainer's, of the distribution that was sampled from, under the weights "
        "before the step; null where the step is not done or computed none, 0 where the mask is 0.",
    )
    trainer_logprobs_after: list[float | None] = Field(
        [],
        description="The same under the weights after the step; null where the session has no "
        "logprobs_after_step too.",
    )
    temperatures: list[float] = Field(
        description="At which the token was sampled; 1 where the mask is 0."
    )
    allowed: list[int] = Field(
        description="Which of allowed_sets a token was chosen from, under a grammar; -1 where it "
        "was every token id. The logits of other ids are left out of p."
    )
    allowed_sets: list[str] = Field(
        description="Sets of token ids: a bit for each id, the lowest bit of the first byte first; "
        "zlib, then base64."
    )
    experts: list[str | None] = Field(
        [],
        description="Of a mixture whose engine records them: the experts that sampled the token, "
        "which the step replays at the position before it; the numbers of the chosen ones, layer "
        "after layer, a byte each, or two (little-endian) of more than 256 experts, in base64. Null "
        "where none were recorded, and no list where none were of any token.",
    )
    policy_versions: list[int] = Field(
        description="Whose weights sampled the token; -1 where the mask is 0."
    )
    advantages: list[float] = Field(description="0 where the mask is 0.")
    weight: float = Field(description="Sums to 1 over the samples of an episode.")
    in_gradient: bool = Field(
        description="False where its group has nothing to learn from: left out of every mean."
    )

    def allowed_ids(self, position: int) -> list[int] | None:
        """The token ids that the one at ``position`` was chosen from; None for all of them."""
        if self.allowed[position] < 0:
            return None
        bits = int.from_bytes(
            zlib.decompress(base64.b64decode(self.allowed_sets[self.allowed[position]])), "little"
        )
        return [token for token in range(bits.bit_length()) if bits >> token & 1]
