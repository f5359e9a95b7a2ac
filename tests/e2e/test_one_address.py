"""Everything that a client does, from another machine: it reaches one port of one address, and no
name or loopback.
"""

import json
import sys
from pathlib import Path

import pytest
from e2e.loop_server import BASE_MODEL, ROOT, LoopServer

from support.another_machine import another_machine
from support.safetensors_bytes import safetensors_bytes

SHAPES = {"model.embed_tokens.weight": [5, 4], "model.norm.weight": [4]}
CONFIG = {"model_type": "llama", "hidden_size": 4, "num_hidden_layers": 0, "vocab_size": 5}


@pytest.mark.smoke
def test_a_client_on_another_machine_does_everything_through_one_address(tmp_path: Path) -> None:
    base, upload = tmp_path / "mine", tmp_path / "home" / "upload"
    for folder, dtype in ((base, "F32"), (upload, "BF16")):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(CONFIG))
        (folder / "model.safetensors").write_bytes(safetensors_bytes(SHAPES, dtype=dtype))
    with another_machine() as other:
        server = LoopServer(tmp_path)
        server.url = server.url.replace("127.0.0.1", other.address)
        server.environment |= {
            "TINKERSCRIPT_HOST": other.address,
            "TINKERSCRIPT_MODELS": f"mine={base}",
        }
        try:
            server.start()
            program = str(Path(__file__).with_name("one_address.py"))
            paths = f"{ROOT}:{ROOT / 'sdk'}:{ROOT / 'tests'}"
            env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": paths, "HOME": str(tmp_path)}
            command = [
                sys.executable,
                program,
                server.url,
                BASE_MODEL,
                str(tmp_path / "home"),
                server.api_key,
            ]
            played = other.run(command, timeout_s=240, env=env)
            if played.returncode:
                pytest.fail(played.stderr)
        finally:
            server.close()
    told = json.loads(played.stdout.splitlines()[-1])
    assert told["step"] == 1 and {"tokenizer.json", "weights.json"} <= set(told["files"])
    assert told["parts"] and told["documents"] and told["batch_bytes"]
    assert told["given"] and all(url.startswith(f"{server.url}/store/") for url in told["given"])
