"""Every sampled token is trained exactly once, in a sequence that the engine saw."""

from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.journal.timelines import Segment, merge
from support.generated import any_speed


def piece(prompt, sampled, base: float = 0.0) -> Segment:
    return Segment(
        tuple(prompt), tuple(sampled), tuple(-1.0 - base - i for i in range(len(sampled)))
    )


def sampled_of(timeline) -> list[int]:
    return [
        token
        for token, trained in zip(timeline.token_ids_T, timeline.mask_T, strict=True)
        if trained
    ]


def test_conversation_is_one_timeline() -> None:
    first = piece([1, 2], [3, 4])
    second = piece([1, 2, 3, 4, 5], [6])
    (timeline,) = merge([first, second])
    assert timeline.token_ids_T == (1, 2, 3, 4, 5, 6)
    assert timeline.mask_T == (0, 0, 1, 1, 0, 1)
    assert timeline.logprobs_T == (0.0, 0.0, -1.0, -2.0, 0.0, -1.0)


def test_fork_trains_the_shared_answer_once() -> None:
    root = piece([1], [2, 3])
    left, right = piece([1, 2, 3, 8], [9]), piece([1, 2, 3, 7], [9, 9])
    timelines = merge([root, left, right])
    assert len(timelines) == 2
    assert sum(sum(timeline.mask_T) for timeline in timelines) == 5


def test_equal_answers_sampled_twice_are_two_timelines() -> None:
    timelines = merge([piece([1], [2, 3]), piece([1], [2, 3])])
    assert [timeline.mask_T for timeline in timelines] == [(0, 1, 1), (0, 1, 1)]


def test_shorter_later_call_merges_into_the_longer_earlier_one() -> None:
    assert len(merge([piece([1, 2, 3], [4]), piece([1], [2])])) == 1


def test_other_agent_with_other_context_is_its_own_timeline() -> None:
    assert len(merge([piece([1, 2], [3]), piece([5, 2], [3])])) == 2


def test_answer_without_tokens_adds_nothing() -> None:
    assert merge([piece([1], [])]) == []


@st.composite
def episodes(draw) -> list[Segment]:
    """A random tree of calls: each starts afresh or continues (all, or part of) what an earlier one
    ended with.
    """
    token = st.integers(0, 2)
    pieces: list[Segment] = []
    for index in range(draw(st.integers(1, 12))):
        prompt: tuple[int, ...] = tuple(draw(st.lists(token, min_size=1, max_size=3)))
        if pieces and draw(st.booleans()):
            before = draw(st.sampled_from(pieces))
            whole = before.prompt_ids + before.token_ids
            cut = draw(st.one_of(st.just(len(whole)), st.integers(1, len(whole))))
            prompt = whole[:cut] + tuple(draw(st.lists(token, max_size=2)))
        pieces.append(piece(prompt, draw(st.lists(token, max_size=4)), base=100.0 * index))
    return pieces


@any_speed
@given(episodes())
def test_every_sampled_token_is_trained_exactly_once(pieces: list[Segment]) -> None:
    trained: list[tuple[int, float]] = []
    for timeline in merge(pieces):
        for position, is_trained in enumerate(timeline.mask_T):
            if is_trained:
                trained.append((timeline.token_ids_T[position], timeline.logprobs_T[position]))
            else:
                assert timeline.logprobs_T[position] == 0.0
    # Log-probabilities are unique per piece and position here: they tell tokens apart.
    assert sorted(trained) == sorted(
        (t, lp) for p in pieces for t, lp in zip(p.token_ids, p.logprobs, strict=True)
    )


@any_speed
@given(episodes())
def test_every_timeline_is_a_sequence_that_the_engine_saw(pieces: list[Segment]) -> None:
    seen = {piece.prompt_ids + piece.token_ids for piece in pieces}
    for timeline in merge(pieces):
        assert timeline.token_ids_T in seen
        for index in timeline.segments:
            whole = pieces[index].prompt_ids + pieces[index].token_ids
            assert timeline.token_ids_T[: len(whole)] == whole
            start = len(pieces[index].prompt_ids)
            assert timeline.logprobs_T[start : len(whole)] == pieces[index].logprobs


@any_speed
@given(episodes())
def test_timelines_are_the_maximal_sequences_when_nothing_was_sampled_twice(
    pieces: list[Segment],
) -> None:
    sampled = [piece for piece in pieces if piece.token_ids]
    whole = [piece.prompt_ids + piece.token_ids for piece in sampled]
    # Brute force: the sequences that no other one extends.
    leaves = {
        one
        for one in whole
        if not any(other != one and other[: len(one)] == one for other in whole)
    }
    found = [timeline.token_ids_T for timeline in merge(pieces)]
    assert leaves <= set(found)
    nodes = [
        one[:end]
        for one, p in zip(whole, sampled, strict=True)
        for end in range(len(p.prompt_ids) + 1, len(one) + 1)
    ]
    if len(nodes) == len(set(nodes)):
        assert sorted(found) == sorted(leaves)


@any_speed
@given(episodes())
def test_merging_does_not_depend_on_chance(pieces: list[Segment]) -> None:
    assert merge(pieces) == merge(list(pieces))
