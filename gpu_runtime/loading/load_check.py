"""Whether a folder is a base model that can be loaded: ``python -m gpu_runtime.loading.load_check
FOLDER``.

Reads the configuration, the tokenizer with its chat template and every weight, and computes one
forward pass of a few tokens. It prints one line of JSON, {"parameters", "context_length", "tools",
"thoughts"}, or says on stderr what is wrong and ends with 1.
"""

import json
import sys
from pathlib import Path

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.failures.input_errors import said
from gpu_runtime.loading.tokenizer import renderer_load
from tinkerscript.wire.config import SessionConfig


class LoadCheckError(Exception):
    """The folder is no base model; the message says why."""


def load_check(folder: Path) -> dict[str, int | None]:
    """The number of weights, and the context length in tokens where it is known; whether the chat
    template has calls of tools and thoughts that the gateway reads. Raises LoadCheckError.
    """
    import torch
    from transformers import AutoConfig, AutoTokenizer

    from gpu_runtime.training.models.towers import auto_class

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        model, found = auto_class(config).from_pretrained(
            folder, local_files_only=True, dtype="auto", output_loading_info=True
        )
    except Exception as error:  # the libraries raise whatever a file leads them to
        raise LoadCheckError(f"it does not load: {said(error)}") from error
    if missing := sorted(found["missing_keys"]):  # transformers would fill them with noise
        raise LoadCheckError(f"it lacks {len(missing)} weights, the first is {missing[0]}")
    try:
        if tokenizer.chat_template:
            ids = tokenizer.apply_chat_template(
                [{"role": "user", "content": "Hello"}],
                add_generation_prompt=True,
                return_tensors="pt",
                return_dict=True,
            )
        else:  # it serves text completions
            ids = tokenizer("Hello", return_tensors="pt", return_token_type_ids=False)
        with torch.inference_mode():
            logits = model(**ids).logits
    except Exception as error:
        raise LoadCheckError(f"it does not answer a short prompt: {said(error)}") from error
    if not torch.isfinite(logits).all():
        raise LoadCheckError("its answer to a short prompt is not finite: a weight is damaged")
    try:
        renderer = renderer_load(str(folder), SessionConfig())
    except ModelUnsupported as refusal:
        raise LoadCheckError(str(refusal)) from refusal
    length = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return {
        "parameters": model.num_parameters(),
        "context_length": length if isinstance(length, int) else None,
        "tools": renderer.tool_format is not None and renderer.writes_results,
        "thoughts": renderer.thoughts is not None or renderer.harmony is not None,
    }


if __name__ == "__main__":
    from gpu_runtime.weights.dequantise import DequantiseError, in_full  # imports torch

    try:
        with in_full(Path(sys.argv[1])) as plain:
            sys.stdout.write(json.dumps(load_check(plain)) + "\n")
    except (LoadCheckError, DequantiseError) as error:
        raise SystemExit(f"error: {error}") from error
