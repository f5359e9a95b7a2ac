"""Hand-written stand-ins for the engine and the trainer: no model, but weights that tell what they
were trained on.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpu_runtime.engine.raw_logprobs import is_raw
from gpu_runtime.errors import EngineDead
from gpu_runtime.interfaces import Delta, SamplingOptions
from gpu_runtime.journal.token_values import set_pack
from gpu_runtime.model_interfaces import AdamParams, Datum, ForwardResult, LossConfig
from support.light_tokenizer import LightTokenizer
from tinkerscript.wire.training.losses import OLD

# Told of each point that a fake reaches, such as "optim_step 3"; what it raises is what the fake
# raises there.
Reach = Callable[[str], Awaitable[None]]
WEIGHTS = "weights.json"


async def pass_by(point: str) -> None:
    """No test watches: one turn of the event loop, as any real part takes."""
    await asyncio.sleep(0)


@dataclass
class Generated:
    """One request as the fake engine saw it, and what it answered."""

    request_id: str
    prompt_ids: tuple[int, ...]
    options: SamplingOptions
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    cancelled: bool = False


class FakeEngine:
    """Answers deterministically from prompt ids and seed; ``say`` scripts the next answers.

    A scripted answer is text (encoded and ended) or a list of ids (taken as they are). ``requests``
    is the engine's own log. ``hang`` stops it after one piece until ``released``, ``dead`` makes it
    fail, also then. Once it has weights, its answers depend on them. ``keeps_calls``: what a call
    makes after a hand-over is of the new version, as the real engine's is.
    """

    def __init__(
        self, tokenizer: LightTokenizer, *, context_length: int = 512, tokens_per_delta: int = 2
    ) -> None:
        self.tokenizer, self.context_length, self.version = tokenizer, context_length, 0
        self.requests: list[Generated] = []
        self.weights: list[tuple[Path, int]] = []
        self.weights_text = ""
        self.reach: Reach = pass_by
        self.hang = self.keeps_calls = False
        self.cached_tokens = 0  # of every prompt
        # of a mixture: the row of what sampled the token behind these ids
        self.experts: Callable[[Sequence[int]], bytes] | None = None
        self.released = asyncio.Event()
        self.dead, self.ending = False, "was killed"
        self.closed = False
        self.shares_device = False
        self.end_ids = {tokenizer.end_id}
        self.answer: Callable[[Sequence[int], SamplingOptions], list[int]] | None = None
        self._script: list[list[int]] = []
        self._per_delta = tokens_per_delta

    @property
    def end_id(self) -> int:
        return self.tokenizer.end_id

    def say(self, *answers: str | list[int]) -> None:
        for answer in answers:
            ids = answer if isinstance(answer, list) else [*self.encode(answer), self.end_id]
            self._script.append(ids)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], options: SamplingOptions
    ) -> AsyncIterator[Delta]:
        request = Generated(request_id, tuple(prompt_ids), options)
        self.requests.append(request)
        assert len(prompt_ids) + options.max_tokens <= self.context_length, (
            "the gateway checks lengths"
        )
        if self.dead:
            raise EngineDead("the fake engine is dead")
        version = self.version
        try:
            await self.reach("generate")
            async for delta in self._deltas(request, version):
                yield delta
        except (asyncio.CancelledError, GeneratorExit):
            request.cancelled = True
            raise

    async def _deltas(self, request: Generated, version: int) -> AsyncIterator[Delta]:
        ids, stop_reason = self._cut(self._next_answer(request), request.options)
        text, sent = self._text(ids, stop_reason, request.options), 0
        prompt_hash = hashlib.sha256(json.dumps(request.prompt_ids).encode()).hexdigest()
        reason = (
            "stop" if stop_reason or (ids and self._ends(ids[-1], request.options)) else "length"
        )
        for start in range(0, len(ids), self._per_delta):
            await asyncio.sleep(0)
            part = ids[start : start + self._per_delta]
            is_last = start + self._per_delta >= len(ids)
            upto = text if is_last else self._common(self._decode(ids[: start + len(part)]), text)
            logprobs = [_logprob(prompt_hash, start + i, token) for i, token in enumerate(part)]
            request.token_ids += part
            request.logprobs += logprobs
            top = tuple({t: lp, t + 1: lp - 1.0} for t, lp in zip(part, logprobs, strict=True))
            yield Delta(
                text=upto[sent:],
                token_ids_T=tuple(part),
                logprobs_T=tuple(logprobs),
                version=self.version if self.keeps_calls else version,
                finish_reason=reason if is_last else None,
                top_logprobs_T=top if request.options.top_logprobs else (),
                stop_reason=stop_reason if is_last else None,
                prompt_logprobs_P=_of_prompt(request) if start == 0 else (),
                allowed_T=_allowed(request.options, part),
                raw_logprobs_T=_raw(request.options, logprobs),
                experts_T=self._experts(
                    [*request.prompt_ids, *ids], len(ids) - start, len(part), request.options
                ),
                cached_tokens=self.cached_tokens if start == 0 else 0,
            )
            sent = max(sent, len(upto))
            if self.hang:
                await self.released.wait()
                if self.dead:
                    raise EngineDead("the fake engine died meanwhile")

    def _experts(
        self, ids: list[int], left: int, count: int, options: SamplingOptions
    ) -> tuple[bytes, ...]:
        if self.experts is None or not options.for_training:
            return ()
        first = len(ids) - left
        return tuple(self.experts(ids[:at]) for at in range(first, first + count))

    def _next_answer(self, request: Generated) -> list[int]:
        if self._script:
            return self._script.pop(0)
        if self.answer is not None:
            return self.answer(request.prompt_ids, request.options)
        seed = json.dumps(
            [list(request.prompt_ids), request.options.seed, request.options.temperature]
        )
        if request.options.seed is None and request.options.temperature > 0:
            seed += request.request_id  # samples of one prompt differ
        seed += self.weights_text
        words = hashlib.sha256(seed.encode()).hexdigest()[:8]
        return [*self.encode(" ".join(words)), self.end_id]

    def _cut(self, ids: list[int], options: SamplingOptions) -> tuple[list[int], str | None]:
        ids = ids[: options.max_tokens]
        for end in range(1, len(ids) + 1):
            if end > options.min_tokens and ids[end - 1] in options.stop_token_ids:
                return ids[:end], None
            text = self._decode(ids[:end])
            for stop in options.stop:
                if stop in text:
                    return ids[:end], stop
        return ids, None

    def _ends(self, token: int, options: SamplingOptions) -> bool:
        return token in options.stop_token_ids or (token in self.end_ids and not options.ignore_eos)

    def _text(self, ids: list[int], stop_reason: str | None, options: SamplingOptions) -> str:
        stopped = bool(ids) and ids[-1] in options.stop_token_ids
        text = self._decode(ids[:-1] if stopped else ids)
        return text.split(stop_reason)[0] if stop_reason else text

    def _decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids)

    @staticmethod
    def _common(part: str, text: str) -> str:
        part = part.rstrip("\ufffd")
        return part if text.startswith(part) else text[: len(part)]

    async def load_weights(self, folder: Path, version: int) -> None:
        await self.reach(f"load_weights {version}")
        self.weights.append((folder, version))
        self.weights_text = (folder / WEIGHTS).read_text()
        self.version = version
        await self.reach(f"load_weights {version} done")

    async def sleep(self) -> None:
        await self.reach("sleep")

    async def wake(self) -> None:
        await self.reach("wake")

    async def close(self) -> None:
        self.closed = True


# nats by which a fake trainer's log-probabilities before a step are below the engine's
TRAINER_BELOW = 0.09


class FakeTrainer:
    """Weights and moments are digests: each step folds into them exactly what it trained, and under
    which number and parameters.

    So a sample that is lost, trained twice or out of order shows in every later bit.
    ``model_folder`` is copied into what it exports. ``reach`` hears of each point; a StepRefused
    from "optim_step N" leaves the weights.
    """

    def __init__(self, *, reach: Reach = pass_by, model_folder: Path | None = None) -> None:
        self.weights = self.moments = "base"
        self.gradient: list[str] = []
        self.steps: list[int] = []
        self.reach = reach
        self.dtype = "float32"
        self.kl_engine = self.kl_before = 0.0
        self.moved = TRAINER_BELOW
        self.entropy = 1.0
        self.entropy_coefs: list[float] = []
        self.dead = False
        self.closed = False
        self._model_folder = model_folder

    async def ready(self) -> None:
        """At once."""

    async def logprobs(self, data: Sequence[Datum], reference: bool = False) -> list[np.ndarray]:
        """The engine's own; the reference is half a nat below it."""
        await self.reach("logprobs")
        return [below(datum, 0.5 * reference) for datum in data]

    async def forward_backward(
        self, data: Sequence[Datum], loss_fn: str, loss_config: LossConfig
    ) -> ForwardResult:
        step = len(self.steps) + 1
        await self.reach(f"forward_backward {step}")
        self.gradient.append(_digest(loss_fn, repr(dict(loss_config)), *map(datum_text, data)))
        outputs = tuple({"logprobs": below(datum, self.moved)} for datum in data)
        await self.reach(f"forward_backward {step} done")
        tokens = float(sum(datum.counted.sum() for datum in data))
        self.entropy_coefs.append(loss_config["entropy_coef"])
        metrics = {
            "loss": 0.5,
            "kl_engine": self.kl_engine,
            "entropy": self.entropy,
            "clip_fraction": 0.0,
        }
        metrics |= {"kl_before": self.kl_before, "tokens_masked": 0.0, "tokens_repeated": 0.0}
        metrics |= {
            "tokens_trained": tokens,
            "tokens_computed": float(sum(len(datum.token_ids_N) for datum in data)),
        }
        return ForwardResult(outputs, metrics)

    async def parameters(self) -> int:
        return 135_000_000

    async def optim_step(self, params: AdamParams) -> dict[str, float]:
        step = len(self.steps) + 1
        gradient, self.gradient = self.gradient, []
        await self.reach(f"optim_step {step}")
        self.moments = _digest(self.moments, *gradient)
        self.weights = _digest(self.weights, self.moments, str(step), repr(params))
        self.steps.append(step)
        await self.reach(f"optim_step {step} done")
        return {"grad_norm": 1.0}

    async def drop_gradient(self) -> None:
        self.gradient = []
        await self.reach("drop_gradient")

    async def restart(self) -> None:
        await self.reach("restart")
        self.weights = self.moments = "base"
        self.gradient, self.steps, self.dead = [], [], False

    async def publish(self, folder: Path) -> None:
        await self.reach("publish")
        _write(folder / WEIGHTS, weights=self.weights)
        await self.reach("publish done")

    async def export_model(self, folder: Path) -> None:
        await self.reach("export_model")
        for path in sorted(self._model_folder.iterdir()) if self._model_folder else ():
            (folder / path.name).write_bytes(path.read_bytes())
        _write(folder / WEIGHTS, weights=self.weights)

    async def save_state(self, folder: Path) -> None:
        await self.reach("save_state")
        _write(folder / "state.json", weights=self.weights, moments=self.moments, steps=self.steps)
        await self.reach("save_state done")

    async def load_state(
        self, folder: Path, *, with_optimizer: bool = True, with_gradient: bool = False
    ) -> None:
        await self.reach("load_state")
        state = json.loads((folder / "state.json").read_text())
        self.weights, self.moments, self.steps = state["weights"], state["moments"], state["steps"]

    async def close(self) -> None:
        self.closed = True


