"""TRL's AsyncGRPOTrainer in its own environment, for tests/gpu/trl_peer.py: a JSON line for each
step.

    python -c "from support.trl_async import main; main()" JOB.json

Everything is TRL's, on one process and one device. Beside its defaults: no gradient checkpointing,
no training in parts of another size than whole groups. What is not its own, and where:

one device    weights go by vLLM's own CUDA IPC and not by NCCL, which takes no device twice (IpcTransfer)
a CPU         weights go by a file, and attention over the packed tree by torch's own, because TRL's kernel is for GPUs:
              figures of that mean nothing
"""

import base64
import json
import pickle
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from support.any_reward import any_reward

KEPT = ("perf/", "batch/", "sample/dropped", "completions/mean_length")
REQUEST_S = 600


def reward_texts(completions: list[Any], **_: Any) -> list[float]:
    """Of answers as messages."""
    return [any_reward(messages[0]["content"] or "") for messages in completions]


class Transfer:
    """TRL's WeightTransferProtocol, as far as its own client does it over HTTP."""

    def __init__(self, address: str) -> None:
        from trl.experimental.async_grpo.vllm_client import VLLMClient

        self.server = VLLMClient(address, REQUEST_S)

    def init_weight_transfer(self) -> None:
        """Wait for the server."""
        self.server.wait_for_server_ready()

    def pause(self) -> None:
        self.server.pause(timeout=REQUEST_S)

    def resume(self) -> None:
        self.server.resume(timeout=REQUEST_S)

    def destroy(self) -> None:
        """Nothing is held."""


class IpcTransfer(Transfer):
    """To a server on the same device: vLLM's weight transfer "ipc", each tensor by its handle."""

    def init_weight_transfer(self) -> None:
        super().init_weight_transfer()
        self.server.init_weight_transfer_engine({"packed": False}, timeout=REQUEST_S)

    def send_weights(self, iterator: Iterator[tuple[str, torch.Tensor]]) -> None:
        from torch.multiprocessing.reductions import reduce_tensor

        sent = [(name, tensor.contiguous()) for name, tensor in iterator]
        uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
        handles = [{uuid: reduce_tensor(tensor.detach())[1]} for _, tensor in sent]
        torch.cuda.synchronize()
        self.server.start_weight_update(timeout=REQUEST_S)
        self.server.update_weights(
            {
                "names": [name for name, _ in sent],
                "dtype_names": [str(tensor.dtype).removeprefix("torch.") for _, tensor in sent],
                "shapes": [list(tensor.shape) for _, tensor in sent],
                "ipc_handles_pickled": base64.b64encode(pickle.dumps(handles)).decode(),
            },
            timeout=REQUEST_S,
        )
        self.server.finish_weight_update(timeout=REQUEST_S)


class FileTransfer(Transfer):
    """By a file, which the server's own reload_weights reads."""

    def __init__(self, address: str, model: Path, folder: Path) -> None:
        super().__init__(address)
        self._folder = folder
        folder.mkdir(exist_ok=True)
        for path in model.iterdir():
            if path.suffix != ".safetensors":
                (folder / path.name).write_bytes(path.read_bytes())

    def send_weights(self, iterator: Iterator[tuple[str, torch.Tensor]]) -> None:
        import requests
        from safetensors.torch import save_file

        save_file(
            {name: tensor.cpu().clone() for name, tensor in iterator},
            self._folder / "model.safetensors",
        )
        asked = {"method": "reload_weights", "kwargs": {"weights_path": str(self._folder)}}
        answer = requests.post(
            f"{self.server.server_url}/collective_rpc", json=asked, timeout=REQUEST_S
        )
        answer.raise_for_status()


def path_attention(
    module: Any, query: Any, key: Any, value: Any, mask: Any, *, tree_kv_index: Any, tree_cu_seqlens_q: Any,
    tree_cu_seqlens_k: Any, scaling: float | None = None, **_: Any,
) -> tuple[Any, None]:  # fmt: skip
    """TRL's tree_attention without its kernel: each segment of the tree over the tokens of its own
    path.
    """
    parts = []
    bounds = zip(
        *(_pairs(cuts.tolist()) for cuts in (tree_cu_seqlens_q, tree_cu_seqlens_k)), strict=True
    )
    for (q_first, q_last), (k_first, k_last) in bounds:
        path, length = tree_kv_index[k_first:k_last], k_last - k_first
        places = torch.arange(length - (q_last - q_first), length)
        sees = torch.arange(length)[None, :] <= places[:, None]
        parts.append(
            torch.nn.functional.scaled_dot_product_attention(
                query[:, :, q_first:q_last],
                key[:, :, path],
                value[:, :, path],
                sees,
                scale=scaling,
                enable_gqa=True,
            )
        )
    return torch.cat(parts, dim=2).transpose(1, 2), None


def _pairs(cuts: list[int]) -> list[tuple[int, int]]:
    return list(zip(cuts, cuts[1:], strict=False))


def trainer_make(job: dict[str, Any], transfer: Transfer | None, callback: Any) -> Any:
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl.chat_template_utils import add_response_schema, qwen3_template
    from trl.experimental.async_grpo import (
        AsyncGRPOConfig,
        AsyncGRPOTrainer,
        async_grpo_trainer,
        packing,
    )

    is_cpu = job["devices"] == 0
    if is_cpu:
        packing.tree_attention = path_attention
        # it asks CUDA for a device's name
        async_grpo_trainer.get_peak_flops_per_device = lambda *_: None
    arguments = AsyncGRPOConfig(
        output_dir=job["output"], use_cpu=is_cpu, bf16=not is_cpu, max_steps=job["max_steps"],
        learning_rate=job["learning_rate"], per_device_train_batch_size=job["row_episodes"],
        gradient_accumulation_steps=job["episodes"] // job["row_episodes"], token_budget=-1,
        num_generations=job["group"], max_completion_length=job["completion"], temperature=1.0,
        max_staleness=job["staleness"], max_inflight_tasks=job["under_way"], gradient_checkpointing=False,
        vllm_server_base_url=job["address"], save_strategy="no", report_to="none", disable_tqdm=True, seed=0,
    )  # fmt: skip
    tokenizer = AutoTokenizer.from_pretrained(job["model"])
    try:
        add_response_schema(tokenizer)
    except (
        ValueError
    ):  # a chat template that TRL does not know: of ours answers are read as ChatML's
        tokenizer.response_template = qwen3_template
    prompts = [[{"role": "user", "content": prompt}] for prompt in job["prompts"]]
    return AsyncGRPOTrainer(
        job["model"], reward_texts, args=arguments, train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=tokenizer, weight_transfer=transfer, callbacks=[callback],
    )  # fmt: skip


def main() -> None:
    """Train, and say what each step took; last, how much memory it took at most."""
    from transformers import TrainerCallback

    job = json.loads(Path(sys.argv[1]).read_text())

    class Told(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **_):
            found = {name: value for name, value in (logs or {}).items() if name.startswith(KEPT)}
            print(
                json.dumps({"step": state.global_step, "at": time.time(), "logs": found}),
                flush=True,
            )

    transfer: Transfer | None = None
    if job["devices"] == 0:
        transfer = FileTransfer(job["address"], Path(job["model"]), Path(job["output"]) / "weights")
    elif job["devices"] == 1:
        transfer = IpcTransfer(job["address"])
    trainer_make(job, transfer, Told()).train()
    peak = torch.cuda.max_memory_allocated() if job["devices"] else 0
    print(json.dumps({"peak": peak, "version": version("trl")}), flush=True)
