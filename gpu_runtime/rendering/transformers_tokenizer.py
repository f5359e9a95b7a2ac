"""A model's tokenizer and chat template as transformers reads them. It imports torch: real runtimes
alone load it.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any

from transformers import AutoTokenizer

from gpu_runtime.rendering.marks import added_pattern, without_added
from gpu_runtime.rendering.template_variables import SPECIAL_TOKENS, variables_of


class TransformersTokenizer:
    """The ``Tokenizer`` of the folder ``folder``. Raises OSError where it holds none."""

    def __init__(self, folder: str) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self.size = len(self._tokenizer)
        vocabulary = self._tokenizer.get_vocab()
        self.longest_token, self.largest_id = max(map(len, vocabulary)), max(vocabulary.values())
        self._without_added = _TextAlone(self._tokenizer)
        self.added: Mapping[str, str] = {
            str(token): added_pattern(token)
            for token in self._tokenizer.added_tokens_decoder.values()
        }
        self.special_ids = frozenset(self._tokenizer.all_special_ids) | {
            token_id
            for token_id, token in self._tokenizer.added_tokens_decoder.items()
            if token.special
        }

        template = self._tokenizer.chat_template
        self.template_variables = variables_of(template if isinstance(template, str) else "")
        tokens = {name: getattr(self._tokenizer, name) for name in SPECIAL_TOKENS}
        self.described: Mapping[str, str | None] = {
            "chat_template": template if isinstance(template, str) else None,
            **tokens,
        }

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=special)

    def encode_text(self, text: str) -> list[int]:
        return self._without_added.encode(text)

    def decode(self, token_ids: Sequence[int], *, special: bool = False) -> str:
        return self._tokenizer.decode(
            list(token_ids), skip_special_tokens=not special, clean_up_tokenization_spaces=False
        )

    def entry(self, token_id: int) -> str:
        # a head may have more ids than there are tokens
        return self._tokenizer.convert_ids_to_tokens(token_id) or ""

    def render(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        *,
        generation: bool,
        variables: Mapping[str, Any],
        now: datetime,
    ) -> str:
        return self._tokenizer.apply_chat_template(
            list(messages),
            tools=list(tools) or None,
            add_generation_prompt=generation,
            tokenize=False,
            **({"strftime_now": now.strftime} | dict(variables)),
        )


class _TextAlone:
    """The tokenizer without its added tokens. Made with the first text that has their letters: it
    reads the whole vocabulary."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self._lock = tokenizer, Lock()
        self._made: Any = None

    def encode(self, text: str) -> list[int]:
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        if backend is None:  # a class of its own, which is no tokenizer.json
            return list(
                self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
            )
        with self._lock:
            self._made = self._made or without_added(json.loads(backend.to_str()))
        return list(self._made.encode(text, add_special_tokens=False).ids)
