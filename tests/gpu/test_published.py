"""prime-rl's published rows are read as they are meant, and stand beside what counts as they do.
Needs no GPU.
"""

import json
from pathlib import Path

import pytest
from gpu.part import Table
from gpu.throughput import COLUMNS, SHAPE, full, published

from support.model_flops import peak_tflops, prime_rl_flops, step_flops

HERE = Path(__file__).parent
ROWS = json.loads((HERE / "prime_rl.json").read_text())["rows"]
SHAPES = {
    "Qwen/Qwen3-0.6B": SHAPE,
    "Qwen/Qwen3-4B-Instruct-2507": SHAPE | {
        "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32,
    },
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["file"].removeprefix("benchmark-"))
def test_their_utilisation_is_their_tokens_a_second_by_their_formula(row):
    """So the shape, the peak and the meaning of both columns are understood."""
    flops = row["tokens_per_s"] * prime_rl_flops(row["tokens"], SHAPES[row["model"]])
    share = flops / (peak_tflops(row["device"]) * 1e12 * row["devices"])
    assert 100 * share == pytest.approx(row["mfu_percent"], rel=1e-2)


def test_the_batch_beside_them_has_as_many_operations_by_our_count():
    tokens = 2000
    ours = step_flops(full(tokens, SHAPE["vocab_size"]), tokens, SHAPE)
    assert ours == pytest.approx(2 * tokens * prime_rl_flops(tokens, SHAPE), rel=2e-3)


def test_only_rows_of_the_same_shape_device_count_and_length_stand_beside_ours():
    (row,) = published(16_384)
    assert row[0] == "prime-rl, published: full, Recompute, H100 80GB HBM3"
    assert dict(zip(COLUMNS, row, strict=True))["MFU"] == "11.1%"
    assert len(published(65_536)) == 2 and published(8192) == []


def test_a_table_is_left_as_what_is_printed_and_a_short_line_is_no_line(tmp_path, capsys):
    table = Table("Title", ("a", "b"), [["1", "2"]], ["Note."])
    table.write(tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text()) == {
        "title": "Title", "columns": ["a", "b"], "rows": [["1", "2"]], "notes": ["Note."]
    }  # fmt: skip
    assert "| a | b |\n| --- | --- |\n| 1 | 2 |\n\nNote." in capsys.readouterr().out
    table.rows.append(["1"])
    with pytest.raises(AssertionError):
        table.write(None)
