"""Protobuf that lies about its lengths is refused by name, and before memory is spent on it."""

import numpy as np
import pytest

from gpu_runtime.gateway.tinker import messages
from gpu_runtime.gateway.tinker.data import UserMistake, data_read, output_write, request_parse
from gpu_runtime.model_interfaces import ForwardResult
from support.tinker_harness import MODEL, training
from tinkerscript.wire.tinker.ids import field_find, training_head


def request(loss_fn: str = "cross_entropy", **tensor: object):
    message = messages.ForwardBackwardRequest.FromString(training(1, loss_fn=loss_fn))
    wanted = message.data[0].loss_fn_inputs["target_tokens"]
    for name, value in tensor.items():
        if name == "shape":
            wanted.shape.extend(value)
        elif name == "sparse":
            values, rows, columns = value
            wanted.sparse_csr.values = np.array(values, "<i8").tobytes()
            wanted.sparse_csr.crow_indices = np.array(rows, "<i8").tobytes()
            wanted.sparse_csr.col_indices = np.array(columns, "<i8").tobytes()
        else:
            setattr(wanted, name, value)
    return request_parse(message.SerializeToString())


def test_dense_and_sparse_tensors_are_read() -> None:
    (datum,) = data_read(request())
    assert datum.token_ids_N.tolist() == [3, 4, 5] == datum.loss_inputs["target_tokens"].tolist()
    (datum,) = data_read(request(shape=[3, 2], sparse=([7, 8], [0, 1, 1, 2], [1, 0])))
    assert datum.loss_inputs["target_tokens"].tolist() == [[0, 7], [0, 0], [8, 0]]


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        ({"shape": [4]}, "shape [4] and holds 3"),
        ({"shape": [-3]}, "shape [-3]"),
        ({"dense": b"12345"}, "5 bytes"),
        ({"dense": b"12345678"}, "shape [1], and model_input has 3 tokens"),
        ({"dtype": 4}, "dtype number 4"),
        ({"shape": [3, 1 << 40], "sparse": ([7], [0, 1, 1, 1], [0])}, "at most"),
        ({"shape": [1 << 40, 1], "sparse": ([7], [0, 1, 1, 1], [0])}, "at most"),
        ({"shape": [-(1 << 40), -1], "sparse": ([7], [0, 1, 1, 1], [0])}, "at most"),
        ({"shape": [4, 1], "sparse": ([7], [0, 1, 1, 1], [0])}, "[3, K]"),
        ({"shape": [3, 0], "sparse": ([], [0, 0, 0, 0], [])}, "no columns"),
        ({"shape": [3, 1, 1]}, "3 dimensions"),
        ({"shape": [1 << 62] * 10_000}, "10000 dimensions"),
        ({"shape": [3, 2], "sparse": ([7], [0, 1, 1, 1], [5])}, "col_indices"),
        ({"shape": [3, 2], "sparse": ([7], [0, 9, 9, 1], [0])}, "crow_indices"),
        ({"shape": [3, 2], "sparse": ([7], [0, 1], [0])}, "crow_indices"),
    ],
)
def test_a_tensor_that_lies_is_refused(tensor: dict[str, object], said: str) -> None:
    with pytest.raises(UserMistake) as refused:
        data_read(request(**tensor))
    assert said in str(refused.value) and "data[0].loss_fn_inputs['target_tokens']" in str(
        refused.value
    )


def test_many_small_lies_together_are_refused_too() -> None:
    """Each datum stands for a megabyte in a few bytes, which one alone may; a thousand of them may
    not.
    """
    message = messages.ForwardBackwardRequest.FromString(training(1))
    tensor = message.data[0].loss_fn_inputs["target_tokens"]
    tensor.shape.extend([3, 1 << 16])
    tensor.sparse_csr.crow_indices = np.zeros(4, "<i8").tobytes()
    for _ in range(1000):
        message.data.add().CopyFrom(message.data[0])
    with pytest.raises(UserMistake, match="stand for at most"):
        data_read(request_parse(message.SerializeToString()))


def test_lengths_that_reach_beyond_the_body_are_refused() -> None:
    whole = training(1)
    for end in range(20, whole.index(b"cross_entropy") - 2):
        with pytest.raises(UserMistake):
            data_read(request_parse(whole[:end]))


def test_the_head_of_a_request_is_found_without_reading_it() -> None:
    assert training_head(training(7)) == (MODEL, 7)
    assert training_head(training(7)[:30]) == (MODEL, 7)
    for broken in (
        b"",
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x0a\x03ab",
        b"\x0a\x02\xff\xff",
        b"\x0b",
        b"\xff" * 40,
        b"\x18\x00" * 99 + training(7),
    ):
        assert training_head(broken) is None


def test_a_field_is_not_found_inside_a_string() -> None:
    body = b'{"stop": "\\"sampling_session_id\\":\\"other\\"", "sampling_session_id": "mine"}'
    assert field_find(body, "sampling_session_id") == "mine"


def test_outputs_of_several_widths_become_several_records() -> None:
    wide, narrow = {"logprobs": np.ones((2, 3), np.float32)}, {"logprobs": np.ones(4, np.float32)}
    written = output_write(ForwardResult((narrow, narrow, wide), {"loss:sum": 1.0}))
    output = messages.ForwardBackwardOutput.FromString(written)
    assert [record.num_datums for record in output.loss_fn_outputs] == [2, 1]
    assert np.frombuffer(output.loss_fn_outputs[0].fields["logprobs"].offsets, "<i8").tolist() == [
        0,
        16,
        32,
    ]
    assert list(output.loss_fn_outputs[1].fields["logprobs"].trailing_shape) == [3]
