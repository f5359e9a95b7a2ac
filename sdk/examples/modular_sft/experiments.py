"""The sweep: pairs of a model and a dataset with their hyper-parameters. Change this list; the rest
stays as it is.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Experiment:
    """One training run. ``rank`` 0 trains all weights, a rank above it an adapter; the rates of the
    two differ by ten.

    ``tokenizer`` is a folder or a Hugging Face id, where the name of the base model is neither.
    Lengths are in tokens.
    """

    name: str
    base_model: str
    dataset: Path
    tokenizer: str = ""
    rank: int = 16
    learning_rate: float = 5e-4
    batch_size: int = 16
    epochs: int = 3
    max_length: int = 256
    max_reply: int = 32
    seed: int = 0

    def options(self) -> dict[str, str | int | float]:
        """All of them, as they are written to config.json."""
        return asdict(self) | {"dataset": self.dataset.name}


SMALL = {"base_model": "SmolLM2-135M-Instruct", "tokenizer": "HuggingFaceTB/SmolLM2-135M-Instruct"}
EXPERIMENTS = [
    Experiment("smollm2-orders", dataset=HERE / "orders.jsonl", **SMALL),
    Experiment("smollm2-orders-rank-4", dataset=HERE / "orders.jsonl", rank=4, **SMALL),
    Experiment("smollm2-plurals", dataset=HERE / "plurals.jsonl", **SMALL),
]
