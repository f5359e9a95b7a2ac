"""What an engine on a CPU makes of a tiny model of a family, and which of it is known.

Of the families in KNOWN the engine, or a part of it, computes something else or nothing. The job of
``tests/benchmarks/families.py`` fails where such a family ends otherwise than is written here, so
that this and docs/models.md stay true.
"""

from dataclasses import dataclass

from support.model_families import REFUSED

GAP = 1e-4  # nats, in float32: the most by which engine and trainer that agree are apart


@dataclass(frozen=True)
class Known:
    """``code`` of the fault that a run ends with, and ``words`` of it, or of what the engine
    printed."""

    code: str
    words: str


GDN = Known("engine_dead", "CPU GDN attention requires BF16")
KNOWN = {
    "Qwen3.5": GDN,
    "Qwen3.5 with images": GDN,
    "LFM2": Known("engine_trainer_mismatch", "differ with the base weights: a KL of 0.007"),
    "Llama 4": Known("engine_dead", "attn_chunk_size 16 is not divisible by block_size 128"),
    "Mamba 2": Known("engine_dead", "shape '[40, 8, 16]' is invalid for input of size 3840"),
}
# Nats, at least and at most, of families that the rehearsal takes although they are over GAP.
# Bloom: transformers computes GELU by its tanh form, as the family was trained, and vLLM exactly.
WIDE = {"Bloom": (2e-4, 4e-3)}


@dataclass(frozen=True)
class Outcome:
    """What a run of a family came to. ``refusal``: why its folder was refused; ``code`` and
    ``words`` of the fault that ended it, with what the engine printed in ``printed``; else the
    largest differences in nats ``gaps``, and how long the rehearsal took.
    """

    refusal: str | None = None
    code: str | None = None
    words: str = ""
    printed: str = ""
    gaps: tuple[float, float] = (0.0, 0.0)
    took_s: float = 0.0


@dataclass(frozen=True)
class Found:
    """A row of the table without its name, and whether that is what is known of the family."""

    row: str
    held: bool


def outcome_judge(name: str, outcome: Outcome) -> Found:
    """What the table has of ``outcome``, and whether it is the one that docs/models.md names."""
    if outcome.refusal is not None:
        field = outcome.refusal.partition(": ")[2].split(", ")[0]
        return Found(f"refused at creation: {field} | | |", name in REFUSED)
    known = KNOWN.get(name)
    if outcome.code is not None:
        said = f"{outcome.words}\n{outcome.printed}"
        if known is not None and known.code == outcome.code and known.words in said:
            return Found(f"{known.code}: {known.words} | | |", True)
        return Found(f"{outcome.code}: {outcome.words[:300].replace('|', '/')} | | |", False)
    is_expected = known is None and name not in REFUSED
    numbers = " | ".join([*(f"{gap:.1e}" for gap in outcome.gaps), f"{outcome.took_s:.1f}"])
    if name in WIDE:
        least, most = WIDE[name]
        held = is_expected and least < max(outcome.gaps) < most
        words = f"rehearsal held, above {GAP:g} nats" if held else "not as known"
        return Found(f"{words} | {numbers}", held)
    return Found(f"agree | {numbers}", is_expected and max(outcome.gaps) < GAP)
