"""Training as its callers see it: a model, which takes data, a loss and AdamW's parameters; and who
has models: a trainer of one on any number of ranks, for the managed loop, and a trainer of many on
one base, for Tinker clients, adapters on one rank and all weights on any number.

No torch in here. Arrays are numpy.

Shape legend: T tokens of one sample, N tokens of one datum, K targets of one token.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

LossConfig = Mapping[str, float | str]
# A tensor of a loss: the trainer's own log-probabilities before a step of several updates.
BEFORE = "logprobs_before_step"


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
    journal/token_values.py (None: every id). ``experts``, an array of rows of
    journal/token_values.py (None: the model's own choice), are those that compute each of its
    tokens.

    Example: Datum(np.array([5, 9]), {"target_tokens": np.array([9, 2]), "weights": np.array([0.0,
    1.0])})
    """

    token_ids_N: np.ndarray
    loss_inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    counted: np.ndarray | None = None
    temperatures: np.ndarray | None = None
    allowed_sets: np.ndarray | None = None
    experts: np.ndarray | None = None


@dataclass(frozen=True)
class ForwardResult:
    """``outputs[i]`` holds the arrays of datum i: ``logprobs``, float32, of the shape of its
    ``target_tokens``.

    ``metrics`` of a client's loss are named ``name:reduction``, and ``loss:sum`` is always there.
    """

    outputs: tuple[dict[str, np.ndarray], ...]
    metrics: dict[str, float]


@dataclass(frozen=True)
class ModelCall:
    """What ``forward_backward`` of one of several models is called with."""

    model_id: str
    data: Sequence[Datum]
    loss_fn: str
    loss_config: LossConfig


class TrainerProcess(Protocol):
    """A trainer in processes of its own. Calls never overlap: each waits for the one before it, and
    has a deadline inside.
    """

    @property
    def dead(self) -> bool:
        """Whether a process of it has ended."""
        ...

    @property
    def dtype(self) -> str:
        """The type of its weights: "float32" or "bfloat16"."""
        ...

    async def ready(self) -> None:
        """Return once the base is loaded. Raises ModelUnsupported, and TrainerFailed for a process
        that has ended, with what became of it.
        """
        ...

    async def restart(self) -> None:
        """Processes of its own again, as after the first start, whatever state the old ones were
        in.
        """
        ...

    async def close(self) -> None:
        """End every process. Safe to call twice."""
        ...


class TrainedModel(Protocol):
    """One model under training: the managed loop's own, or one of a Tinker client's.

    Every method raises TrainerFailed, TrainerKilled or OutOfMemory where its process is lost: then
    the model is gone until ``restart``.
    """

    async def forward_backward(
        self, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        """Accumulate, in float32, the gradient of the sum of the loss of ``data``.

        Of the managed loop ``loss_fn`` is an option of its session, and ``loss_config`` are those
        that this step has otherwise: KL terms and the entropy bonus are part of the sum.
        """
        ...

    async def optim_step(self, params: AdamParams) -> dict[str, float]:
        """Apply the accumulated gradient (zero where there is none) and forget it. Returns
        ``grad_norm``, before the clip.

        Raises StepRefused, weights unchanged and gradient forgotten, for a gradient that is not
        finite or whose norm is above ``grad_norm_limit``; a client is told InvalidTrainingInput.
        """
        ...

    async def publish(self, folder: Path) -> None:
        """Leave in ``folder`` what an engine loads: the weights under Hugging Face's names, or an
        adapter as peft writes it.
        """
        ...

    async def export_model(self, folder: Path) -> None:
        """Write what a user takes elsewhere: a complete Hugging Face folder, with an adapter apart
        from its base too.
        """
        ...

    async def save_state(self, folder: Path) -> None:
        """Write everything that resuming bit for bit needs: weights, optimizer, step, and a
        gradient that waits for its step.
        """
        ...

    async def load_state(
        self, folder: Path, *, with_optimizer: bool = True, with_gradient: bool = False
    ) -> None:
        """Take the weights of a ``save_state``, whatever number of ranks wrote it.

        ``with_optimizer``: its moments too, else a fresh Adam. ``with_gradient``: also the gradient
        that waited.
        """
        ...


class Trainer(TrainerProcess, TrainedModel, Protocol):
    """Trains the one model of a session of episodes, and shows that it is the engine's."""

    async def parameters(self) -> int:
        """How many weights the base has."""
        ...

    async def logprobs(self, data: Sequence[Datum], reference: bool = False) -> list[np.ndarray]:
        """``logprobs_N`` of the targets of each datum under the current weights or the reference's;
        0 where none counts.
        """
        ...

    async def flip_weights(self) -> None:
        """Change every weight; a second call restores each bit, and has to come before a step."""
        ...

    async def each_unflipped(self, data: Sequence[Datum]) -> dict[str, list[float]]:
        """While the weights are flipped: the log-probabilities of all targets with one weight, or
        those of one module, as before; by its name. As many forward passes as the model has
        weights.
        """
        ...

    async def weights_digest(self) -> str:
        """Of the bits of all weights."""
        ...

    async def drop_gradient(self) -> None:
        """Forget the accumulated gradient; the weights stand."""
        ...


class ClientModel(TrainedModel, Protocol):
    """A model of a Tinker client. A mistake of the caller raises InvalidTrainingInput, also that
    there is no such model.
    """

    async def forward(
        self, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        """The loss and its log-probabilities; no gradient."""
        ...


class ModelTrainer(TrainerProcess, Protocol):
    """Trains models of one base, in the order of the calls."""

    async def create_model(self, model_id: str, lora: LoraConfig | None) -> None:
        """A new model on the base; without ``lora`` all weights are trained, and no other model may
        be there.

        Raises InvalidTrainingInput, also where memory has no room for another adapter: it says how
        much there is.
        """
        ...

    def model(self, model_id: str) -> ClientModel:
        """The model of that id, which need not be there yet."""
        ...

    async def forward_backward_joined(
        self, calls: Sequence[ModelCall]
    ) -> list[ForwardResult] | None:
        """``forward_backward`` of several models, each once, in one pass. None, and nothing is
        accumulated, where they have to be computed one after another.
        """
        ...

    async def unload(self, model_id: str) -> None:
        """Free what the model holds. After a model of all weights the base is as it was."""
        ...

    async def export_state(self, state: Path, folder: Path) -> None:
        """Write what ``publish`` would of the model that wrote ``state``, of this base, gone or
        not.
        """
        ...


def counted_of(data: Sequence[Datum], values: Sequence[np.ndarray]) -> list[float]:
    """Of a value for each target those of the ones that count, datum after datum."""
    kept = [
        of if it.counted is None else of[it.counted] for it, of in zip(data, values, strict=True)
    ]
    return [value for of in kept for value in of.tolist()]


def state_describe(folder: Path) -> dict[str, Any]:
    """What ``save_state`` says of the model: ``lora`` (the fields of its LoraConfig, or None) and
    ``step``.
    """
    return json.loads((folder / "model.json").read_text())
