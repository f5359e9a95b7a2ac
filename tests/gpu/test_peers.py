"""What the parts that run the whole loop make of what they see. Needs no GPU, no TRL and no
engine.
"""

import pytest
import torch
from gpu.step import Meter, line
from gpu.trl_peer import PeerMissing, Server, _metric, tools_verify
from gpu.trl_peer import line as trl_line
from gpu.workload import COLUMNS, Workload

from support.tiny_model import tiny_model_make
from support.trl_async import path_attention

LOAD = Workload("", 8, 4, group=2, tasks=2, staleness=4, warm_up=1, steps=2, devices=2)


def test_two_of_three_steps_are_counted_by_the_time_between_their_ends(tmp_path):
    load = Workload(
        str(tiny_model_make(tmp_path)),
        8,
        4,
        group=2,
        tasks=2,
        staleness=4,
        warm_up=1,
        steps=2,
        devices=2,
    )
    meter = Meter(handovers=[9.0, 0.5, 0.7])
    meter.memory = {
        "trainer": 1 << 30,
        "engine peak": 3 << 30,
        "engine weights": 1 << 30,
        "engine cache": 1 << 29,
    }
    names = ("at", "generated", "trained", "trainer", "engine", "batches", "handovers")
    began = dict(zip(names, (100.0, 1000, 500, 10.0, 20.0, 1, 1), strict=True))
    ended = dict(zip(names, (110.0, 3000, 2000, 14.0, 29.0, 3, 3), strict=True))
    named = dict(zip(COLUMNS, line(load, meter, began, ended, 989.0, 2_000_000_000), strict=True))
    assert (named["s a step"], named["generated tokens / s"], named["trained tokens / s"]) == (
        "5.000",
        "200",
        "150",
    )
    assert (named["trainer idle"], named["engine idle"]) == ("60%", "10%")
    assert (named["hand-over, s"], named["hand-over, GB"]) == ("0.600", "2.000")
    assert (named["trainer, GiB"], named["engine, GiB"]) == (
        "1.00",
        "3.00 (1.00 weights, 0.50 cache)",
    )


def test_a_line_of_trl_is_of_the_same_steps_and_says_what_was_not_measured():
    logs = {"perf/fwd_bwd_s": 1.0, "perf/optimizer_s": 0.5, "batch/trained_tokens_per_step": 100.0}
    steps = [
        {"step": n, "at": 100.0 + 4 * n, "logs": logs | {"perf/weight_sync_s": 0.25}}
        for n in (1, 2, 3)
    ]
    server = Server(
        "", [(100.0, 0, 0), (104.0, 4, 80), (106.0, 0, 120), (112.0, 4, 480)], memory_bytes=2 << 30
    )
    named = dict(
        zip(
            COLUMNS,
            trl_line(LOAD, steps, server, {"peak": 1 << 30, "version": "1"}, 4e12, 10.0),
            strict=True,
        )
    )
    assert (named["s a step"], named["trained tokens / s"], named["trainer idle"]) == (
        "4.000",
        "25",
        "62%",
    )
    assert named["generated tokens / s"] == "50" and named["engine idle"] == "33%", (
        "looks from 104 to 112 s"
    )
    assert (named["hand-over, s"], named["hand-over, GB"]) == ("0.250", "")
    assert (named["MFU of steps"], named["MFU of all time"]) == ("26.7%", "10.0%")


def test_a_counter_of_the_server_is_the_sum_over_its_engines():
    text = (
        '# HELP n\nn{engine="0",model_name="m"} '
        '3.0\nn{engine="1",model_name="m"} 4.0\nn_created{engine="0"} 1.7e+09\n'
    )
    assert _metric(text, "n") == 7.0


def test_an_environment_without_trl_is_named_with_what_installs_it(tmp_path):
    python = tmp_path / "bin" / "python"
    with pytest.raises(PeerMissing, match="there is no .*python. tests/environments/build.py trl"):
        tools_verify(python, LOAD)
    python.parent.mkdir()
    python.write_text(
        "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'kernels'\" >&2; exit 1\n"
    )
    python.chmod(0o700)
    with pytest.raises(
        PeerMissing, match="No module named 'kernels'.*needs, beside tests/environments/trl.txt"
    ):
        tools_verify(python, LOAD)


def test_attention_in_trls_place_shows_each_segment_its_own_path():
    """A root of two tokens and two ends, of two and of one: as of two sequences by themselves."""
    torch.manual_seed(0)
    query, key, value = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
    found, _ = path_attention(
        None, query, key, value, None, tree_kv_index=torch.tensor([0, 1, 0, 1, 2, 3, 0, 1, 4]),
        tree_cu_seqlens_q=torch.tensor([0, 2, 4, 5]), tree_cu_seqlens_k=torch.tensor([0, 2, 6, 9]),
    )  # fmt: skip
    for path in ([0, 1, 2, 3], [0, 1, 4]):
        alone = torch.nn.functional.scaled_dot_product_attention(
            query[:, :, path], key[:, :, path], value[:, :, path], is_causal=True, enable_gqa=True
        )
        torch.testing.assert_close(found[:, path], alone.transpose(1, 2))
