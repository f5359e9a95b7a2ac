"""How an engine on a CPU gets its first weights: right from the model's files into the layout that
it multiplies from.

vLLM's own loader copies each weight into a parameter, packs that and drops the parameter. Here a
plain model of known layout, as ``packing.py`` has it, is packed from the files as they are mapped;
every other one is loaded as vLLM does.

An engine whose weights are handed over before its first call (those of a state) reads none at all.
Until then its model refuses to compute, and takes nothing but a whole model.
"""

import copy
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import safe_open
from torch import nn
from vllm.config import ModelConfig, VllmConfig
from vllm.config.load import LoadConfig
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
from vllm.model_executor.model_loader.utils import process_weights_after_loading
from vllm.utils.torch_utils import set_default_torch_dtype

from .formats import AWAITED, PACKED
from .packing import WeightPacking, unwritten
from .reader import folder_files, folder_tensors


class PackedLoader(DefaultModelLoader):
    """vLLM's loader, which this is for everything but the first weights of a plain model."""

    def __init__(self, load_config: LoadConfig) -> None:
        self._awaits = load_config.load_format == AWAITED
        usual = copy.copy(load_config)
        usual.load_format = "auto"
        super().__init__(usual)

    def load_model(
        self, vllm_config: VllmConfig, model_config: ModelConfig, prefix: str = ""
    ) -> nn.Module:
        """vLLM's protocol."""
        folder, device = Path(model_config.model), torch.device("cpu")
        # A head that the file may have beside tied embeddings is compared with them, by the
        # weights: vLLM's to do.
        is_plain = (
            model_config.quantization is None
            and not model_config.word_embeddings_untied_by_checkpoint
        )
        if not is_plain or not folder_files(folder):
            return super().load_model(vllm_config, model_config, prefix)
        with set_default_torch_dtype(model_config.dtype):
            with device:
                model = self.create_model(
                    vllm_config=vllm_config, model_config=model_config, prefix=prefix
                )
            names = names_of(folder)
            # One that is in two files stands for the weight of which of them? The library reads an
            # index.
            if len(set(names)) < len(names) or not WeightPacking(model).fits(set(names)):
                self.load_weights(model, model_config)
                process_weights_after_loading(model, model_config, device)
                return model.eval()
            with unwritten():
                process_weights_after_loading(model, model_config, device)
            if self._awaits:
                weights_await(model)
            elif not WeightPacking(model).take(folder_tensors(folder, model_config.dtype)):
                raise ValueError(f"the weights in {folder.name} are not those that its files list")
        return model.eval()


for _format in (PACKED, AWAITED):
    register_model_loader(_format)(PackedLoader)


def names_of(folder: Path) -> list[str]:
    """Of the weights in each of a folder's files."""
    names: list[str] = []
    for file in folder_files(folder):
        with safe_open(file, "pt") as opened:
            names += opened.keys()
    return names


def weights_await(model: nn.Module) -> None:
    """Let ``model`` refuse to compute until ``weights_arrived``."""
    vars(model)["forward"] = _refuse


def weights_arrived(model: nn.Module) -> None:
    """It has all of its weights. Of a model that had them before nothing changes."""
    if awaits_weights(model):
        del vars(model)["forward"]


def awaits_weights(model: nn.Module) -> bool:
    """Whether it has none yet."""
    return vars(model).get("forward") is _refuse


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError("this engine has not been given its weights yet")
