"""Whether a folder is a base model that can be loaded: ``python -m gpu_runtime.weights.load_check
FOLDER``.

Reads the configuration, the tokenizer with its chat template and every weight, and computes one
forward pass of a few tokens. It prints one line of JSON, {"parameters", "context_length"}, or says
on stderr what is wrong and ends with 1.
"""

import json
import sys
from pathlib import Path

from gpu_runtime.failures.input_errors import said
from gpu_runtime.weights.dequantise import DequantiseError, in_full


class LoadCheckError(Exception):
    """The folder is no base model; the message says why."""


def load_check(folder: Path) -> dict[str, int | None]:
    """The number of weights, and the context length in tokens where it is known. Raises
    LoadCheckError.
    """
    import torch
    from transformers import AutoConfig, AutoTokenizer

    from .auto_class import auto_class

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
    if not tokenizer.chat_template:
        raise LoadCheckError("its tokenizer has no chat template: add chat_template.jinja")
    try:
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": "Hello"}],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        )
        with torch.inference_mode():
            logits = model(**ids).logits
    except Exception as error:
        raise LoadCheckError(f"it does not answer a short prompt: {said(error)}") from error
    if not torch.isfinite(logits).all():
        raise LoadCheckError("its answer to a short prompt is not finite: a weight is damaged")
    length = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return {
        "parameters": model.num_parameters(),
        "context_length": length if isinstance(length, int) else None,
    }


if __name__ == "__main__":
    try:
        with in_full(Path(sys.argv[1])) as plain:
            sys.stdout.write(json.dumps(load_check(plain)) + "\n")
    except (LoadCheckError, DequantiseError) as error:
        raise SystemExit(f"error: {error}") from error
