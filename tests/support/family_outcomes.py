"""What an engine on a CPU makes of a tiny model of a family, and which of it is known.

Of the families in KNOWN the engine, or a part of it, computes something else or nothing. The job of
``tests/benchmarks/families.py`` fails where such a family ends otherwise than is written here, so
that this and docs/models.md stay true.
"""

from dataclasses import dataclass
from pathlib import Path

from support.model_families import REFUSED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"
GAP = 1e-4  # nats, in float32: the most by which engine and trainer that agree are apart
GRADIENT = 1e-4  # distance of two gradients over their norm, in float32
ROUNDED = 1.0  # nats, in bfloat16, of one token: what the rehearsal takes on average is far less
CELLS = 5  # of a row behind its verdict: three gaps, the gradient, bits after a kill


@dataclass(frozen=True)
class Known:
    """``code`` of the fault that a run ends with, and ``words`` of it, or of what the engine
    printed."""

    code: str
    words: str


KNOWN = {
    "Cohere 2": Known("engine_trainer_mismatch", "differ with the base weights: a KL of 0.22"),
    "Nemotron-H MoE": Known(
        "engine_dead", "is_act_and_mul=False is supported only for CUDA, XPU and ROCm for now"
    ),
    "Kimi Linear": Known("engine_dead", "No module named 'cutlass'"),
    "Llama 4": Known("engine_dead", "attn_chunk_size 16 is not divisible by block_size 128"),
    "Mamba 2": Known("engine_dead", "shape '[40, 8, 16]' is invalid for input of size 3840"),
}
# Nats, at least and at most, of families that the rehearsal takes although they are over GAP.
# Bloom: transformers computes GELU by its tanh form, as the family was trained, and vLLM exactly.
# Apertus: vLLM keeps the two numbers of each activation in bfloat16.
WIDE = {"Apertus": (5e-4, 1e-2), "Bloom": (2e-4, 4e-3)}
# Of families whose engine computes on a CPU in this type alone; any other is run in float32.
DTYPES = dict.fromkeys(("Qwen3.5", "Qwen3.5 with images", "Qwen3-Next", "Qwen3.5 MoE"), "bfloat16")


@dataclass(frozen=True)
class Outcome:
    """What a run of a family came to. ``refusal``: why its folder was refused; ``code`` and
    ``words`` of the fault that ended it, with what the engine printed in ``printed``. Else the
    largest differences in nats ``gaps`` (base, handed over, after steps), the distance of the
    ``gradient`` from plain torch's, and whether a killed trainer has the ``same`` bits (None: none
    was killed).
    """

    refusal: str | None = None
    code: str | None = None
    words: str = ""
    printed: str = ""
    gaps: tuple[float, ...] = ()
    gradient: float = 0.0
    same: bool | None = None


@dataclass(frozen=True)
class Found:
    """A row of the table without its name, and whether that is what is known of the family."""

    row: str
    held: bool


def measured() -> dict[str, str]:
    """The rows of the page's second table, by family, without name, date and machine."""
    block = PAGE.read_text().partition("<!-- families: begin -->")[2]
    lines = block.partition("<!-- families: end -->")[0].splitlines()[3:]
    cells = [line.strip("| ").split(" | ") for line in lines]
    return {name: " | ".join(row[:-1]) for name, *row in cells}


def outcome_judge(name: str, outcome: Outcome) -> Found:
    """What the table has of ``outcome``, and whether it is the one that docs/models.md names."""
    nothing = " |" * CELLS
    if outcome.refusal is not None:
        field = outcome.refusal.partition(": ")[2].split(", ")[0]
        return Found(f"refused at creation: {field}{nothing}", name in REFUSED)
    known = KNOWN.get(name)
    if outcome.code is not None:
        said = f"{outcome.words}\n{outcome.printed}"
        if known is not None and known.code == outcome.code and known.words in said:
            return Found(f"{known.code}: {known.words}{nothing}", True)
        words = " ".join(outcome.words[:300].replace("|", "/").split())
        return Found(f"{outcome.code}: {words}{nothing}", False)
    bits = {None: "", True: "the same", False: "others"}[outcome.same]
    numbers = " | ".join([*(f"{gap:.1e}" for gap in (*outcome.gaps, outcome.gradient)), bits])
    is_expected = known is None and name not in REFUSED and outcome.same is not False
    is_expected = is_expected and outcome.gradient < GRADIENT
    least, most, words = 0.0, GAP, "agree"
    if name in WIDE:
        (least, most), words = WIDE[name], f"rehearsal held, above {GAP:g} nats"
    if name in DTYPES:
        most, words = ROUNDED, f"rehearsal held, in {DTYPES[name]}"
    held = is_expected and least <= max(outcome.gaps) < most
    return Found(f"{words if held else 'not as known'} | {numbers}", held)
