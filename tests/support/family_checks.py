"""A family's log-probabilities and gradient by the trainer's packed rows, against its own forward
on each sample.
"""

import random
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.model_check import policy_verify
from gpu_runtime.training.models.towers import auto_class, tower_freeze
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.rows.packing import pack, pack_row
from gpu_runtime.training.rows.tensors import RowTensors
from support.model_families import VOCABULARY
from tinkerscript.wire.config import SessionConfig

BUDGET = 4096  # tokens: all samples in one row, where they share one or are of like length


def drawn_samples(prompt: int, answer: int) -> list[Sample]:
    """Two groups, each three answers to a prompt; lengths in tokens."""
    rng = random.Random(4)
    samples = []
    for _ in range(2):
        shared = [rng.randrange(2, VOCABULARY) for _ in range(prompt)]
        for _ in range(3):
            ids = (*shared, *(rng.randrange(2, VOCABULARY) for _ in range(answer)))
            samples.append(Sample(ids, (0,) * prompt + (1,) * answer, (0.0,) * len(ids), 1.0))
    return samples


def family_gaps(
    folder: Path, samples: list[Sample], config: SessionConfig, device: torch.device
) -> tuple[float, float]:
    """(largest gap of a log-probability in nats, distance of the gradients over their norm), both
    in float32.

    The model's own forward runs on the CPU. Raises ModelUnsupported as a session's start would.
    """
    policy = Policy.load(str(folder), torch.float32, device=device.type).to(device)
    policy_verify(policy, config, device)
    data = sample_data(samples)
    found: dict[int, Tensor] = {}
    for indices in pack(data, BUDGET, range(len(data)), policy.kind):
        row = pack_row(data, indices, policy.kind)
        logprobs_K, datum_K = (
            policy(RowTensors.of(row, data, device)),
            torch.from_numpy(row.datum_K),
        )
        found |= {index: logprobs_K[datum_K.to(device) == index] for index in indices}
    logprobs_K = torch.cat([found[index] for index in range(len(data))])
    kind = auto_class(policy.model.config)
    plain = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    tower_freeze(plain)
    expected_K = torch.cat([_own_logprobs(plain, sample) for sample in samples])
    logprobs_K.sum().backward()
    expected_K.sum().backward()
    ours, theirs = _gradient_of(policy.model), _gradient_of(plain)
    gap = (logprobs_K.cpu() - expected_K).abs().max().item()
    return gap, ((ours - theirs).norm() / theirs.norm()).item()


def weights_bits(folder: Path) -> dict[str, tuple[torch.dtype, bytes]]:
    """Type and bytes of each weight in a folder's files, each in one file alone."""
    found: dict[str, tuple[torch.dtype, bytes]] = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 - a file is no dictionary
                tensor = file.get_tensor(name)
                assert name not in found, "in one file alone"
                found[name] = tensor.dtype, tensor.view(-1).view(torch.uint8).numpy().tobytes()
    return found


def _gradient_of(model: torch.nn.Module) -> Tensor:
    return torch.cat([p.grad.flatten().cpu() for p in model.parameters() if p.grad is not None])


def _own_logprobs(model: torch.nn.Module, sample: Sample) -> Tensor:
    ids_T, answer = torch.tensor(sample.token_ids_T), sum(sample.mask_T)
    logits_TV = model(ids_T[None, :-1], use_cache=False).logits[0, -answer:]
    return logits_TV.log_softmax(-1).gather(1, ids_T[-answer:, None])[:, 0]
