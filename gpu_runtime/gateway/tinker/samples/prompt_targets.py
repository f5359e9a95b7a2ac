"""Tokens that a client wants scored at the places of its prompt, and tokens that are drawn there:
request and answer.

Shape legend: R rows (the places of the prompt but the first), K columns of the client's tensor.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gpu_runtime.gateway.tinker import messages
from gpu_runtime.gateway.tinker.data import UserMistake, row_counts
from gpu_runtime.gateway.tinker.requests import MAX_ROW, Sample, TargetTensor

MAX_CELLS = 1 << 18  # places times tokens at each: what the engine makes and sends for one request
NAME = "target_prompt_logprobs"


def rows_read(
    sample: Sample, prompt_length: int, vocabulary_size: int
) -> tuple[tuple[int, ...], ...]:
    """The distinct tokens to be scored at each place; empty where none is asked for anywhere.
    Raises UserMistake.
    """
    rows, wanted = prompt_length - 1, sample.target_prompt_logprobs
    targets = (
        ()
        if wanted is None
        else tuple(tuple(dict.fromkeys(_asked(row))) for row in _rows(wanted, rows))
    )
    widest = max(map(len, targets), default=0)
    if wanted is not None:
        if widest == 0:
            raise UserMistake(f"{NAME} names no token: give at least one id")
        if widest > MAX_ROW:
            raise UserMistake(
                f"{NAME} names {widest} tokens for one place; at most {MAX_ROW} are scored"
            )
        ids = {token for row in targets for token in row}
        if not (min(ids) >= 0 and max(ids) < vocabulary_size):
            raise UserMistake(f"{NAME} has a token outside -1 to {vocabulary_size - 1}")
    if rows * (widest + sample.prompt_alt_tokens_k) > MAX_CELLS:
        raise UserMistake(
            f"the prompt has {prompt_length} tokens, with {widest} scored and "
            f"{sample.prompt_alt_tokens_k} drawn at"
            f" each: the product is at most {MAX_CELLS}"
        )
    return targets


def scores_write(
    message: Any, wanted: TargetTensor, targets_R: Sequence[Sequence[int]], scores: Any
) -> None:
    """Fill a Tensor of the form that was asked with: a score in each cell that named a token, 0 in
    the others.
    """
    found = [dict(zip(ids, row, strict=True)) for ids, row in zip(targets_R, scores, strict=True)]
    cells = [
        of.get(token, 0.0)
        for of, row in zip(found, _rows(wanted, len(found)), strict=True)
        for token in row
    ]
    values = np.array(cells, "<f4").tobytes()
    message.dtype = messages.FLOAT32
    message.shape.extend(wanted.shape)
    if wanted.sparse_crow_indices is None:
        message.dense = values
        return
    message.sparse_csr.values = values
    message.sparse_csr.crow_indices = np.array(wanted.sparse_crow_indices, "<i8").tobytes()
    message.sparse_csr.col_indices = np.array(wanted.sparse_col_indices, "<i8").tobytes()


def draws_write(message: Any, draws_R: Sequence[Sequence[tuple[int, float]]], count: int) -> None:
    """Fill a PromptAltTokens."""
    pairs = [pair for row in draws_R for pair in row]
    message.tokens.dense = np.array([token for token, _ in pairs], "<i8").tobytes()
    message.logprobs.dense = np.array([score for _, score in pairs], "<f4").tobytes()
    message.tokens.dtype, message.logprobs.dtype = messages.INT64, messages.FLOAT32
    for tensor in (message.tokens, message.logprobs):
        tensor.shape.extend((len(draws_R), count))


def _asked(row: Sequence[int]) -> list[int]:
    return [token for token in row if token != -1]


def _rows(wanted: TargetTensor, rows: int) -> list[list[int]]:
    """The ids of each row as they were sent. Raises UserMistake; a tensor is as large as what was
    sent of it.
    """
    height, width = wanted.shape
    if height != rows or width < 1:
        raise UserMistake(
            f"{NAME} has shape {wanted.shape}; [{rows}, K] fits the prompt: its length less one"
        )
    if wanted.sparse_crow_indices is None or wanted.sparse_col_indices is None:
        if len(wanted.data) != height * width:
            raise UserMistake(
                f"{NAME} says shape {wanted.shape} and holds {len(wanted.data)} numbers"
            )
        return [wanted.data[begin : begin + width] for begin in range(0, len(wanted.data), width)]
    try:
        crow = np.array(wanted.sparse_crow_indices, np.int64)
        columns = np.array(wanted.sparse_col_indices, np.int64)
    except OverflowError:
        raise UserMistake(f"{NAME}: an index is beyond 64 bits") from None
    row_counts(crow, columns, len(wanted.data), wanted.shape, NAME)
    return [wanted.data[begin:end] for begin, end in pairwise(wanted.sparse_crow_indices)]
