"""A call that goes on while weights are replaced: what it receives is cut where another version
begins.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from gpu_runtime.engine.served.served_versions import ServedVersions, delta_split
from gpu_runtime.generation.answer_cutters import OneCall
from gpu_runtime.interfaces import Delta
from gpu_runtime.rendering.tool_formats import HERMES

DELTA = Delta(
    "abcd", (5, 6, 7, 8), (-0.5, -0.6, -0.7, -0.8), version=0, finish_reason="stop", stop_reason="d",
    top_logprobs_T=({5: -0.5}, {6: -0.6}, {7: -0.7}, {8: -0.8}), prompt_logprobs_P=({}, {3: -1.0}),
    allowed_T=(None, b"6", None, b"8"), raw_logprobs_T=(-1.5, -1.6, -1.7, -1.8),
    experts_T=(b"1", b"2", None, b"4"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("starts", "before", "versions"),
    [
        ([(0, 0)], 0, [0, 0, 0, 0]),
        ([(0, 0), (1, 10)], 10, [1, 1, 1, 1]),
        ([(0, 0), (1, 10)], 7, [0, 0, 0, 1]),
        ([(0, 0), (3, 2), (4, 3)], 0, [0, 0, 3, 4]),
        ([(0, 0), (1, 2), (2, 9), (3, 11)], 8, [1, 2, 2, 3]),
        ([(0, 0), (1, 4)], 0, [0, 0, 0, 0]),
    ],
)
def test_each_token_has_the_version_that_sampled_it(
    starts, before: int, versions: list[int]
) -> None:
    pieces = delta_split(DELTA, starts, before)
    assert [piece.version for piece in pieces for _ in piece.token_ids_T] == versions
    assert len(pieces) == len(set(versions))
    for name in (
        "token_ids_T",
        "logprobs_T",
        "top_logprobs_T",
        "allowed_T",
        "raw_logprobs_T",
        "experts_T",
        "prompt_logprobs_P",
    ):
        assert sum((getattr(piece, name) for piece in pieces), ()) == getattr(DELTA, name), name
    ends = [(piece.text, piece.finish_reason, piece.stop_reason) for piece in pieces]
    assert ends == [("", None, None)] * (len(pieces) - 1) + [("abcd", "stop", "d")], (
        "text after all of its tokens"
    )


def test_a_piece_without_tokens_is_left_as_it_is() -> None:
    empty = replace(
        DELTA,
        token_ids_T=(),
        logprobs_T=(),
        top_logprobs_T=(),
        allowed_T=(),
        raw_logprobs_T=(),
        experts_T=(),
    )
    assert delta_split(empty, [], 0) == [empty]


def test_the_labels_of_the_engine_are_read_as_the_versions_that_were_handed_over() -> None:
    versions = ServedVersions()
    versions.hand_over(4)
    versions.hand_over(7)
    spans = [
        SimpleNamespace(version=label, start=start)
        for label, start in (("default", 0), ("1", 3), ("2", 5))
    ]
    finished = SimpleNamespace(weight_versions=spans)
    assert versions.starts(SimpleNamespace(), "call", finished) == [(0, 0), (4, 3), (7, 5)]
    kept = SimpleNamespace(weight_version_starts=[("1", 0), ("2", 2)])
    processor = SimpleNamespace(
        external_req_ids={"call": ["inside"]}, request_states={"inside": kept}
    )
    going_on = SimpleNamespace(weight_versions=None)
    assert versions.starts(SimpleNamespace(output_processor=processor), "call", going_on) == [
        (4, 0),
        (7, 2),
    ]


def test_a_step_without_a_hand_over_renames_the_weights_that_are_served() -> None:
    versions = ServedVersions()
    assert [versions.hand_over(3), versions.hand_over(3)] == ["1", "2"], (
        "the same version may be handed over again"
    )
    versions.current = 4
    served = SimpleNamespace(weight_versions=[SimpleNamespace(version="2", start=0)])
    assert versions.current == 4
    assert versions.starts(SimpleNamespace(), "call", served) == [(4, 0)]
    versions.hand_over(5)
    assert versions.current == 5


@pytest.mark.parametrize("boundary", [-5, 0, 5])
def test_what_comes_after_the_only_call_is_not_kept_where_its_weights_were_replaced_there(
    boundary: int,
) -> None:
    """The engine returned all at once: the end of the call, and tokens of a second one under either
    version.
    """
    one = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    ids = tuple(map(ord, one + "\n<tool_call>\nand more"))
    scores = tuple(-float(token) for token in ids)
    of_tokens = {
        "allowed_T": (b"x",) * len(ids),
        "raw_logprobs_T": scores,
        "experts_T": (b"e",) * len(ids),
    }
    whole = Delta("".join(map(chr, ids)), ids, scores, version=0, finish_reason="stop", **of_tokens)
    cutter = OneCall(HERMES, lambda ids: "".join(map(chr, ids)))
    found = [
        piece
        for delta in delta_split(whole, [(0, 0), (1, len(one) + boundary)], 0)
        for piece in cutter.cut(delta)
    ]
    assert "".join(piece.text for piece in found) == one
    kept = [(token, piece.version) for piece in found for token in piece.token_ids_T]
    assert kept == [(ord(letter), int(at >= len(one) + boundary)) for at, letter in enumerate(one)]
    for name in ("logprobs_T", "allowed_T", "raw_logprobs_T", "experts_T"):
        assert sum(len(getattr(piece, name)) for piece in found) == len(one)
    assert [piece.finish_reason for piece in found] == [None] * (len(found) - 1) + ["stop"]


def test_tokens_whose_text_comes_later_are_handed_out_with_it_or_with_the_end() -> None:
    cutter = OneCall(HERMES, lambda ids: "".join(map(chr, ids)))
    silent = Delta("", (5,), (-1.0,), version=0)
    assert cutter.cut(silent) == []
    text = Delta("ab", (97, 98), (-1.0, -1.0), version=1)
    assert cutter.cut(text) == [silent, text]
    assert cutter.cut(silent) == []
    end = replace(silent, finish_reason="length")
    assert cutter.cut(end) == [silent, end]
