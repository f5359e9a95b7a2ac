"""What vLLM is asked for and what is read of its outputs, with stand-ins for its classes: the
engine itself is not loaded. With it: test_engine_options.py.
"""

import asyncio
import dataclasses
import math
import sys
from types import ModuleType, SimpleNamespace

import pytest

from gpu_runtime.engine.samples import sample_make
from gpu_runtime.engine.vllm_output import delta_of, engine_parameters
from gpu_runtime.errors import RequestRefused
from gpu_runtime.interfaces import SampleOrder, SamplingOptions

ASKED = SamplingOptions(
    max_tokens=9, temperature=0.7, top_p=0.8, stop=("END",), seed=5, top_logprobs=2, top_k=4, min_p=0.1,
    frequency_penalty=0.2, presence_penalty=0.3, repetition_penalty=1.4, logit_bias={7: -1.0}, min_tokens=3,
    stop_token_ids=(11,), ignore_eos=True, prompt_logprobs=1,
)  # fmt: skip
# What has another name, or another form, at vLLM; and what is the runtime's own business.
OTHERWISE = {"top_logprobs", "json_schema", "structural_tag", "for_training", "episode_id"}


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    params = ModuleType("vllm.sampling_params")
    params.SamplingParams = params.StructuredOutputsParams = lambda **given: SimpleNamespace(
        **given
    )
    params.RequestOutputKind = SimpleNamespace(DELTA="delta", FINAL_ONLY="final")
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", params)


def test_the_engine_is_asked_for_every_option_of_a_call() -> None:
    asked = engine_parameters(ASKED, with_raw=False)
    for name in {field.name for field in dataclasses.fields(SamplingOptions)} - OTHERWISE:
        wanted, plain = getattr(ASKED, name), getattr(SamplingOptions(max_tokens=1), name)
        assert wanted != plain, f"{name} is not tried here"
        found = getattr(asked, name)
        assert (tuple(found) if isinstance(wanted, tuple) else found) == wanted, name
    assert (asked.logprobs, asked.extra_args, asked.structured_outputs) == (2, None, None)
    assert (asked.output_kind, asked.skip_special_tokens) == ("delta", True)


def test_what_the_trainer_needs_is_asked_for_beside_the_alternatives() -> None:
    asked = engine_parameters(ASKED, with_raw=True)
    assert asked.logprobs == 3 and asked.extra_args


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        (
            {"json_schema": '{"type": "object"}'},
            {"json_object": None, "json": '{"type": "object"}'},
        ),
        ({"json_schema": "{}"}, {"json_object": True, "json": None}),
        ({"structural_tag": "tag"}, {"structural_tag": "tag"}),
    ],
)
def test_a_format_binds_the_answer(given: dict[str, str], bound: dict[str, object]) -> None:
    asked = engine_parameters(SamplingOptions(max_tokens=1, **given), with_raw=False)
    assert vars(asked.structured_outputs) == bound


def output(rows, *, ids, prompt=None, **fields):
    logprobs = [
        {token: SimpleNamespace(logprob=value) for token, value in row.items()} for row in rows
    ]
    given = {"text": "ab", "finish_reason": None, "stop_reason": None} | fields
    completion = SimpleNamespace(token_ids=ids, logprobs=logprobs, **given)
    return SimpleNamespace(outputs=[completion], prompt_logprobs=prompt, num_cached_tokens=2)


def test_a_token_has_its_own_log_probability_and_not_that_of_the_likeliest() -> None:
    delta = delta_of(
        output([{3: -2.0, 8: -0.1}, {9: -0.4}], ids=[3, 9]), 6, SamplingOptions(max_tokens=4)
    )
    assert (delta.token_ids_T, delta.logprobs_T, delta.version) == ((3, 9), (-2.0, -0.4), 6)
    assert (delta.top_logprobs_T, delta.raw_logprobs_T, delta.prompt_logprobs_P) == ((), (), ())
    assert delta.cached_tokens == 2


def test_the_number_for_the_trainer_is_taken_out_of_what_is_shown() -> None:
    rows = [{3: -2.0, 8: -math.inf, -1: -2.5}]  # the last entry is that of raw_logprobs.py
    delta = delta_of(
        output(rows, ids=[3]), 0, SamplingOptions(max_tokens=4, top_logprobs=2), with_raw=True
    )
    assert (delta.logprobs_T, delta.raw_logprobs_T, delta.top_logprobs_T) == (
        (-2.0,),
        (-2.5,),
        ({3: -2.0},),
    )


def test_an_end_says_whether_a_stop_string_made_it() -> None:
    options = SamplingOptions(max_tokens=4)
    by_text = delta_of(
        output([{1: -1.0}], ids=[1], finish_reason="stop", stop_reason="END"), 0, options
    )
    by_token = delta_of(
        output([{1: -1.0}], ids=[1], finish_reason="stop", stop_reason=11), 0, options
    )
    assert [(each.finish_reason, each.stop_reason) for each in (by_text, by_token)] == [
        ("stop", "END"),
        ("stop", None),
    ]


class Asked:
    """One request after another: answers the most that a request asks for."""

    def __init__(self) -> None:
        self.parameters: list[SimpleNamespace] = []

    async def last(self, order: SampleOrder, parameters: SimpleNamespace) -> SimpleNamespace:
        self.parameters.append(parameters)
        logprob = SimpleNamespace(logprob=-1.0)
        fields = {"text": "", "finish_reason": "stop", "stop_reason": None}
        answer = SimpleNamespace(token_ids=[7], logprobs=[{7: logprob}], **fields)
        prompt = (
            None
            if parameters.prompt_logprobs is None
            else [None, {5: SimpleNamespace(logprob=-0.25)}]
        )
        return SimpleNamespace(
            outputs=[answer] * parameters.n, prompt_logprobs=prompt, num_cached_tokens=1
        )


async def test_a_prompt_is_scored_once_however_many_answers_it_has() -> None:
    asked, options = (
        Asked(),
        SamplingOptions(max_tokens=4, prompt_logprobs=0, stop=("END",), seed=3),
    )
    outcome = await sample_make(SampleOrder((4, 5), options, num_samples=3), asked.last, 6)
    assert sorted((each.n, each.prompt_logprobs) for each in asked.parameters) == [
        (1, 0),
        (3, None),
    ]
    many = next(each for each in asked.parameters if each.n == 3)
    assert (many.output_kind, many.include_stop_str_in_output, many.detokenize, many.seed) == (
        "final",
        True,
        True,
        3,
    )
    assert [(each.token_ids_T, each.logprobs_T, each.version) for each in outcome.answers] == [
        ((7,), (-1.0,), 6)
    ] * 3
    assert (outcome.prompt_logprobs_P, outcome.cached_tokens) == (({}, {5: -0.25}), 1)


async def test_where_one_request_of_a_sample_is_refused_the_other_ends_with_it() -> None:
    over = list[int]()

    async def last(order: SampleOrder, parameters: SimpleNamespace) -> SimpleNamespace:
        if parameters.prompt_logprobs is not None:
            await asyncio.sleep(0)
            raise RequestRefused("the prompt is too long")
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            over.append(parameters.n)

    order = SampleOrder((4, 5), SamplingOptions(max_tokens=4, prompt_logprobs=0), num_samples=3)
    with pytest.raises(RequestRefused, match="too long"):
        await sample_make(order, last, 0)
    assert over == [3]
