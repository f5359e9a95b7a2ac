"""Ends thoughts after a number of tokens: their closing mark is written, and the answer is sampled
on from there.

vLLM's own mechanism (``thinking_token_budget``) takes its marks as the engine starts, and does not
report which tokens it chose. Here an answer is two calls of the engine with the mark between them:
each sampled token has the log-probability that the engine gave it behind exactly these tokens. Each
token of the mark was the only choice, as under a grammar: it is context, and nothing is trained on
it.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from gpu_runtime.generation.answer_cutters import first_tokens
from gpu_runtime.interfaces import Delta, SamplingOptions, TokenSource
from gpu_runtime.journal.token_values import set_pack
from gpu_runtime.rendering.answer_parser import AnswerParser


@dataclass(frozen=True)
class ThinkingBudget:
    """``tokens`` of thoughts, which ``closing_ids`` end. ``reader`` makes a parser of one
    answer."""

    tokens: int
    closing_ids: tuple[int, ...]
    reader: Callable[[], AnswerParser]
    decode: Callable[[Sequence[int]], str]
    vocabulary: int

    async def generate(
        self, engine: TokenSource, name: str, prompt_ids: Sequence[int], options: SamplingOptions
    ) -> AsyncGenerator[Delta, None]:
        """One completion whose thoughts are no longer. Raises EngineDead, RequestRefused."""
        reader, ids, shown = self.reader(), list[int](), 0
        if self.tokens == 0 and reader.is_thinking:
            async for delta in self._rest(engine, name, prompt_ids, options, ids, None, shown):
                yield delta
            return
        async with aclosing(engine.generate(name, prompt_ids, options)) as stream:
            async for whole in stream:
                delta, room = self._filled(whole, options), max(0, self.tokens - len(ids))
                reader.more(delta.text, delta.token_ids_T)
                # Past the budget thoughts were over before this delta, or it begins them.
                is_over = len(delta.token_ids_T) >= room and (
                    reader.is_thinking or len(delta.token_ids_T) > room > 0
                )
                if not is_over or not self._thinks_after([*ids, *delta.token_ids_T[:room]]):
                    ids += delta.token_ids_T
                    shown += len(delta.text)
                    yield delta
                    if delta.finish_reason is not None:
                        return
                    continue
                ids += delta.token_ids_T[:room]
                text = self.decode(ids).rstrip("\ufffd")[shown:]
                cut = replace(
                    first_tokens(delta, room), text=text, finish_reason=None, stop_reason=None
                )
                break
            else:
                return
        if cut.token_ids_T:
            yield cut
        async for delta in self._rest(
            engine, name, prompt_ids, options, ids, cut, shown + len(text)
        ):
            yield delta

    def _thinks_after(self, ids: Sequence[int]) -> bool:
        """Whether an answer that begins with ``ids`` is in thoughts."""
        reader = self.reader()
        reader.more(self.decode(ids), ids)
        return reader.is_thinking

    async def _rest(
        self,
        engine: TokenSource,
        name: str,
        prompt_ids: Sequence[int],
        options: SamplingOptions,
        ids: Sequence[int],
        last: Delta | None,
        shown: int,
    ) -> AsyncGenerator[Delta, None]:
        """The closing mark, and what is sampled behind it; ``shown`` characters of ``ids`` have
        been handed out."""
        left = options.max_tokens - len(ids) - len(self.closing_ids)
        stream = engine.generate(
            f"{name}-rest",
            (*prompt_ids, *ids, *self.closing_ids),
            replace(
                options,
                max_tokens=max(1, left),
                min_tokens=max(0, options.min_tokens - len(ids) - len(self.closing_ids)),
                seed=None if options.seed is None else options.seed ^ 1,
                prompt_logprobs=None,
            ),
        )
        async with aclosing(stream) as rest:
            forced = True
            async for delta in rest:
                if forced:  # with the version that samples behind it
                    yield self._closing(options, delta, last, shown, ids, is_last=left < 1)
                    if left < 1:
                        return
                    forced = False
                yield self._filled(delta, options)

    def _closing(
        self,
        options: SamplingOptions,
        after: Delta,
        last: Delta | None,
        shown: int,
        ids: Sequence[int],
        *,
        is_last: bool,
    ) -> Delta:
        count = len(self.closing_ids)
        like = last or after
        return Delta(
            text=self.decode((*ids, *self.closing_ids))[shown:],
            token_ids_T=self.closing_ids,
            logprobs_T=(0.0,) * count,
            version=after.version,
            finish_reason="length" if is_last else None,
            top_logprobs_T=tuple({token: 0.0} for token in self.closing_ids)
            if options.top_logprobs
            else (),
            allowed_T=tuple(map(self._alone, self.closing_ids)) if options.for_training else (),
            raw_logprobs_T=(0.0,) * count if like.raw_logprobs_T else (),
        )

    def _alone(self, token: int) -> bytes:
        return set_pack((1 << token).to_bytes((self.vocabulary + 7) // 8, "little"))

    @staticmethod
    def _filled(delta: Delta, options: SamplingOptions) -> Delta:
        """``delta`` with a set for each token, where some of the answer have one."""
        lacks = options.for_training and not delta.allowed_T
        return replace(delta, allowed_T=(None,) * len(delta.token_ids_T)) if lacks else delta
