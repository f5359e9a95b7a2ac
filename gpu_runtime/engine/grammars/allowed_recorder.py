"""Records what a grammar left to choose from at each token, by following the engine's own tokens
through it.

vLLM keeps the bit masks of its grammars to itself, in another process. A mask is a function of the
grammar and of the tokens before it, so the same grammar, compiled a second time by vLLM's own code
and advanced by the tokens that the engine sampled, gives the same masks. ``min_tokens`` takes away
the ends of an answer in the way of vLLM's logits processor of that name: not where nothing else
would be left.
"""

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpu_runtime.engine.grammars.bounds import bounds_install
from gpu_runtime.interfaces import SamplingOptions
from gpu_runtime.journal.token_values import UNKNOWN, AllowedSet, set_pack

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.sampling_params import SamplingParams

BACKEND = "xgrammar"  # of the engine too: the one that compiles here what is compiled there
log = logging.getLogger(__name__)


class GrammarCompiler:
    """vLLM's backend for grammars, in this process. Made at the first grammar: it reads the whole
    vocabulary.
    """

    def __init__(self, vllm_config: "VllmConfig") -> None:
        self._vllm_config = vllm_config
        self._lock = threading.Lock()
        self._backend: Any = None
        self.vocabulary = vllm_config.model_config.get_vocab_size()

    def compile(self, parameters: "SamplingParams", stop_ids: frozenset[int]) -> Any:
        """The grammar that ``parameters`` ask for, at its start."""
        from vllm.v1.structured_output.request import get_structured_output_key

        assert parameters.structured_outputs is not None, "only calls with a grammar are compiled"
        key = get_structured_output_key(parameters.structured_outputs)
        with self._lock:
            return self._made().compile_grammar(*key, stop_token_ids=set(stop_ids))

    def bits(self, grammar: Any) -> bytes:
        """A bit for each id that may come next, and some for ids that there are not."""
        words = self._backend.allocate_token_bitmask(1)
        grammar.fill_bitmask(words, 0)
        bits: bytes = words.numpy().tobytes()
        return bits

    def _made(self) -> Any:
        from vllm.tokenizers import cached_tokenizer_from_config
        from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

        if self._backend is None:
            bounds_install()
            tokenizer = cached_tokenizer_from_config(model_config=self._vllm_config.model_config)
            self._backend = XgrammarBackend(
                self._vllm_config, tokenizer=tokenizer, vocab_size=self.vocabulary
            )
        return self._backend


class AllowedRecorder:
    """Of one answer; ``next`` is called with its tokens in their order, from one thread at a
    time.
    """

    def __init__(
        self,
        compiler: GrammarCompiler,
        options: SamplingOptions,
        parameters: "SamplingParams",
        end: int | None,
    ) -> None:
        self._compiler, self._parameters, self._min_tokens = (
            compiler,
            parameters,
            options.min_tokens,
        )
        self._stop_ids = frozenset(options.stop_token_ids) | (frozenset() if end is None else {end})
        self._stops = sum(1 << stop for stop in self._stop_ids)
        self._grammar: Any = None
        self._count = 0
        self._is_lost = False

    def next(self, token_ids: Sequence[int]) -> tuple[AllowedSet | None, ...]:
        """What each of these tokens was chosen from. The first call compiles the grammar, which can
        take seconds.
        """
        if self._grammar is None and self._parameters.structured_outputs is not None:
            self._grammar = self._compiler.compile(self._parameters, self._stop_ids)
        return tuple(self._step(token) for token in token_ids)

    def _step(self, token: int) -> AllowedSet | None:
        if self._is_lost:
            return UNKNOWN
        bits = self._allowed()
        self._count += 1
        if (bits is not None and not bits >> token & 1) or (
            self._grammar is not None and not self._grammar.accept_tokens("", [token])
        ):
            self._is_lost = True
            log.warning(
                "The engine sampled token %d, which the grammar of its call does not allow here.",
                token,
            )
            return UNKNOWN
        return (
            None
            if bits is None
            else set_pack(bits.to_bytes((self._compiler.vocabulary + 7) // 8, "little"))
        )

    def _allowed(self) -> int | None:
        """None where every id could come: in free text, and after the grammar's end, which
        ``ignore_eos`` may pass.
        """
        every = (1 << self._compiler.vocabulary) - 1
        bits = every
        if self._grammar is not None and not self._grammar.is_terminated():
            bits &= int.from_bytes(self._compiler.bits(self._grammar), "little")
        if self._count < self._min_tokens:
            bits = bits & ~self._stops or bits
        return None if bits == every else bits


def allowed_recorder(
    compiler: GrammarCompiler,
    options: SamplingOptions,
    parameters: "SamplingParams",
    end: int | None,
) -> AllowedRecorder | None:
    """Of a call that something narrows and that may be trained; None of any other."""
    is_narrowed = parameters.structured_outputs is not None or options.min_tokens > 0
    return (
        AllowedRecorder(compiler, options, parameters, end)
        if options.for_training and is_narrowed
        else None
    )
