"""The many-model trainer as its callers see it: data with a named loss, Adam parameters with every
step.

One frozen base, on it either any number of LoRA models or one model of all weights. No torch in
here. Arrays are numpy.

Shape legend: N tokens of one datum, K targets of one token.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gpu_runtime.interfaces import TrainerProcess

LossConfig = Mapping[str, float | str]


class InvalidTrainingInput(Exception):
    """A mistake of the caller: the message names datum, tensor and shape. Nothing was accumulated
    or changed.
    """


@dataclass(frozen=True)
class LoraConfig:
    """Which linear layers get an adapter of which rank. ``seed`` draws A (B begins at zero).

    Without a seed the model's id is the seed, so that making the model again gives the same bits.
    """

    rank: int
    seed: int | None = None
    train_attn: bool = True
    train_mlp: bool = True
    train_unembed: bool = True


@dataclass(frozen=True)
class AdamParams:
    """AdamW of one step (Loshchilov and Hutter 2019, arXiv:1711.05101). ``grad_clip_norm`` 0: no
    clip.

    Defaults are those of the ``tinker`` client.
    """

    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0


@dataclass(frozen=True)
class Datum:
    """One sequence of token ids ``[N]`` and the tensors of its loss, each ``[N]`` or ``[N, K]``.

    ``target_tokens[n]`` is what position n predicts: the caller shifts. ``counted``, of the same
    shape, is true where there is a target; without it everywhere. A target that was sampled at
    another temperature than 1, or under a grammar, is scored under the distribution that it was
    sampled from: ``temperatures``, and ``allowed_sets``, an array of the sets of
    journal/allowed_tokens.py (None: every id).

    Example: Datum(np.array([5, 9]), {"target_tokens": np.array([9, 2]), "weights": np.array([0.0,
    1.0])})
    """

    token_ids_N: np.ndarray
    loss_inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    counted: np.ndarray | None = None
    temperatures: np.ndarray | None = None
    allowed_sets: np.ndarray | None = None


@dataclass(frozen=True)
class ForwardResult:
    """``outputs[i]`` holds the arrays of datum i: ``logprobs``, float32, of the shape of its
    ``target_tokens``.

    ``metrics`` are named ``name:reduction``; ``loss:sum`` is always there.
    """

    outputs: tuple[dict[str, np.ndarray], ...]
    metrics: dict[str, float]


class ModelTrainer(TrainerProcess, Protocol):
    """Trains models of one base, in the order of the calls.

    Every method raises InvalidTrainingInput for a mistake of the caller (also for an unknown
    ``model_id``), and TrainerFailed, TrainerKilled or OutOfMemory when its process is lost: then
    all models are gone until ``restart``.
    """

    async def create_model(self, model_id: str, lora: LoraConfig | None) -> None:
        """A new model on the base; without ``lora`` all weights are trained, and no other model may
        be there.

        InvalidTrainingInput also where memory has no room for another adapter: it says how much
        there is.
        """
        ...

    async def unload(self, model_id: str) -> None:
        """Free what the model holds. After a model of all weights the base is as it was."""
        ...

    async def forward(
        self, model_id: str, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        """The loss and its log-probabilities; no gradient."""
        ...

    async def forward_backward(
        self, model_id: str, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        """As ``forward``, and adds the gradient of the sum of the loss to the model's, in
        float32.
        """
        ...

    async def optim_step(self, model_id: str, params: AdamParams) -> dict[str, float]:
        """Apply the accumulated gradient (zero where there is none) and forget it.

        Returns ``grad_norm``, before the clip. Raises InvalidTrainingInput for a gradient that is
        not finite: the weights stand, the gradient is forgotten.
        """
        ...

    async def save_state(self, model_id: str, folder: Path) -> None:
        """Write weights, optimizer, and a gradient that waits for its step, into ``folder``, new or
        empty.
        """
        ...

    async def load_state(
        self, model_id: str, folder: Path, *, with_optimizer: bool, with_gradient: bool = False
    ) -> None:
        """Take the weights of a ``save_state`` of a model of the same LoraConfig (its seed apart).

        ``with_optimizer``: its moments too, else a fresh Adam. ``with_gradient``: also the gradient
        that waited, which makes the model what it was, to the bit.
        """
        ...

    async def export_sampler(self, model_id: str, folder: Path) -> None:
        """Write what an engine loads: a PEFT adapter folder, or for a model of all weights a
        Hugging Face folder.
        """
        ...

    async def export_state(self, state: Path, folder: Path) -> None:
        """Write what ``export_sampler`` would of the model that wrote ``state``, of this base, gone
        or not.
        """
        ...

    async def export_external(self, model_id: str, folder: Path) -> None:
        """Write what a client takes elsewhere: an adapter and, in ``merged``, its merged model; or
        all weights.
        """
        ...


def state_describe(folder: Path) -> dict[str, Any]:
    """What ``save_state`` says of the model: ``lora`` (the fields of its LoraConfig, or None) and
    ``step``.
    """
    return json.loads((folder / "model.json").read_text())
