"""The tokenizer of a core's grammars, read with the first of them and not as the engine starts.

To read it takes about as long as to load a small model, and most sessions never ask for a grammar.
"""

from typing import Any


def grammars_later() -> None:
    """Have the core of this process do so; called before it makes what follows its grammars."""
    from vllm.v1 import structured_output
    from vllm.v1.engine import core

    read, manager = (
        structured_output.cached_tokenizer_from_config,
        structured_output.StructuredOutputManager,
    )

    class LaterGrammars(manager):  # type: ignore[misc, valid-type]
        """vLLM's, whose ``tokenizer`` is read when it is first asked for."""

        _read: Any = None

        @property
        def tokenizer(self) -> Any:
            if self._read is None:
                self._read = read(self.vllm_config.model_config)
            return self._read

        @tokenizer.setter
        def tokenizer(self, value: None) -> None:
            """What it would have been given as it is made: see below."""

    structured_output.cached_tokenizer_from_config = lambda model_config: None
    core.StructuredOutputManager = LaterGrammars
