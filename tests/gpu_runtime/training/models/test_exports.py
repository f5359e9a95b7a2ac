"""What leaves the trainer computes the same elsewhere: adapters in peft, merged and full weights in
transformers.

With a base whose head is tied to its embeddings, and with one whose head is its own.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from gpu_runtime.model_interfaces import AdamParams, InvalidTrainingInput, LoraConfig
from gpu_runtime.training.models.trainer import BaseWithModels
from gpu_runtime.training.rank_spec import RankSpec
from support.model_data import drawn_data, plain_logprobs
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

COOKBOOK = Path(__file__).resolve().parents[4] / ".venv-cookbook" / "bin" / "python"
BUILD = """
import json, sys
from tinker_cookbook import weights
paths, folder = json.loads(sys.argv[1]), sys.argv[2]
weights.build_hf_model(output_path=f"{folder}/built", **paths)
weights.build_lora_adapter(output_path=f"{folder}/converted", **paths)
"""
pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore:.*tie_word_embeddings:UserWarning"),
]
DATA = drawn_data("cross_entropy", seed=3)


@pytest.fixture(params=["tied", "untied"])
def base(tmp_path, request):
    folder = tiny_model_make(tmp_path / "base")
    if request.param == "untied":
        config = json.loads((folder / "config.json").read_text()) | {"tie_word_embeddings": False}
        (folder / "config.json").write_text(json.dumps(config))
        weights = load_file(folder / "model.safetensors")
        generator = torch.Generator().manual_seed(4)
        weights["lm_head.weight"] = torch.randn(98, 64, generator=generator) * 0.05
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def trained(base, lora: LoraConfig | None) -> BaseWithModels:
    trainer = BaseWithModels(RankSpec(str(base), SessionConfig(), 0, 1, "", "cpu", 2))
    trainer.create_model("m", lora)
    for _ in range(3):
        trainer.forward_backward("m", DATA, "cross_entropy", {})
        trainer.optim_step("m", AdamParams(learning_rate=2e-2))
    return trainer


def worst(model, trainer) -> float:
    outputs = trainer.forward("m", DATA, "cross_entropy", {}).outputs
    with torch.no_grad():
        gaps = [
            np.abs(plain_logprobs(model, datum).numpy() - output["logprobs"]).max()
            for datum, output in zip(DATA, outputs, strict=True)
        ]
    return float(max(gaps))


def plain(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def test_an_adapter_and_its_merged_folder_compute_what_the_trainer_does(base, tmp_path):
    trainer = trained(base, LoraConfig(4, seed=1))
    trainer.publish("m", tmp_path / "adapter")
    trainer.export_model("m", external := tmp_path / "external")
    assert worst(plain(base), trainer) > 0.1, "it has learned something"
    assert worst(PeftModel.from_pretrained(plain(base), tmp_path / "adapter"), trainer) < 1e-5
    assert worst(plain(external / "merged"), trainer) < 1e-4
    assert AutoTokenizer.from_pretrained(external / "merged").chat_template
    assert worst(PeftModel.from_pretrained(plain(base), external), trainer) < 1e-5, (
        "an export has both"
    )
    files = {path.name for path in external.iterdir()} - {"merged"}
    assert files == {"adapter_config.json", "adapter_model.safetensors"}


@pytest.mark.skipif(
    not COOKBOOK.exists(), reason="tinker-cookbook is not installed: .venv-cookbook"
)
def test_the_cookbook_builds_a_model_and_an_adapter_from_an_export(base, tmp_path):
    """As ``weights.download`` gives it to them, in the cookbook's environment.

    An adapter on a head that is tied to its embeddings is not among them: the cookbook knows no
    such weight.
    """
    has_head = not json.loads((base / "config.json").read_text())["tie_word_embeddings"]
    trainer = trained(base, LoraConfig(4, seed=1, train_unembed=has_head))
    trainer.export_model("m", tmp_path / "external")
    paths = {"adapter_path": str(tmp_path / "external"), "base_model": str(base)}
    built = subprocess.run(
        [COOKBOOK, "-c", BUILD, json.dumps(paths), str(tmp_path)], capture_output=True, text=True, timeout=240,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert built.returncode == 0, built.stderr[-3000:]
    assert worst(plain(tmp_path / "built"), trainer) < 1e-4
    assert worst(PeftModel.from_pretrained(plain(base), tmp_path / "converted"), trainer) < 1e-5


@pytest.mark.parametrize("lora", [LoraConfig(4, seed=1), None], ids=["adapter", "all weights"])
def test_a_saved_state_leaves_as_its_model_does_when_that_is_long_gone(base, tmp_path, lora):
    trainer = trained(base, lora)
    trainer.publish("m", tmp_path / "direct")
    trainer.save_state("m", tmp_path / "state")
    trainer.unload("m")
    trainer.create_model("another", LoraConfig(2))
    trainer.export_state(tmp_path / "state", tmp_path / "exported")
    direct, exported = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
                        for name in ("direct", "exported"))  # fmt: skip
    assert direct == exported
    with pytest.raises(InvalidTrainingInput, match="no saved state"):
        trainer.export_state(tmp_path / "direct", tmp_path / "nothing")


@pytest.mark.parametrize(
    ("lora", "kind"),
    [(LoraConfig(4, seed=1), "state"), (LoraConfig(4, seed=1), "sampler"), (None, "state")],
    ids=["adapter", "adapter for samplers", "all weights"],
)
def test_what_a_client_saved_becomes_the_base_of_another_session(base, tmp_path, lora, kind):
    trainer = trained(base, lora)
    {"state": trainer.save_state, "sampler": trainer.publish}[kind]("m", tmp_path / "saved")
    fresh = BaseWithModels(RankSpec(str(base), SessionConfig(), 0, 1, "", "cpu", 2))
    fresh.export_merged(tmp_path / "saved", tmp_path / "merged")
    assert worst(plain(base), trainer) > 0.1
    assert worst(plain(tmp_path / "merged"), trainer) < 1e-5
    AutoTokenizer.from_pretrained(tmp_path / "merged")


def test_a_model_of_all_weights_leaves_as_a_hugging_face_folder(base, tmp_path):
    trainer = trained(base, None)
    trainer.publish("m", tmp_path / "model")
    assert worst(plain(base), trainer) > 0.1
    assert worst(plain(tmp_path / "model"), trainer) < 1e-5
    saved = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (
        saved["tie_word_embeddings"]
        == json.loads((base / "config.json").read_text())["tie_word_embeddings"]
    )
