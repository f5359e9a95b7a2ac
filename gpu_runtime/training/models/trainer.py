"""Models of one base in this process: many adapters, or one model of all weights. Calls never
overlap.

What ``model_interfaces.ModelTrainer`` promises, without a process of its own; ``process.py`` gives
it one.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gpu_runtime.errors import ModelUnsupported, StepRefused
from gpu_runtime.model_interfaces import (
    AdamParams,
    Datum,
    ForwardResult,
    InvalidTrainingInput,
    LoraConfig,
    LossConfig,
    ModelCall,
)
from gpu_runtime.placement import dtype_name
from gpu_runtime.training.checkpointing import layers_recompute
from gpu_runtime.training.cpu.onednn_linear import linear_layers_use_onednn
from gpu_runtime.training.lora import adapter_export
from gpu_runtime.training.model_check import policy_verify
from gpu_runtime.training.models.towers import tower_freeze
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.rank_spec import RankSpec
from tinkerscript.processes import machine_share

from .adapters import ALPHA, Adapters, adapters_bytes
from .calls import CallLimits, call_compute
from .export import full_weights, hugging_face_export
from .joined import JoinedCalls
from .own import OwnModel
from .state_files import saved_weights, state_weights

# Of the memory of this machine, or device, what adapters may have; the rest is the base's, the
# engine's and a call's.
ADAPTERS_PART = 0.25
# of the memory, for the gradients of calls in one pass: its row is short, and leaves as much of
# ROW_PART
JOINED_PART = 0.03
WHOLE_PART = 0.75  # what a model of all weights may have, the base itself included
# A longer row than fits this part computes its layers again in the backward pass. Bytes per token
# and hidden unit of a layer, at 2 bytes a value (Korthikanti et al. 2022, arXiv:2205.05198).
ROW_PART, ACTIVATION_BYTES = 0.25, 34
WHOLE_BYTES = 4 * 5  # of each weight, in float32: itself, gradient, a call's gradient, two moments
# Of that each of several ranks has its part, and beside it weights and a row's gradient as the
# passes use them.
PARTED_BYTES, USED_TWICE = WHOLE_BYTES, 2
NOTHING = ForwardResult((), {})

if TYPE_CHECKING:
    from .whole import RankedModel

    Model = OwnModel | RankedModel


class BaseWithModels:
    """One base and the models on it. ``on_row`` is called after each row of a call.

    On several ranks each of them has one, and makes every call; adapters are the first one's.
    """

    def __init__(self, spec: RankSpec, on_row: Callable[[], None] = lambda: None) -> None:
        self._spec, self._config, self._on_row = spec, spec.config, on_row
        self._device = torch.device(spec.torch_device)
        self._models: dict[str, Model] = {}
        self._made = 0  # adapters so far: each has a name that no other had
        self._policy = self._load()
        self._adapters = Adapters(self._policy.model)
        fields = self._policy.model.config.get_text_config()
        positions = (
            getattr(fields, "max_position_embeddings", None) or self._config.max_context_length
        )
        longest = min(self._config.max_context_length, positions)
        self._limits = CallLimits(fields.vocab_size, longest, self._config.micro_batch_tokens)
        self._joined = JoinedCalls(
            self._limits, self._device, int(self._memory_bytes() * JOINED_PART)
        )

    def _load(self) -> Policy:
        dtype = getattr(torch, dtype_name(self._config, self._spec.device))
        policy = Policy.load(
            self._spec.base_model_path,
            dtype,
            device=self._spec.device,
            gradient_checkpointing=self._config.gradient_checkpointing,
            offload_activations=self._config.offload_activations,
        ).to(self._device)
        policy_verify(policy, self._config, self._device)
        self._long_rows_recompute(policy)
        if self._spec.device == "cpu":
            linear_layers_use_onednn(policy)
        return policy.requires_grad_(False)

    def _renew(self) -> None:
        self._policy, self._made = self._load(), 0
        self._adapters = Adapters(self._policy.model)

    def _long_rows_recompute(self, policy: Policy) -> None:
        if not self._config.gradient_checkpointing:
            with suppress(ModelUnsupported):  # a model of other layers keeps every row whole
                layers_recompute(policy.model, beyond=self._whole_row(policy.model))

    def create_model(self, model_id: str, lora: LoraConfig | None) -> None:
        """A new model that begins as the base. Raises InvalidTrainingInput."""
        if model_id in self._models:
            raise InvalidTrainingInput(f"the model {model_id!r} exists")
        whole = [name for name, model in self._models.items() if model.lora is None]
        if whole:
            raise InvalidTrainingInput(
                f"{whole[0]!r} trains all weights of this base: no other model fits beside it"
            )
        if lora is None:
            self._models[model_id] = self._whole_model()
            return
        self._room_require(lora)
        name, self._made = f"m{self._made}", self._made + 1
        parameters = self._adapters.add(name, lora, model_id)
        if self._spec.device == "cpu":
            linear_layers_use_onednn(self._policy)  # the adapter's too, as the managed loop's are
        self._models[model_id] = self._in_process(lora, name, parameters)

    def _in_process(
        self, lora: LoraConfig | None, adapter: str | None, parameters: dict[str, nn.Parameter]
    ) -> OwnModel:
        return OwnModel(
            lora, adapter, parameters, self._policy, self._adapters, self._device, self._on_row
        )

    def _skips(self, model: "Model") -> bool:
        """Whether this rank has nothing to do with it: adapters are the first one's."""
        return self._spec.rank > 0 and model.lora is not None

    def _room_require(self, lora: LoraConfig) -> None:
        models = [model.lora for model in self._models.values() if model.lora is not None]
        taken, wanted = (
            adapters_bytes(self._policy.model, each) for each in (models, [*models, lora])
        )
        if wanted > (room := int(self._memory_bytes() * ADAPTERS_PART)):
            raise InvalidTrainingInput(
                f"an adapter of rank {lora.rank} needs {(wanted - taken) >> 20} MiB while it is "
                f"trained; {len(models)} models have {taken >> 20} of the {room >> 20} MiB that are "
                "for adapters. Finish one, or take a smaller rank"
            )

    def _whole_row(self, model: Any) -> int:
        """The tokens of a row whose activations fit ROW_PART of the memory."""
        fields = model.config.get_text_config()
        units = getattr(fields, "hidden_size", 1) * getattr(fields, "num_hidden_layers", 1)
        value_bytes = 4 if model.dtype == torch.float32 else 2
        of_token = units * ACTIVATION_BYTES * value_bytes // 2
        return max(1, int(self._memory_bytes() * ROW_PART) // of_token)

    def _memory_bytes(self) -> int:
        if self._spec.device == "cpu":
            return machine_share.memory_bytes()
        return torch.cuda.get_device_properties(self._device).total_memory

    def _whole_model(self) -> "Model":
        if self._models:
            raise InvalidTrainingInput(
                f"{len(self._models)} models with adapters use this base: all weights can be "
                "trained when they are gone"
            )
        ranks, dtype = self._spec.world_size, self._policy.model.dtype
        is_ranked = ranks > 1 or dtype != torch.float32
        size = sum(weight.numel() for weight in self._policy.parameters())
        of_rank = PARTED_BYTES // ranks + USED_TWICE * dtype.itemsize
        wanted = size * (of_rank if is_ranked else WHOLE_BYTES)
        # ranks on GPUs have one each
        wanted *= ranks if self._spec.device == "cpu" else 1
        if wanted > (room := int(self._memory_bytes() * WHOLE_PART)):
            raise InvalidTrainingInput(
                f"all weights of this base need {wanted >> 20} MiB while they are trained, and "
                f"{room >> 20} MiB are for"
                " them: train adapters (a rank of 1 or more)"
            )
        if is_ranked:
            # imports DeepSpeed, which adapters do without
            from .whole import RankedModel

            del self._policy, self._adapters  # two do not fit everywhere
            model = RankedModel(self._spec, self._on_row)
            self._policy, self._adapters = model.policy, Adapters(model.policy.model)
            self._long_rows_recompute(self._policy)
            return model
        if self._made:
            self._renew()  # without the places of old adapters
        self._policy.requires_grad_(True)
        tower_freeze(self._policy.model)
        weights = self._policy.model.named_parameters()
        return self._in_process(
            None, None, {name: weight for name, weight in weights if weight.requires_grad}
        )

    def unload(self, model_id: str) -> None:
        """Free what the model holds."""
        model = self._model(model_id)
        del self._models[model_id]
        model.close()
        if model.adapter is None:
            del model, self._policy, self._adapters  # two do not fit everywhere
            self._renew()

    def forward(
        self, model_id: str, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        """The loss of ``data`` and the log-probabilities of its targets."""
        model = self._model(model_id)
        if self._skips(model):
            return NOTHING
        call = ModelCall(model_id, data, loss_fn, loss_config)
        with torch.no_grad():
            return call_compute(model.rows(backward=False), call, self._limits)

    def forward_backward(
        self, model_id: str, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        """As ``forward``, and accumulates the gradient of ``data``; after an exception of none."""
        model = self._model(model_id)
        if self._skips(model):
            return NOTHING
        call = ModelCall(model_id, data, loss_fn, loss_config)
        with model.gradient_added():
            return call_compute(model.rows(backward=True), call, self._limits)

    def forward_backward_joined(self, calls: Sequence[ModelCall]) -> list[ForwardResult] | None:
        """``forward_backward`` of several models in one pass; None, and nothing is accumulated,
        where they have to be computed one after another.
        """
        models = [self._models.get(call.model_id) for call in calls]
        own = [model for model in models if isinstance(model, OwnModel)]
        if self._spec.rank > 0 or len(own) < len(calls):
            return None
        found = self._joined.compute(own, calls)
        self._on_row()
        return found

    def optim_step(self, model_id: str, params: AdamParams) -> dict[str, float]:
        """One AdamW step. Raises InvalidTrainingInput for a gradient that is not finite."""
        model = self._model(model_id)
        if self._skips(model):
            return {}
        try:
            return model.optim_step(params)
        except StepRefused as refusal:
            raise InvalidTrainingInput(
                f"{refusal}: the weights stand and the accumulated gradient is forgotten"
            ) from refusal

    def save_state(self, model_id: str, folder: Path) -> None:
        """Everything that going on bit for bit needs."""
        model = self._model(model_id)
        if not self._skips(model):
            model.save(folder)

    def load_state(
        self, model_id: str, folder: Path, with_optimizer: bool, with_gradient: bool
    ) -> None:
        """Become what ``save_state`` wrote."""
        model = self._model(model_id)
        if not self._skips(model):
            model.load(folder, with_optimizer=with_optimizer, with_gradient=with_gradient)

    def publish(self, model_id: str, folder: Path) -> None:
        """A PEFT adapter folder, or a Hugging Face folder of a model of all weights."""
        model = self._model(model_id)
        if self._spec.rank > 0:
            return
        if model.lora is None:
            self.export_model(model_id, folder)
        else:
            self._adapter_export(model.parameters, model.lora, folder)

    def export_state(self, state: Path, folder: Path) -> None:
        """What ``publish`` would write of the model whose state this is."""
        if self._spec.rank > 0:
            return
        weights, lora = state_weights(state)
        base = self._spec.base_model_path
        if lora is None:
            hugging_face_export(self._policy.model, weights, base, folder)
        else:
            self._adapter_export(weights, lora, folder)

    def export_merged(self, saved: Path, folder: Path) -> None:
        """A Hugging Face folder of the base with the weights of ``saved``: a state, or an adapter
        for samplers."""
        if self._spec.rank > 0:
            return
        weights, lora = saved_weights(saved)
        if lora is not None:
            weights = full_weights(self._policy.model, weights, lora)
        hugging_face_export(self._policy.model, weights, self._spec.base_model_path, folder)

    def export_model(self, model_id: str, folder: Path) -> None:
        """What a client takes elsewhere: a model of all weights as a Hugging Face folder, an
        adapter as peft's folder.

        Below an adapter is ``merged``, a Hugging Face folder of its base with the adapter merged.
        At the top the merged weights would be useless: transformers, which finds an adapter there,
        loads the base and adds it.
        """
        model, base = self._model(model_id), self._spec.base_model_path
        if self._spec.rank > 0:
            return
        weights = full_weights(self._policy.model, model.parameters, model.lora)
        hugging_face_export(
            self._policy.model, weights, base, folder if model.lora is None else folder / "merged"
        )
        if model.lora is not None:
            self._adapter_export(model.parameters, model.lora, folder)

    def _adapter_export(
        self, weights: Mapping[str, Tensor], lora: LoraConfig, folder: Path
    ) -> None:
        base = self._spec.base_model_path
        adapter_export(self._policy.model, dict(weights), lora.rank, ALPHA, base, folder)

    def _model(self, model_id: str) -> "Model":
        if model_id not in self._models:
            raise InvalidTrainingInput(f"there is no model {model_id!r}")
        return self._models[model_id]
