"""Bytes of a training request to data and back: each length is checked against what is there before
memory is spent.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from gpu_runtime.gateway.tinker import messages
from gpu_runtime.model_interfaces import Datum, ForwardResult

# of a request's tensors that are sent sparse: what is dense is as large as its bytes
MAX_ELEMENTS = 16 << 20
_NUMPY: dict[int, np.dtype] = {messages.FLOAT32: np.dtype("<f4"), messages.INT64: np.dtype("<i8")}


class UserMistake(Exception):
    """The request cannot be done as it is: its future says so, with the words of this error."""


def request_parse(body: bytes) -> Any:
    """A ForwardBackwardRequest as it was sent. Raises UserMistake for what is none, such as one
    whose lengths are not true.
    """
    message = messages.ForwardBackwardRequest()
    try:
        message.ParseFromString(body)
    except DecodeError:
        raise UserMistake(
            "the body is no ForwardBackwardRequest in protobuf, or it is cut off"
        ) from None
    return message


def loss_config_read(request: Any) -> dict[str, float | str]:
    """The loss's own numbers, and texts. Raises UserMistake for a number that is not finite."""
    config: dict[str, float | str] = dict(request.loss_fn_config)
    for name, value in request.loss_fn_config_v2.items():
        config[name] = value.text if value.WhichOneof("value") == "text" else value.number
    for name, number in config.items():
        if isinstance(number, float) and not math.isfinite(number):
            raise UserMistake(f"loss_fn_config[{name!r}] is {number}; it must be finite")
    return config


def data_read(request: Any) -> list[Datum]:
    """The data. Raises UserMistake, which names datum, tensor and shape."""
    if not request.data:
        raise UserMistake("data is empty: send at least one datum")
    _shapes_check(request.data)
    return [_datum(index, datum) for index, datum in enumerate(request.data)]


def output_write(result: ForwardResult) -> bytes:
    """A ForwardBackwardOutput: one record for each run of data whose arrays have the same trailing
    shapes.
    """
    output = messages.ForwardBackwardOutput(
        loss_fn_output_type="ArrayRecord", metrics=result.metrics
    )
    run: list[dict[str, np.ndarray]] = []
    for arrays in result.outputs:
        if run and _trailing(arrays) != _trailing(run[-1]):
            _record_add(output, run)
            run = []
        run.append(arrays)
    if run:
        _record_add(output, run)
    return output.SerializeToString()


def _shapes_check(data: Any) -> None:
    """Raises UserMistake where a few bytes stand for more numbers than a request may have, or for
    no matrix.
    """
    elements = 0
    for index, datum in enumerate(data):
        for name, tensor in datum.loss_fn_inputs.items():
            if len(tensor.shape) > 2:
                raise UserMistake(
                    f"data[{index}].loss_fn_inputs[{name!r}] has {len(tensor.shape)} dimensions; "
                    "it has one or two"
                )
            if tensor.WhichOneof("encoding") == "sparse_csr":
                elements += math.prod(abs(length) for length in tensor.shape)
            if elements > MAX_ELEMENTS:
                raise UserMistake(
                    f"data[{index}].loss_fn_inputs[{name!r}] has shape {list(tensor.shape)}: the "
                    "sparse tensors of one"
                    f" request stand for at most {MAX_ELEMENTS} numbers; send fewer data in one "
                    "call"
                )


def _datum(index: int, datum: Any) -> Datum:
    pieces = []
    for chunk in datum.model_input:
        kind = chunk.WhichOneof("chunk")
        if kind != "encoded_text":
            raise UserMistake(
                f"data[{index}].model_input has a chunk of kind {kind}: this server trains on text "
                "alone"
            )
        pieces.append(
            _array(chunk.encoded_text.tokens, np.dtype("<i4"), f"data[{index}].model_input")
        )
    tokens_N = np.concatenate(pieces).astype(np.int64) if pieces else np.empty(0, np.int64)
    if not len(tokens_N):
        raise UserMistake(f"data[{index}].model_input has no token")
    inputs = {
        name: _tensor(tensor, len(tokens_N), f"data[{index}].loss_fn_inputs[{name!r}]")
        for name, tensor in datum.loss_fn_inputs.items()
    }
    return Datum(tokens_N, inputs)


