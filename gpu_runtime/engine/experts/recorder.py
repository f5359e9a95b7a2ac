"""The experts that sampled each token of a mixture: recorded in vLLM's worker, brought out with the
token.

vLLM's own option (``enable_return_routed_experts``) asks for its second model runner, which an
engine of ours has not (model_runner.py), and so for a GPU. Its parts ask for neither: routers of
every kind call a function with what they chose, and what the core returns of a token has a place
for it. So an engine of ours records on a CPU and on a GPU, each sampled token's row alone: the
choice at the position before it, which that pass computed. Prompts are not recorded.

A GPU replays its passes from graphs, which write where they wrote when they were captured: the
function is bound as soon as the model is loaded, and a layer's buffer is made by the pass that
vLLM measures memory with, before any graph.

Shape legend: N tokens of a pass, R requests, k chosen experts.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from gpu_runtime.engine.raw_logprobs import SAMPLE
from gpu_runtime.interfaces import Delta

if TYPE_CHECKING:
    import numpy as np
    import torch
    from vllm.config import VllmConfig
    from vllm.outputs import CompletionOutput
    from vllm.v1.engine.async_llm import AsyncLLM

SCHEDULERS = "gpu_runtime.engine.experts.scheduler"
HELD = "routed_experts_recorder"  # the name under which a runner has its recorder


def recording_set(config: "VllmConfig") -> None:
    """Have the engine of ``config``, a mixture's, record."""
    scheduler = config.scheduler_config
    kind = "AsyncRecordingScheduler" if scheduler.async_scheduling else "RecordingScheduler"
    vars(scheduler)["scheduler_cls"] = f"{SCHEDULERS}.{kind}"


def is_recording(config: "VllmConfig") -> bool:
    """Whether ``recording_set`` was called."""
    return str(config.scheduler_config.scheduler_cls).startswith(SCHEDULERS)


class ExpertsRecorder:
    """What the routers of one model chose in the last pass. ``most`` tokens are in a pass."""

    def __init__(self, model: "torch.nn.Module", most: int) -> None:
        from vllm.model_executor.layers.fused_moe.layer import MoERunner
        from vllm.model_executor.layers.fused_moe.routed_experts_capturer import (
            bind_routed_experts_capturer,
        )

        self._most = most
        self._by_layer: dict[int, torch.Tensor] = {}
        layers = [module for module in model.modules() if isinstance(module, MoERunner)]
        self._is_wide = any(layer.moe_config.num_experts > 256 for layer in layers)
        bind_routed_experts_capturer(model, cast(Any, self))

    def capture(self, layer_id: int, chosen_Nk: "torch.Tensor") -> None:
        """Called by the routers, with the numbers that they chose."""
        buffer = self._by_layer.get(layer_id)
        if buffer is None:
            buffer = chosen_Nk.new_zeros((self._most, chosen_Nk.shape[1]))
            self._by_layer[layer_id] = buffer
        buffer[: len(chosen_Nk)] = chosen_Nk

    def rows(self, places_R: "torch.Tensor") -> "torch.Tensor":
        """``[R, bytes]``, as journal/token_values.py has them, of these tokens of the pass."""
        import torch

        chosen = [self._by_layer[layer][places_R] for layer in sorted(self._by_layer)]
        flat = torch.cat(chosen, dim=1)
        return flat.to(torch.int16).view(torch.uint8) if self._is_wide else flat.to(torch.uint8)


def recorder_make(runner: Any) -> None:
    """Bind a recorder to the model of a runner whose engine records; none where a router of the
    model cannot: then the trainer routes its tokens itself.
    """
    if not is_recording(runner.vllm_config) or HELD in vars(runner):
        return
    most = runner.scheduler_config.max_num_batched_tokens
    try:
        vars(runner)[HELD] = ExpertsRecorder(runner.get_model(), most)
    except ValueError:
        vars(runner)[HELD] = None


def recorder_install(runner: Any) -> None:
    """Have the runner return the rows of the recorder that it has, if it has one; called once,
    before the first request.
    """
    recorder: ExpertsRecorder | None = vars(runner).get(HELD)
    if recorder is None:
        return
    sample = getattr(runner, SAMPLE)

    def sampled(*arguments: Any, **options: Any) -> Any:
        state, names = runner.execute_model_state, list(runner.input_batch.req_ids)
        rows = None
        if state is not None and state.logits is not None:
            rows = recorder.rows(runner.query_start_loc.gpu[1 : len(names) + 1].long() - 1)
        output = sample(*arguments, **options)
        if rows is None or output is None:
            return output
        return _returned(output, lambda: dict(zip(names, rows.cpu()[:, None].numpy(), strict=True)))

    setattr(runner, SAMPLE, sampled)


def _returned(output: Any, rows: Callable[[], dict[str, Any]]) -> Any:
    """``output`` with the rows, which are copied from the device when it is read."""
    read = getattr(output, "get_output", None)
    if read is None:
        output.aux_output_connector_output = rows()
        return output

    def got() -> Any:
        found = read()
        found.aux_output_connector_output = rows()
        return found

    output.get_output = got
    return output


def experts_added(
    llm: "AsyncLLM", request_id: str, completion: "CompletionOutput", delta: Delta, before: int
) -> Delta:
    """``delta`` with what the engine recorded of its tokens, before which the call had ``before``.
    Ask as soon as ``completion`` is received, as ``ServedVersions.starts``.
    """
    if not is_recording(llm.vllm_config):
        return delta
    chunks: list[np.ndarray]
    count = len(delta.token_ids_T)
    if completion.finish_reason is not None:
        of_call = () if completion.routed_experts is None else completion.routed_experts
        chunks = list(of_call[before : before + count])
    else:
        (internal_id,) = llm.output_processor.external_req_ids[request_id]
        state = llm.output_processor.request_states[internal_id]
        pieces = state.routed_experts_chunks[before : before + count]
        chunks = [row for piece in pieces for row in piece]
    rows = tuple(row.tobytes() for row in chunks)
    return replace(delta, experts_T=rows) if len(rows) == count else delta
