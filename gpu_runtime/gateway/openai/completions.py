"""A call in the older completions dialect: plain text, as one object or in chunks."""

import itertools
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from gpu_runtime.gateway.openai.chat import DONE, policy_version, prompt_logprobs, sse, usage
from gpu_runtime.generation.call_stream import CallStream
from gpu_runtime.generation.sampling import stopped_by
from gpu_runtime.generation.text_prompt import PreparedText
from gpu_runtime.interfaces import Delta
from gpu_runtime.journal.records import TEXT, CallRecord, Completion, with_prefix


def text_completion(prepared: PreparedText, record: CallRecord) -> dict[str, Any]:
    """The response body of a request that does not stream; each choice has its token ids."""
    choices = []
    for answer in record.completions:
        echoed = _echo(prepared, record) if prepared.request.echo else ""
        body = _piece(prepared, answer, answer.text, offset=len(echoed))
        body["text"] = echoed + body["text"]
        if prepared.request.echo and prepared.request.logprobs is not None:
            before = _prompt_logprobs(prepared, record)
            body["logprobs"] = {
                name: before[name] + (body["logprobs"][name] or []) for name in before
            }
        if prepared.request.wants_ids:
            body["prompt_token_ids"] = list(record.prompt_ids_P)
        if prepared.request.prompt_logprobs is not None:
            body["prompt_logprobs"] = prompt_logprobs(prepared.renderer, record)
        choices.append(body | _end(prepared, answer) | {"index": answer.choice})
    head = _head(prepared, record.id, record.begun_at)
    return head | {
        "choices": choices,
        "usage": usage(record),
        "policy_version": policy_version(record),
    }


def joined_completions(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One body of the answers to several prompts: choices in the order of prompts, tokens summed.
    Each choice has the id of its own call, for credit.
    """
    per_prompt = len(answers[0]["choices"])
    choices = [
        choice | {"index": number * per_prompt + choice["index"], "call_id": answer["id"]}
        for number, answer in enumerate(answers)
        for choice in answer["choices"]
    ]
    counted = _added([answer["usage"] for answer in answers])
    version = max(answer["policy_version"] for answer in answers)
    return answers[0] | {"choices": choices, "usage": counted, "policy_version": version}


def _added(counts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Numbers of one name added up, those of an object inside too."""
    return {
        name: _added([each[name] for each in counts])
        if isinstance(value, dict)
        else sum(each[name] for each in counts)
        for name, value in counts[0].items()
    }


async def text_chunks(
    prepared: PreparedText, live: CallStream, created: float
) -> AsyncGenerator[bytes, None]:
    """The answer in chunks; the finish reasons are sent once the call is on disk. Raises the call's
    error.
    """
    head = _head(prepared, live.id, created) | (
        {"usage": None} if prepared.request.wants_usage else {}
    )
    offsets: dict[int, int] = {}
    async for choice, delta in live.read():
        body = _piece(prepared, delta, delta.text, offsets.get(choice, 0))
        if prepared.request.wants_ids and choice not in offsets:
            body["prompt_token_ids"] = list(live.prompt_ids)
        offsets[choice] = offsets.get(choice, 0) + len(delta.text)
        body |= {"index": choice, "finish_reason": None}
        yield sse(head | {"choices": [body], "policy_version": delta.version})
    assert live.record is not None, "read() ends with a record or raises"
    for answer in live.record.completions:
        yield sse(
            head
            | {
                "choices": [
                    {"index": answer.choice, "text": "", "logprobs": None, **_end(prepared, answer)}
                ]
            }
        )
    if prepared.request.wants_usage:
        yield sse(head | {"choices": [], "usage": usage(live.record)})
    yield DONE


def _head(prepared: PreparedText, call_id: str, created: float) -> dict[str, Any]:
    name = with_prefix(TEXT, call_id)
    return {
        "id": name,
        "object": "text_completion",
        "created": int(created),
        "model": prepared.request.model,
    }


def _piece(
    prepared: PreparedText, sampled: Delta | Completion, text: str, offset: int
) -> dict[str, Any]:
    body: dict[str, Any] = {"text": text, "logprobs": None}
    if prepared.request.wants_logprobs:
        body["logprobs"] = _logprobs(prepared, sampled, offset)
    if prepared.request.wants_ids:
        body["token_ids"] = list(sampled.token_ids_T)
    return body


def _end(prepared: PreparedText, answer: Completion) -> dict[str, Any]:
    return {
        "finish_reason": answer.finish_reason,
        "stop_reason": stopped_by(prepared.request, answer),
    }


def _logprobs(prepared: PreparedText, sampled: Delta | Completion, offset: int) -> dict[str, Any]:
    tokens = [prepared.renderer.token_text(token) for token in sampled.token_ids_T]
    offsets = list(itertools.accumulate((len(token) for token in tokens[:-1]), initial=offset))[
        : len(tokens)
    ]
    tops: Sequence[dict[int, float]] = sampled.top_logprobs_T
    return {
        "tokens": tokens,
        "token_logprobs": list(sampled.logprobs_T),
        "top_logprobs": [
            {prepared.renderer.token_text(t): lp for t, lp in top.items()} for top in tops
        ]
        or None,
        "text_offset": offsets,
    }


def _echo(prepared: PreparedText, record: CallRecord) -> str:
    prompt = prepared.request.the_prompt
    return (
        prompt
        if isinstance(prompt, str)
        else prepared.renderer.decode(record.prompt_ids_P, special=True)
    )


def _prompt_logprobs(prepared: PreparedText, record: CallRecord) -> dict[str, list[Any]]:
    """As ``_logprobs``, of the prompt's tokens: nothing is known of the first one."""
    tokens = [prepared.renderer.token_text(token) for token in record.prompt_ids_P]
    entries = record.prompt_logprobs_P or []
    own = [entry.get(token) for token, entry in zip(record.prompt_ids_P, entries, strict=True)]
    tops = [
        {prepared.renderer.token_text(t): lp for t, lp in entry.items()} if entry else None
        for entry in entries
    ]
    offsets = list(itertools.accumulate((len(token) for token in tokens[:-1]), initial=0))[
        : len(tokens)
    ]
    wanted = bool(prepared.request.logprobs)
    return {
        "tokens": tokens,
        "token_logprobs": own,
        "top_logprobs": tops if wanted else [],
        "text_offset": offsets,
    }
