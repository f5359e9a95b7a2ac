"""vLLM behind interfaces.SamplerEngine: one base model and any number of LoRA adapters on it, side by side.

Whole models of the base's shape are sampled by turns (``weight_turns.py``): their weights take the place of the base's,
and cached prefixes are forgotten at each change.
"""

import asyncio
import hashlib
import itertools
import math
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_runtime.engine.adapters.options import sampler_options
from gpu_runtime.engine.model_runner import runner_verify
from gpu_runtime.engine.prompt_rows import RowsAsked, columns_read
from gpu_runtime.engine.vllm_engine import HANDOVER_S, REFUSED, VllmEngine
from gpu_runtime.engine.vllm_process import child_variables, failed_call, how_ended, started_with, vllm_import
from gpu_runtime.engine.weight_turns import WeightTurns
from gpu_runtime.errors import EngineDead, ModelUnsupported, RequestRefused
from gpu_runtime.health.notice import kept_from_children
from gpu_runtime.health.stack_dumps import stacks_folder
from gpu_runtime.interfaces import Delta, SamplingOptions
from gpu_runtime.sampler_interfaces import SampledAnswer, SampleOrder, SampleOutcome
from tinkerscript.wire.config import SessionConfig

if TYPE_CHECKING:
    from vllm.lora.request import LoRARequest
    from vllm.outputs import CompletionOutput, RequestOutput
    from vllm.sampling_params import SamplingParams
    from vllm.v1.engine.async_llm import AsyncLLM

START_S = 900.0
TargetScores = tuple[tuple[float, ...], ...]
Draws = tuple[tuple[tuple[int, float], ...], ...]