def below(datum: Datum, nats: float) -> np.ndarray:
    """The engine's log-probabilities of the targets that count, so many nats lower; else 0."""
    return np.where(datum.counted, datum.loss_inputs[OLD].astype(np.float64) - nats, 0.0)


def datum_text(datum: Datum) -> str:
    """All of it: two that differ in anything have two texts."""
    arrays = dict(sorted(datum.loss_inputs.items())) | vars(datum)
    return repr({name: it.tolist() for name, it in arrays.items() if isinstance(it, np.ndarray)})


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _write(path: Path, **content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def _of_prompt(request: Generated) -> tuple[dict[int, float], ...]:
    alternatives = request.options.prompt_logprobs
    if alternatives is None:
        return ()
    own = [(token, -0.5 - position) for position, token in enumerate(request.prompt_ids)]
    return (
        {},
        *(
            {token: lp, **{token + n: lp - n for n in range(1, alternatives)}}
            for token, lp in own[1:]
        ),
    )


def _logprob(prompt_hash: str, position: int, token: int) -> float:
    digest = hashlib.sha256(f"{prompt_hash}|{position}|{token}".encode()).digest()
    return -int.from_bytes(digest[:2], "big") / 16384


def _raw(options: SamplingOptions, logprobs: Sequence[float]) -> tuple[float, ...]:
    """As if each token were less likely at temperature 1 over all ids."""
    return (
        ()
        if is_raw(options) or not options.for_training
        else tuple(logprob - 1.5 for logprob in logprobs)
    )


def _allowed(options: SamplingOptions, token_ids: Sequence[int]) -> tuple[bytes | None, ...]:
    """As if a grammar had left each token and the next one."""
    is_bound = options.json_schema is not None or options.structural_tag is not None
    if not (is_bound and options.for_training):
        return ()
    return tuple(set_pack((3 << token).to_bytes(64, "little")) for token in token_ids)
