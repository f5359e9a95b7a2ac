"""Ratios of trainer to sampled are counted between edges that the console draws."""

import math
import re
from pathlib import Path

from tinkerscript.wire.episodes import EpisodeView
from tinkerscript.wire.training.engine_correction import RATIO_EDGES, ratios_count

SPREAD = Path(__file__).parents[2] / "frontend/src/features/sessions/episodes/spread.ts"


def test_each_ratio_is_between_its_edges_and_none_of_none() -> None:
    counts = ratios_count([0.0, 1e-6, math.log(0.3), math.log(1.3), 800.0, math.nan, -math.inf])
    expected = {0: 1, RATIO_EDGES.index(1.0001): 2, RATIO_EDGES.index(2.0): 1, len(RATIO_EDGES): 1}
    assert dict(enumerate(counts or [])) == dict.fromkeys(range(len(RATIO_EDGES) + 1), 0) | expected
    assert ratios_count([]) is None and ratios_count([math.nan]) is None


def test_the_console_and_the_wire_name_the_same_edges() -> None:
    drawn = re.search(r"RATIO_EDGES = \[([^\]]*)\]", SPREAD.read_text())
    assert drawn is not None and tuple(map(float, drawn[1].strip(" \n,").split(","))) == RATIO_EDGES
    told = EpisodeView.model_fields["ratio_counts"].description or ""
    assert all(f" {edge:g}" in told for edge in RATIO_EDGES)