class VllmSampler:
    """One vLLM engine in a child process. Build it with ``start``."""

    def __init__(
        self, llm: "AsyncLLM", base: Path, context_length: int, vocabulary_size: int, *, on_cpu: bool = True
    ) -> None:
        self._llm, self._base, self._on_cpu = llm, base, on_cpu
        self.context_length, self.vocabulary_size = context_length, vocabulary_size
        self._streams = VllmEngine(llm, context_length)
        self._numbers = itertools.count(1)
        self._adapters: dict[Path, int] = {}
        self._turns = WeightTurns(self._weights_change)

    @classmethod
    async def start(
        cls, model_path: str, config: SessionConfig, device: str, *, gpus: Sequence[str] = (),
        shares_device: bool = False, memory_share: float | None = None,
    ) -> "VllmSampler":  # fmt: skip
        """Load ``model_path`` with room for adapters of ``config.lora_rank``.

        ``shares_device``: the trainer has the same GPU, and the engine takes ``memory_share`` of
        it. Raises EngineDead, EngineUnsupported, ModelUnsupported.
        """
        # Here and not above: vLLM reads its environment when it is imported.
        await asyncio.to_thread(vllm_import, device)
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        options = sampler_options(model_path, config, device, shares_device=shares_device, memory_share=memory_share)
        arguments = AsyncEngineArgs(**options)
        try:
            with started_with(child_variables(device, gpus)):
                start = kept_from_children()(AsyncLLM.from_engine_args)
                async with asyncio.timeout(START_S):
                    llm = await asyncio.to_thread(start, arguments)
        except ValueError as refusal:  # of its configuration, before any process is started
            raise ModelUnsupported(f"vLLM does not take this model: {str(refusal)[:500]}") from refusal
        except (RuntimeError, TimeoutError) as error:
            raise EngineDead(f"the engine did not start: {error}") from error
        on_cpu, vocabulary = device == "cpu", llm.model_config.get_vocab_size()
        engine = cls(llm, Path(model_path), config.max_context_length, vocabulary, on_cpu=on_cpu)
        try:
            await engine._prepare()
        except BaseException:
            await engine.close()
            raise
        return engine

    async def _prepare(self) -> None:
        """Put what is ours into the worker. Raises EngineUnsupported."""
        await runner_verify(self._llm)
        on_cpu = ("seeds_set_right", "adapters_set_right", "prompt_rows_set")
        for name in ("grammars_bound", *(on_cpu if self._on_cpu else ("base_prompts_set",))):
            await self._llm.collective_rpc(name)
        if (stacks := stacks_folder()) is not None:
            await self._llm.collective_rpc("stacks_register", args=(str(stacks),))

    @property
    def waiting(self) -> str:
        """How many samples wait for other weights than those that are served."""
        count = self._turns.waiting
        return f"{count} samples wait until the engine has changed to the weights that they are of" if count else ""

    async def sample(self, order: SampleOrder) -> SampleOutcome:
        """The answers, and the scores of the prompt where they are asked for. Raises EngineDead, RequestRefused."""
        async with self._turns.of(order.weights):
            return await self._sample(order)

    async def _sample(self, order: SampleOrder) -> SampleOutcome:
        """Several answers take one request; the prompt's scores, which vLLM would compute for each, another."""
        if order.prompt_top is not None and order.adapter is not None and not self._on_cpu:
            raise RequestRefused("scores of a prompt under an adapter are not there on a GPU")
        if order.prompt_targets_R or order.prompt_draws:
            rows = self._rows(order)
            rest = self._sample(replace(order, prompt_targets_R=(), prompt_draws=0))
            (targets_R, draws_R), outcome = await asyncio.gather(rows, rest)
            return replace(outcome, prompt_targets_R=targets_R, prompt_draws_R=draws_R)
        if order.prompt_top is None or order.num_samples == 1:
            return _outcome(await self._generate(order), order)
        scores = replace(order, num_samples=1, max_tokens=1, top_logprobs=0, stop=(), stop_token_ids=())
        answers, scored = await asyncio.gather(self._generate(replace(order, prompt_top=None)), self._generate(scores))
        of_prompt = _outcome(scored, scores)
        return replace(of_prompt, answers=_outcome(answers, order).answers)

    async def generate(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        options: SamplingOptions,
        *,
        adapter: Path | None,
        weights: Path | None,
    ) -> AsyncGenerator[Delta, None]:
        """Stream one completion as the engine of episodes does. Raises EngineDead, RequestRefused."""
        if options.prompt_logprobs is not None and adapter is not None and not self._on_cpu:
            raise RequestRefused("scores of a prompt under an adapter are not there on a GPU")
        lora = self._adapter(adapter) if adapter else None
        deltas = self._streams.generate(request_id, prompt_ids, options, lora)
        async with self._turns.of(weights), aclosing(deltas) as stream:
            async for delta in stream:
                yield delta

    async def _rows(self, order: SampleOrder) -> tuple[TargetScores, Draws]:
        """What is asked for at each place of the prompt after the first, in one more pass over it."""
        if not self._on_cpu:
            raise RequestRefused("target_prompt_logprobs and prompt_alt_tokens_k are not there on a GPU")
        if (rows := len(order.prompt_ids) - 1) == 0:
            return (), ()
        seed = secrets.randbits(62) if order.seed is None else order.seed
        asked = RowsAsked.of(order.prompt_targets_R, rows, order.prompt_draws, order.temperature, seed)
        output = await self._generate(replace(order, num_samples=1), _rows_parameters(asked))
        flat: Any = output.prompt_logprobs
        wide = asked.columns - asked.draws
        targets_R = tuple(
            tuple(score for _, score in columns_read(flat, row, 0, len(ids)))
            for row, ids in enumerate(order.prompt_targets_R)
        )
        return targets_R, tuple(tuple(columns_read(flat, row, wide, asked.draws)) for row in range(rows))

    async def _generate(self, order: SampleOrder, parameters: "SamplingParams | None" = None) -> "RequestOutput":
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        adapter = self._adapter(order.adapter) if order.adapter else None
        prompt: Any = {"prompt_token_ids": list(order.prompt_ids)}
        name, parameters = f"sample-{next(self._numbers)}", parameters or _parameters(order)
        stream = self._llm.generate(prompt, parameters, name, lora_request=adapter)
        try:
            last: RequestOutput | None = None
            async for output in stream:
                last = output
        except (VLLMClientError, ValueError) as error:
            raise RequestRefused(str(error)) from error
        except (EngineDeadError, EngineGenerateError) as error:
            raise await failed_call(self._llm, error) from error
        finally:
            await stream.aclose()
        if last is None:
            raise EngineDead("the engine ended an answer without a word")
        return last

    async def _weights_change(self, weights: Path | None) -> None:
        """Serve a folder's weights from now on, None for the base's, and forget the prefixes of those before."""
        try:
            async with asyncio.timeout(HANDOVER_S):
                await self._llm.engine_core.pause_scheduler_async("wait", True)
                try:
                    taken = await self._llm.collective_rpc("take_model", args=(str(weights or self._base),))
                finally:
                    await self._llm.resume_generation()
        except TimeoutError as error:
            raise EngineDead("the engine did not take other weights before its deadline") from error
        if refused := [answer for answer in taken if answer.startswith(REFUSED)]:
            raise RequestRefused(f"these weights could not be served: {refused[0]}")

    def _adapter(self, folder: Path) -> "LoRARequest":
        """vLLM knows an adapter by a number, which stands for its folder for as long as the engine lives."""
        from vllm.lora.request import LoRARequest

        number = self._adapters.setdefault(folder, len(self._adapters) + 1)
        name = hashlib.sha256(str(folder).encode()).hexdigest()[:20]
        return LoRARequest(lora_name=name, lora_int_id=number, lora_path=str(folder))

    @property
    def dead(self) -> bool:
        """Whether vLLM has lost one of its processes."""
        return self._llm.errored

    @property
    def ending(self) -> str:
        """How vLLM's process ended, in words."""
        return how_ended(self._llm)

    async def close(self) -> None:
        """Kill vLLM's processes, which hold nothing that outlives them: their own way out takes 5 s."""
        await self._streams.close()


