"""Weights in oneDNN's blocks: the kernel writes what oneDNN would, bit for bit, or it is not used."""

import subprocess

import pytest
import torch

from gpu_runtime.weights import onednn_blocks
from gpu_runtime.weights.onednn_blocks import Job, blocks_write, weight_pack


@pytest.fixture(autouse=True)
def kernel_is_compiled_anew():
    onednn_blocks.kernel.cache_clear()
    yield
    onednn_blocks.kernel.cache_clear()


@pytest.mark.parametrize(("rows", "columns"), [(64, 16), (64, 1), (128, 7), (192, 33), (960, 576)])
def test_rows_come_out_in_blocks_of_64_with_every_number_at_its_offset(rows, columns):
    weight_NK = torch.randn(rows, columns)
    found = torch.full((rows // 64, columns, 64), torch.nan)
    blocks_write([Job(found.data_ptr(), weight_NK)])
    assert torch.equal(found, weight_NK.view(-1, 64, columns).transpose(1, 2))


def packed_or_skip(weight_NK):
    packed = weight_pack(weight_NK)
    if packed is None:
        pytest.skip("oneDNN packs in other blocks on this processor (no AVX-512)")
    return packed


def test_after_a_write_the_layer_is_bit_for_bit_what_onednn_would_have_packed():
    pieces = [torch.randn(rows, 96) for rows in (128, 64, 64)]
    inputs, bias = torch.randn(5, 96), torch.randn(256)
    packed = packed_or_skip(torch.randn(256, 96))
    blocks_write(list(packed.jobs(pieces)))
    anew = torch.ops.mkldnn._reorder_linear_weight(torch.cat(pieces), None)  # noqa: SLF001 - an operator of torch's
    expected = torch.ops.mkldnn._linear_pointwise(inputs, anew, bias, "none", [], "")  # noqa: SLF001 - an operator of torch's
    assert torch.equal(packed(inputs, torch.empty(0), bias), expected)


def test_a_weight_that_has_no_whole_blocks_is_left_to_others():
    assert weight_pack(torch.randn(100, 64)) is None
    assert weight_pack(torch.randn(64, 64).bfloat16()) is None


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_compiler_weights_are_left_to_others_and_the_log_reports_it(monkeypatch, caplog, compiler):
    monkeypatch.setenv("CC", compiler)
    assert weight_pack(torch.randn(64, 64)) is None
    assert "slower" in caplog.text


def test_a_compiler_that_hangs_is_given_up(monkeypatch):
    def run(*_, timeout, **__):
        raise subprocess.TimeoutExpired("cc", timeout)

    monkeypatch.setattr(subprocess, "run", run)
    assert weight_pack(torch.randn(64, 64)) is None
