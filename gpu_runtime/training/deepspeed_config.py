"""What DeepSpeed is told of a session."""

from typing import Any

import torch

from tinkerscript.wire.config import SessionConfig

# Elements, in float32, that a rank keeps to sum gradients in. DeepSpeed's own 500 million are 1.9
# GiB of a device.
REDUCE_BUCKET = 50_000_000


def deepspeed_config(config: SessionConfig, dtype: torch.dtype) -> dict[str, object]:
    """The dictionary that ``deepspeed.initialize`` takes."""
    # managed_gradient_accumulation off: the caller decides when to step, as the primitives need it.
    # The batch sizes only satisfy DeepSpeed's arithmetic; losses are scaled by our own normalisers.
    zero: dict[str, object] = {"stage": config.zero_stage, "reduce_bucket_size": REDUCE_BUCKET}
    if config.offload_optimizer:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,
        "gradient_clipping": config.grad_clip,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": dtype == torch.bfloat16, "check_grad_overflow": True},
        # The sum over micro-batches: in bf16 it would stop growing after a few hundred of them.
        "data_types": {"grad_accum_dtype": "fp32"},
        "steps_per_print": 2**31,
    }


def gradients_sum_in_one(optimizer: Any, config: SessionConfig) -> None:
    """Let DeepSpeed sum the gradients of all rows in the very buffer that the optimizer is given,
    in float32 too.

    ``optimizer`` is DeepSpeed's. Its ZeRO 2 has that buffer where gradients have another type than
    weights. Where they have one it keeps the sum, the gradient of the last row and, for the step, a
    copy in the optimizer's order: two numbers more for each weight, which nothing needs. The sums
    are made in the same order and have the same bits.
    """
    if config.zero_stage == 2 and not config.offload_optimizer:
        # there is no option for it
        vars(optimizer)["_use_compact_grad_partition_buffer"] = lambda _group: True
