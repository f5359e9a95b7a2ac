"""How much memory of its own a rank has while it loads or exports a model, and one that is large
enough to see it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_runtime.training.rank_process import rank_load
from gpu_runtime.training.rank_spec import RankSpec
from support.rank_probe import trainer_make
from tinkerscript.wire.config import SessionConfig

PAGE = 4096
LOOK_S = 0.002


def large_model_make(folder: Path) -> int:
    """A model of random weights in bfloat16; returns the bytes of its weights in float32, about 200
    million.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=2048, hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=4, max_position_embeddings=128, tie_word_embeddings=False,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    return sum(weight.numel() for weight in model.parameters()) * 4


def peak_path(model: Path, rank: int) -> Path:
    """Where ``rank_load_measured`` writes its figure."""
    return model.with_name(f"{model.name}-peak-{rank}")


def rank_load_measured(spec: RankSpec, on_row):
    """``rank_load``, beside a file with the bytes that this rank had of its own at most while the
    model was loaded.
    """
    from gpu_runtime.training import trainer

    load = trainer.policy_load

    def measured(*arguments, **options):
        with _peak() as seen:
            policy = load(*arguments, **options)
        peak_path(Path(spec.base_model_path), spec.rank).write_text(str(max(seen) - seen[0]))
        return policy

    trainer.policy_load = measured
    return rank_load(spec, on_row)


def export_peak(model: str, config: SessionConfig, folder: Path) -> int:
    """Bytes of its own that a rank has at most while it exports the model, beside those that it
    had.
    """
    trainer = trainer_make(model, config)
    with _peak() as seen:
        trainer.export_model(folder)
    return max(seen) - seen[0]


@contextmanager
def _peak() -> Iterator[list[int]]:
    """Anonymous memory now, and again and again until the block ends. Mapped files are no memory of
    the process.
    """
    seen, ended = [_anonymous_bytes()], threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_S):
            seen.append(_anonymous_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
        seen.append(_anonymous_bytes())


def _anonymous_bytes() -> int:
    _, resident, of_files, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return (resident - of_files) * PAGE