def _parameters(order: SampleOrder) -> "SamplingParams":
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    return SamplingParams(
        n=order.num_samples,
        max_tokens=order.max_tokens,
        temperature=order.temperature,
        top_p=order.top_p,
        top_k=order.top_k,
        seed=order.seed,
        stop=list(order.stop) or None,
        stop_token_ids=list(order.stop_token_ids) or None,
        ignore_eos=order.ignore_end,
        logprobs=order.top_logprobs,  # 0 asks for the sampled token's alone
        prompt_logprobs=order.prompt_top,
        detokenize=bool(order.stop),
        include_stop_str_in_output=True,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _rows_parameters(asked: RowsAsked) -> "SamplingParams":
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    return SamplingParams(
        max_tokens=1,
        detokenize=False,
        prompt_logprobs=asked.columns,
        flat_logprobs=True,  # in their order, with those that are there twice
        extra_args=asked.extra_args(),
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _outcome(output: "RequestOutput", order: SampleOrder) -> SampleOutcome:
    answers = tuple(_answer(completion, order.top_logprobs) for completion in output.outputs)
    cached = output.num_cached_tokens or 0
    if order.prompt_top is None or output.prompt_logprobs is None:
        return SampleOutcome(answers, cached_tokens=cached)
    scores: list[float | None] = []
    top: list[tuple[tuple[int, float], ...]] = []
    for token, entry in zip(order.prompt_ids, output.prompt_logprobs, strict=True):
        scores.append(None if entry is None else entry[token].logprob)
        top.append(() if entry is None else _top(entry, order.prompt_top))
    return SampleOutcome(answers, tuple(scores), tuple(top), cached_tokens=cached)


def _answer(completion: "CompletionOutput", top: int) -> SampledAnswer:
    ids = tuple(completion.token_ids)
    entries: Any = completion.logprobs or []
    logprobs_T = tuple(entry[token].logprob for token, entry in zip(ids, entries, strict=True))
    if wrong := [each for each in logprobs_T if not math.isfinite(each)]:
        raise RequestRefused(f"the engine computed {wrong[0]} as the log-probability of a token that it sampled")
    return SampledAnswer(
        token_ids_T=ids,
        logprobs_T=logprobs_T,
        is_stopped=completion.finish_reason == "stop",
        top_T=tuple(_top(entry, top) for entry in entries) if top else (),
    )


def _top(entry: Mapping[int, Any], k: int) -> tuple[tuple[int, float], ...]:
    """The k likeliest tokens, the likeliest first; without those that top_p or top_k ruled out."""
    ranked = sorted(entry.items(), key=lambda item: item[1].rank or math.inf)
    return tuple((token, of.logprob) for token, of in ranked[:k] if of.logprob > -math.inf)