def _tensor(tensor: Any, tokens: int, where: str) -> np.ndarray:
    dtype = _NUMPY.get(tensor.dtype)
    if dtype is None:
        raise UserMistake(
            f"{where} has dtype number {tensor.dtype}: float32 and int64 are what is read"
        )
    shape = tuple(tensor.shape)
    if tensor.WhichOneof("encoding") == "sparse_csr":
        return _dense(tensor.sparse_csr, dtype, shape, tokens, where)
    array = _array(tensor.dense, dtype, where)
    if not shape:
        shape = (len(array),)
    if any(length < 0 for length in shape) or math.prod(shape) != len(array):
        raise UserMistake(f"{where} says shape {list(shape)} and holds {len(array)} numbers")
    if shape[0] != tokens:
        raise UserMistake(f"{where} has shape {list(shape)}, and model_input has {tokens} tokens")
    return array.reshape(shape)


def _dense(
    csr: Any, dtype: np.dtype, shape: tuple[int, ...], tokens: int, where: str
) -> np.ndarray:
    """A tensor in compressed sparse rows as an array, zero where nothing was sent."""
    if len(shape) != 2 or shape[0] != tokens:
        raise UserMistake(
            f"{where} is sparse with shape {list(shape)}; [{tokens}, K] is what is read"
        )
    if shape[1] < 1:
        raise UserMistake(f"{where} is sparse with shape {list(shape)}: it has no columns")
    values = _array(csr.values, dtype, where)
    rows = _array(csr.crow_indices, np.dtype("<i8"), where)
    columns = _array(csr.col_indices, np.dtype("<i8"), where)
    dense = np.zeros(shape, dtype)
    dense[
        np.repeat(np.arange(shape[0]), row_counts(rows, columns, len(values), shape, where)),
        columns,
    ] = values
    return dense


def row_counts(
    rows: np.ndarray, columns: np.ndarray, values: int, shape: Sequence[int], where: str
) -> np.ndarray:
    """How many values each row of a matrix in compressed sparse rows has. Raises UserMistake for
    what is none.
    """
    counts = np.diff(rows)
    is_sound = (
        len(rows) == shape[0] + 1
        and len(columns) == values
        and rows[0] == 0
        and rows[-1] == values
        and bool((counts >= 0).all())
        and bool(((columns >= 0) & (columns < shape[1])).all())
    )
    if not is_sound:
        raise UserMistake(
            f"{where}: crow_indices and col_indices do not describe {values} values of "
            f"{list(shape)}"
        )
    return counts


def _array(data: bytes, dtype: np.dtype, where: str) -> np.ndarray:
    if len(data) % dtype.itemsize:
        raise UserMistake(f"{where} has {len(data)} bytes, which is no number of {dtype.name}")
    return np.frombuffer(data, dtype)


def _trailing(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape[1:] for name, array in arrays.items()}


def _record_add(output: Any, run: Sequence[Mapping[str, np.ndarray]]) -> None:
    record = output.loss_fn_outputs.add(type_tag="ArrayRecord", num_datums=len(run))
    for name in run[0]:
        arrays = [np.ascontiguousarray(arrays[name]) for arrays in run]
        is_whole = arrays[0].dtype.kind in "iu"
        arrays = [array.astype("<i8" if is_whole else "<f4", copy=False) for array in arrays]
        field = record.fields[name]
        field.data = b"".join(array.tobytes() for array in arrays)
        field.offsets = np.cumsum([0, *(array.nbytes for array in arrays)], dtype="<i8").tobytes()
        field.dtype = messages.INT64 if is_whole else messages.FLOAT32
        field.trailing_shape.extend(arrays[0].shape[1:])
