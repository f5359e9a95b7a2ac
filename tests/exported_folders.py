"""Exported folders under transformers 4.57 and 5: the same ids, template and theta as were trained.

``python tests/exported_folders.py [--older PYTHON]``

One folder per kind of model is exported as a trainer does it. ``tinkerscript verify`` then checks
each with the transformers that is installed, and with 4.57 in an environment of its own. Status 0:
all agree.
"""

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]
OLDER = ["transformers==4.57.*", "jinja2", "pydantic", "httpx", "typer"]
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}  # fmt: skip
SHAPE: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 256,
}  # fmt: skip
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
    from support.tiny_tokenizers import build_tokenizer

    name, rope, family = KINDS[kind]
    base, folder = place / "base", place / "exported"
    build_tokenizer(base, family)
    path = base / "tokenizer_config.json"  # in the form that published bases have
    told = json.loads(path.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    told["additional_special_tokens"] = told.pop("extra_special_tokens")
    path.write_text(json.dumps(told))
    vocabulary = len(transformers.AutoTokenizer.from_pretrained(base))
    config = getattr(transformers, name)(vocab_size=vocabulary, rope_parameters=rope, **SHAPE)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(base)
    folder.mkdir()
    hugging_face_export(model, full_weights(model, {}, None), str(base), folder)
    return folder


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


def rows(pythons: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Kind, version, and whether it agrees; what differs is printed."""
    for kind in KINDS:
        with TemporaryDirectory() as place:
            folder = export(kind, Path(place))
            for python in pythons:
                agrees, said = verified(python, folder)
                if not agrees:
                    print(said)
                yield kind, version(python), agrees


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Verify exported folders under two versions of transformers."
    )
    parser.add_argument(
        "--older", help="an interpreter with transformers 4.57; without it one is set up"
    )
    older = parser.parse_args().older
    with TemporaryDirectory() as place:
        found = list(rows([sys.executable, older or older_python(Path(place))]))
    print("| model | transformers | ids, template and theta |\n| --- | --- | --- |")
    for kind, of, agrees in found:
        print(f"| {kind} | {of} | {'as trained' if agrees else 'differ'} |")
    return 0 if all(agrees for *_, agrees in found) else 1


if __name__ == "__main__":
    sys.exit(main())
