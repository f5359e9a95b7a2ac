"""A model that was written as GGUF is the same model to llama.cpp: the same token ids, the same
probabilities.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from support.gemma_tokenizer import build_gemma_tokenizer
from support.llama_cpp import asked, same_as, served
from support.tiny_tokenizers import CORPUS
from tinkerscript.cli import app
from tinkerscript.errors import InvalidRequest

pytestmark = pytest.mark.engine

CHATML = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
FAMILIES = ("smollm", "llama3", "llama3_scaled", "qwen2", "qwen3", "gemma3", "gemma3_vision")
SCALED = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
# Natural logarithms. In 16 bits what is left is rounding, in the keys and values too; 8 bits change
# the weights.
FARTHEST = {"f16": 0.05, "q8_0": 0.5}


def made(folder: Path, family: str, *, hidden: int = 64, layers: int = 2) -> Path:
    """A small model of random weights with a tokenizer that splits as those of its family do."""
    if family.startswith("gemma3"):
        return made_gemma3(folder, family, hidden=hidden)
    import torch
    import transformers
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    from tinkerscript.exporting.gguf_tokenizer import LLAMA3, QWEN2

    split: Any = pre_tokenizers.Digits(individual_digits=True)
    if family != "smollm":
        split = pre_tokenizers.Split(
            Regex(LLAMA3 if family.startswith("llama3") else QWEN2), "isolated"
        )
    tokenizer = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=family == "smollm")
    tokenizer.pre_tokenizer, tokenizer.decoder = (
        pre_tokenizers.Sequence([split, level]),
        decoders.ByteLevel(),
    )
    if family.startswith("qwen"):
        tokenizer.normalizer = normalizers.NFC()
    special, alphabet = (
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        pre_tokenizers.ByteLevel.alphabet(),
    )
    trainer = trainers.BpeTrainer(
        vocab_size=500, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator([*CORPUS, "12345 99 100 2024 über 你好"], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>")
    fast.chat_template = CHATML
    fast.save_pretrained(folder)
    name = {"qwen2": "Qwen2", "qwen3": "Qwen3"}.get(family, "Llama")
    config = getattr(transformers, f"{name}Config")(
        vocab_size=len(fast) + 8, hidden_size=hidden, intermediate_size=96, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        eos_token_id=2, pad_token_id=0, bos_token_id=0,
        tie_word_embeddings=family in ("smollm", "qwen3"), initializer_range=0.8 / hidden**0.5,
        **({"head_dim": 32} if family == "qwen3" else {}),
        **({"rope_parameters": SCALED} if family == "llama3_scaled" else {}),
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = getattr(transformers, f"{name}ForCausalLM")(config)
        for parameter in model.parameters():
            if parameter.ndim == 1:  # norms and biases, which begin as ones and zeros
                parameter.data += 0.3 * torch.randn_like(parameter)
    model.to(torch.bfloat16 if family == "qwen3" else torch.float32).save_pretrained(folder)
    return folder


def made_gemma3(folder: Path, family: str, *, hidden: int) -> Path:
    """As ``made``, with the tokenizer, the windows, both ropes and the scale of attention of
    Gemma 3. "gemma3_vision" has a tower of vision, and another period of windows.
    """
    import torch
    import transformers

    build_gemma_tokenizer(folder, CHATML, "<|im_end|>")
    fast = transformers.AutoTokenizer.from_pretrained(folder)
    is_vision = family == "gemma3_vision"
    theta = {"full_attention": 1000000.0, "sliding_attention": 10000.0}
    rope: dict[str, Any] = {
        kind: {"rope_theta": base, "rope_type": "default"} for kind, base in theta.items()
    }
    if not is_vision:  # as the larger ones have it
        rope["full_attention"] |= {"rope_type": "linear", "factor": 8.0}
    kinds = ["sliding_attention", "full_attention"] if is_vision else None
    text = transformers.Gemma3TextConfig(
        vocab_size=len(fast) + 8, hidden_size=hidden, intermediate_size=96,
        num_hidden_layers=8, layer_types=kinds and kinds * 4, sliding_window=8,
        num_attention_heads=4, num_key_value_heads=2, head_dim=32, query_pre_attn_scalar=24,
        max_position_embeddings=512, rope_parameters=rope, initializer_range=0.8 / hidden**0.5,
        eos_token_id=fast.eos_token_id, pad_token_id=0, bos_token_id=fast.bos_token_id,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(3)
        if is_vision:
            tower = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
            tower |= {"num_attention_heads": 2, "image_size": 28, "patch_size": 14}
            config = transformers.Gemma3Config(
                text_config=text.to_dict(), vision_config=tower, mm_tokens_per_image=4
            )
            model = transformers.Gemma3ForConditionalGeneration(config)
        else:
            model = transformers.Gemma3ForCausalLM(text)
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.data += 0.3 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return folder


def quantized(values: Any, stored: int) -> Any:
    """The blocks that llama.cpp itself makes of ``values`` (32 bits), by the function that its own
    tool calls.
    """
    import ctypes

    import gguf
    import numpy as np
    import xllamacpp

    make = ctypes.CDLL(xllamacpp.xllamacpp.__file__).ggml_quantize_chunk
    make.restype, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int64
    make.argtypes = [ctypes.c_int, pointer, pointer, number, number, number, pointer]
    rows, columns = values.shape
    of_a_row = gguf.quants.quant_shape_to_byte_shape((columns,), gguf.GGMLQuantizationType(stored))[
        0
    ]
    blocks = np.zeros((rows, of_a_row), dtype=np.uint8)
    assert (
        make(stored, values.ctypes.data, blocks.ctypes.data, 0, rows, columns, None)
        == blocks.nbytes
    )
    return blocks


@pytest.mark.parametrize(
    ("family", "hidden"), [("llama3", 256), ("qwen3", 256), ("gemma3", 256), ("smollm", 64)]
)
def test_four_bits_are_those_of_llama_cpp(tmp_path: Path, family: str, hidden: int) -> None:
    """The blocks, the mixture of types, and what llama.cpp computes from them; rows of 64 are no
    block of 256.
    """
    import gguf
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = made(tmp_path / family, family, hidden=hidden, layers=8)
    result = CliRunner().invoke(app, ["export", str(folder), "--gguf", "q4_k_m"])
    assert result.exception is None, result.exception
    path = folder / "gguf/model-q4_k_m.gguf"
    reader = gguf.GGUFReader(path)
    written = {tensor.name: tensor for tensor in reader.tensors}
    more = {name for name, tensor in written.items() if tensor.tensor_type.name in ("Q6_K", "Q8_0")}
    # Of 8 layers: the first, the last, and each third from the second on.
    more_expected = {f"blk.{layer}.attn_v.weight" for layer in (0, 3, 6, 7)}
    more_expected |= {f"blk.{layer}.ffn_down.weight" for layer in (0, 3, 6, 7)}
    more_expected |= {"output.weight"} if family == "llama3" else {"token_embd.weight"}
    assert more == more_expected
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    called = {"qwen3": gguf.MODEL_ARCH.QWEN3, "gemma3": gguf.MODEL_ARCH.GEMMA3}
    names = gguf.get_tensor_name_map(called.get(family, gguf.MODEL_ARCH.LLAMA), 8)
    for name, parameter in model.named_parameters():
        tensor = written[names.get_name(name, try_suffixes=(".weight",))]
        if tensor.tensor_type.name == "F32":
            continue
        blocks = quantized(parameter.detach().numpy(), tensor.tensor_type)
        # Heads of "llama" are written with their rows in another order.
        assert sorted(row.tobytes() for row in blocks) == sorted(
            row.tobytes() for row in tensor.data
        ), name
        parameter.data = torch.tensor(gguf.quants.dequantize(blocks, tensor.tensor_type))
    same_as(path, model, AutoTokenizer.from_pretrained(folder), FARTHEST["q8_0"])


def test_four_bits_name_the_package_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "libgguf", None)
    folder = made(tmp_path / "model", "smollm")
    result = CliRunner().invoke(app, ["export", str(folder), "--gguf", "q4_k_m"])
    assert isinstance(result.exception, InvalidRequest) and "libgguf" in str(result.exception)
    assert not (folder / "gguf").exists()


@pytest.mark.parametrize("family", FAMILIES)
def test_llama_cpp_computes_what_transformers_computes(tmp_path: Path, family: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = made(tmp_path / family, family)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for kind, farthest in FARTHEST.items():
        result = CliRunner().invoke(app, ["export", str(folder), "--gguf", kind])
        assert result.exception is None, result.exception
        same_as(folder / "gguf" / f"model-{kind}.gguf", model, tokenizer, farthest)
    modelfile = (folder / "gguf" / "Modelfile").read_text()
    assert modelfile.startswith("FROM ./model-q8_0.gguf\n") and 'SYSTEM """Be kind."""' in modelfile


def test_without_a_bos_of_its_own_a_model_has_none_in_its_prompts(tmp_path: Path) -> None:
    """llama.cpp takes the token 11 where a file names none."""
    from transformers import AutoTokenizer

    from tinkerscript.exporting.gguf_file import gguf_export

    folder = made(tmp_path / "model", "smollm")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"bos_token_id": None}))
    (folder / "chat_template.jinja").write_text("{{ bos_token }}" + CHATML)
    asked_for = [{"role": "user", "content": "one"}]
    expected = AutoTokenizer.from_pretrained(folder).apply_chat_template(
        asked_for, tokenize=False, add_generation_prompt=True
    )
    server = served(gguf_export(folder, "f16")[0])
    assert asked(server, "apply-template", messages=asked_for)["prompt"] == expected


def test_of_gemma_what_was_not_proven_is_refused(tmp_path: Path) -> None:
    from tinkerscript.exporting.gguf_file import gguf_export

    folder = made(tmp_path / "model", "gemma3")
    whole = {name: (folder / name).read_text() for name in ("config.json", "tokenizer.json")}
    config, tokenizer = (json.loads(text) for text in whole.values())
    rope, model = config["rope_parameters"], tokenizer["model"]
    yarn = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 2.0}
    few = {token: number for token, number in model["vocab"].items() if token != "<0x41>"}
    joins = {"vocab": model["vocab"] | {"a\n": 551}, "merges": [*model["merges"], ["a", "\n"]]}
    for name, changed, said in [
        ("config.json", {"hidden_activation": "gelu"}, "hidden_activation = 'gelu'"),
        ("config.json", {"final_logit_softcapping": 30.0}, "final_logit_softcapping = 30.0"),
        ("config.json", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("config.json", {"layer_types": ["full_attention", "sliding_attention"] * 4}, "a period"),
        ("config.json", {"rope_parameters": rope | {"full_attention": yarn}}, "scaling .yarn."),
        ("config.json", {"rope_parameters": rope | {"sliding_attention": yarn}}, "rope yarn"),
        ("tokenizer.json", {"normalizer": None}, "how it changes text"),
        ("tokenizer.json", {"pre_tokenizer": {"type": "Whitespace"}}, "how it splits text"),
        ("tokenizer.json", {"post_processor": None}, "no bos"),
        ("tokenizer.json", {"model": model | {"vocab": few}}, "bytes that have no token"),
        ("tokenizer.json", {"model": model | joins}, "line ends within tokens"),
    ]:
        (folder / name).write_text(json.dumps(json.loads(whole[name]) | changed))
        with pytest.raises(InvalidRequest) as refused:
            gguf_export(folder, "f16")
        assert re.search(said, str(refused.value)), (said, str(refused.value))
        assert not (folder / "gguf").exists(), said
        (folder / name).write_text(whole[name])


def test_what_was_not_proven_is_refused_by_its_name(tmp_path: Path) -> None:
    from tinkerscript.exporting.gguf_file import gguf_export

    folder = made(tmp_path / "model", "smollm")
    config, tokenizer = (
        json.loads((folder / name).read_text()) for name in ("config.json", "tokenizer.json")
    )
    far = {"<far>": config["vocab_size"]}
    vocab = tokenizer["model"] | {"vocab": tokenizer["model"]["vocab"] | far}
    added = [
        *tokenizer["added_tokens"],
        tokenizer["added_tokens"][0] | {"id": -1, "content": "<before>"},
    ]
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    )
    for name, changed, said in [
        (
            "config.json",
            config | {"architectures": ["MistralForCausalLM"]},
            "MistralForCausalLM is not written",
        ),
        (
            "config.json",
            config | {"rope_parameters": {"rope_type": "yarn"}},
            "rope scaling .yarn. is not",
        ),
        (
            "config.json",
            config | {"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}},
            "rope scaling .linear. is not",
        ),
        ("config.json", config | {"attention_bias": True}, "attention_bias = True is not"),
        (
            "tokenizer.json",
            tokenizer | {"pre_tokenizer": {"type": "Whitespace"}},
            "splits text in a way",
        ),
        ("tokenizer.json", tokenizer | {"model": {"type": "Unigram"}}, "byte-level BPE"),
        (
            "tokenizer.json",
            tokenizer | {"model": vocab},
            f"'<far>' has the id {config['vocab_size']}",
        ),
        ("tokenizer.json", tokenizer | {"added_tokens": added}, "'<before>' has the id -1"),
        ("config.json", None, "config.json cannot be read"),
    ]:
        whole = (folder / name).read_text()
        (folder / name).write_text("no" if changed is None else json.dumps(changed))
        with pytest.raises(InvalidRequest, match=said):
            gguf_export(folder, "f16")
        assert not (folder / "gguf").exists(), said
        (folder / name).write_text(whole)
    (folder / "gguf/model-f16.gguf").mkdir(parents=True)
    with pytest.raises(OSError, match="model-f16.gguf"):
        gguf_export(folder, "f16")
    assert [path.name for path in folder.glob("gguf/*")] == ["model-f16.gguf"], (
        "a write that fails leaves no part"
    )
    (folder / "gguf/model-f16.gguf").rmdir()
    [_, modelfile] = gguf_export(folder, "f16")
    assert "TEMPLATE" not in modelfile.read_text() and "is not ChatML" in modelfile.read_text()
