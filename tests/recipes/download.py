"""``weights.download()`` of the cookbook: what it decrypts of a state is what a plain export of the
weights has.

Usage: ``download.py model_name=... log_path=...``, as the recipes of the cookbook, with
TINKER_BASE_URL and TINKER_API_KEY set.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tinker
from tinker import types
from tinker_cookbook import weights


def drawn(length: int) -> types.Datum:
    rng = np.random.default_rng(length)
    tokens = rng.integers(5, 60, length + 1)
    weights_T = (rng.random(length) < 0.7).astype(np.float32)
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1].tolist()),
        loss_fn_inputs={
            "target_tokens": types.TensorData.from_numpy(tokens[1:].astype(np.int64)),
            "weights": types.TensorData.from_numpy(weights_T),
        },
    )


def contents(path: str, folder: Path) -> dict[str, bytes]:
    weights.download(tinker_path=path, output_dir=str(folder))
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def main(arguments: Sequence[str]) -> int:
    options = dict(each.split("=", 1) for each in arguments)
    folder = Path(options["log_path"])
    with tinker.ServiceClient() as service:
        model = service.create_lora_training_client(options["model_name"], rank=8, seed=7)
        model.forward_backward([drawn(9)], "cross_entropy").result(timeout=300)
        model.optim_step(types.AdamParams(learning_rate=1e-2)).result(timeout=300)
        paths = [
            call("end").result(timeout=300).path
            for call in (model.save_weights_external, model.save_state)
        ]
    plain, decrypted = (
        contents(path, folder / name) for path, name in zip(paths, ("plain", "state"), strict=True)
    )
    (folder / "metrics.jsonl").write_text(json.dumps({"step": 0, "files": len(decrypted)}) + "\n")
    print({name: [len(content), content == decrypted.get(name)] for name, content in plain.items()})
    return int(
        plain != decrypted
        or not {"adapter_model.safetensors", "merged/config.json"} <= plain.keys()
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
