"""What a trainer has published, as the engine finds it, in copies: the trainer's next step changes
the originals.
"""

from pathlib import Path

from torch import Tensor

from gpu_runtime.weights.reader import MappedWeights


def published_weights(folder: Path) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in MappedWeights().of(folder).items()}
