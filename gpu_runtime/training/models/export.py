"""A model as a Hugging Face folder that transformers and vLLM load as it is."""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, GenerationConfig

from gpu_runtime.model_interfaces import LoraConfig
from gpu_runtime.training.lora import merged_weight, stored_buffers
from gpu_runtime.training.models.towers import frozen_names, frozen_write, text_names
from gpu_runtime.weights.older_keys import older_keys_add
from tinkerscript.wire.training.models.model_proof import NAME, proof_of

from .adapters import ALPHA
from .expert_adapters import WRAPPED, expert_keys

# Files of a base that no training changes, by the names that tokenizers of all kinds have.
COPIED = (
    "generation_config.json", "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab*", "merges.txt",
    "*.model", "*.tiktoken", "tekken.json", "chat_template*", "additional_chat_templates/*", "LICENSE*", "NOTICE*",
    "*processor_config.json",
)  # fmt: skip


def full_weights(
    model: Any, adapter: Mapping[str, Tensor], lora: LoraConfig | None
) -> dict[str, Tensor]:
    """Every weight under the base's own name, the adapter added to the layers it is on; a tied
    weight once.

    An adapted head is a weight of its own, also where the base's is that of the embeddings.
    """
    weights: dict[str, Tensor] = {}
    seen: set[nn.Parameter] = set()
    experts = expert_keys(model)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        plain = name.replace(WRAPPED, "")
        layer = experts.get(plain, plain.removesuffix(".weight"))
        if ".lora_" in name:
            continue
        if lora is not None and f"{layer}.lora_A.weight" in adapter:
            a, b = (adapter[f"{layer}.lora_{letter}.weight"].detach() for letter in "AB")
            module = model.get_submodule(name.rpartition(".")[0])
            merged = merged_weight(parameter.detach(), a, b, ALPHA / lora.rank, module)
            weights[plain] = merged.to(parameter.dtype)
        elif parameter not in seen:
            weights[plain] = parameter.detach()
            seen.add(parameter)
    return weights


def spilled(weights: Iterable[tuple[str, Tensor]], folder: Path) -> dict[str, Tensor]:
    """Copies of tensors of the host that are files in ``folder``, without a name there, gone when
    the copies are.

    A model is written once all of its weights are there, and one more copy of them may be more than
    a process may have: these pages the kernel can write out and drop. Raises OSError where the disk
    is full.
    """
    known: list[tuple[str, Path, torch.Size, torch.dtype]] = []
    with TemporaryDirectory(prefix=".weights-", dir=folder) as place:
        for name, tensor in weights:
            path = Path(place, str(len(known)))
            known.append((name, path, tensor.shape, tensor.dtype))
            with path.open("wb") as file:
                file.write(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
            del tensor  # before the next one is made
        # After all: small things that stay, made between large ones that go, would leave the heap
        # in pieces.
        return {name: _mapped(path, shape, dtype) for name, path, shape, dtype in known}


def _mapped(path: Path, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    if shape.numel() == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.from_file(str(path), size=shape.numel(), dtype=dtype).view(shape)


def hugging_face_export(model: Any, weights: dict[str, Tensor], base: str, folder: Path) -> None:
    """Write weights and configuration; the other files of the base leave as they came, byte for
    byte.

    transformers would write tokenizer and generation configuration in its own version's form, and
    refuses to write values that it reads (a temperature beside ``do_sample`` false).
    """
    config = model.config
    was_tied = config.tie_word_embeddings
    generation = model.generation_config if model.can_generate() else None
    heads = {
        name for name, module in model.named_modules() if module is model.get_output_embeddings()
    }
    config.use_cache = True
    config.tie_word_embeddings = was_tied and not any(f"{name}.weight" in weights for name in heads)
    # Of earlier versions of transformers, which kept them in config.json: it reads them there and
    # does not write them.
    strays = config._get_generation_parameters()  # noqa: SLF001 - what save_pretrained itself refuses
    for name in strays:
        delattr(config, name)
    if generation is not None:
        model.generation_config = GenerationConfig()
    frozen, texts = frozen_names(model), text_names(model)
    text = {name: tensor for name, tensor in weights.items() if name not in frozen}
    # buffers of the text side, which are no state; those of a tower come with the base's files
    text |= {
        name: buffer.detach().cpu()
        for name, buffer in stored_buffers(model)
        if name.rpartition(".")[0] in texts
    }
    try:
        model.save_pretrained(folder, state_dict=text, max_shard_size="4GB")
    finally:
        config.use_cache, config.tie_word_embeddings = False, was_tied
        for name, value in strays.items():
            setattr(config, name, value)
        if generation is not None:
            model.generation_config = generation
    if generation is not None:
        GenerationConfig.from_model_config(config).to_json_file(folder / "generation_config.json")
    frozen_write(model, Path(base), folder)
    architectures_keep(Path(base), folder)
    older_keys_add(folder)
    base_files_copy(Path(base), folder)
    proof_write(Path(base), folder)


def architectures_keep(base: Path, folder: Path) -> None:
    """Engines find a model's code by the name that its folder has, and transformers may write
    another (Phi-MoE).
    """
    if not (base / "config.json").is_file():
        return
    own = json.loads((base / "config.json").read_text()).get("architectures")
    config = json.loads((folder / "config.json").read_text())
    if own and config.get("architectures") != own:
        (folder / "config.json").write_text(json.dumps(config | {"architectures": own}))


def proof_write(base: Path, folder: Path) -> None:
    """What was trained, for ``tinkerscript verify``: a base without a tokenizer has none."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(base)
    except (OSError, ValueError):
        return
    config = json.loads((folder / "config.json").read_text())
    (folder / NAME).write_text(
        json.dumps(proof_of(tokenizer, config, folder), ensure_ascii=False, indent=1) + "\n"
    )


def base_files_copy(base: Path, folder: Path) -> None:
    """What a base has beside weights and configuration: tokenizer, templates, generation
    configuration, licence."""
    for pattern in COPIED:
        for path in filter(Path.is_file, base.glob(pattern)):
            target = folder / path.relative_to(base)
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)
