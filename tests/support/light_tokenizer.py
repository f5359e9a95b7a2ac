"""A model's tokenizer without transformers and torch, whose import takes most of a test's start.

Right for the folders that ``tiny_tokenizers`` makes, and compared there with transformers' by
``test_tokenizers.py``.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import tokenizers
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gpu_runtime.rendering.marks import added_pattern, without_added
from gpu_runtime.rendering.template_variables import SPECIAL_TOKENS, variables_of


class LightTokenizer:
    """The ``Tokenizer`` of ``folder``, by the rules of transformers' generic class; ``end_id`` ends
    a turn.
    """

    def __init__(self, folder: str | Path) -> None:
        config = json.loads((Path(folder) / "tokenizer_config.json").read_text())
        self._tokenizer = tokenizers.Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
        self._names = {
            name: config[name] for name in ("bos_token", "eos_token", "pad_token") if name in config
        }
        template = (Path(folder) / "chat_template.jinja").read_text()
        self._template, self.template_variables = (
            _environment().from_string(template),
            variables_of(template),
        )
        self.described = {"chat_template": template} | {
            name: self._names.get(name) for name in SPECIAL_TOKENS
        }
        added = self._tokenizer.get_added_tokens_decoder()
        self.end_id = self._tokenizer.token_to_id(config["eos_token"])
        self.size = self._tokenizer.get_vocab_size()
        self.longest_token = max(map(len, self._tokenizer.get_vocab()))
        self.added = {token.content: added_pattern(token) for token in added.values()}
        self._without_added = without_added(json.loads(self._tokenizer.to_str()))
        self.special_ids = frozenset(token_id for token_id, token in added.items() if token.special)

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=special).ids

    def encode_text(self, text: str) -> list[int]:
        return self._without_added.encode(text, add_special_tokens=False).ids

    def decode(self, token_ids: Sequence[int], *, special: bool = False) -> str:
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=not special)

    def entry(self, token_id: int) -> str:
        return self._tokenizer.id_to_token(token_id)

    def render(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        *,
        generation: bool,
        variables: Mapping[str, Any],
        now: datetime,
    ) -> str:
        given = {"documents": None, "strftime_now": now.strftime} | self._names | dict(variables)
        return self._template.render(
            messages=list(messages),
            tools=list(tools) or None,
            add_generation_prompt=generation,
            **given,
        )


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)
