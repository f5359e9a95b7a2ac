"""What one text-completion request asks for: the same as a chat prepared, with a prompt that no
template writes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_runtime.generation.engine_options import check_tokens
from gpu_runtime.generation.labels import LABELS
from gpu_runtime.generation.requests import Identity, TextRequest
from gpu_runtime.generation.sampling import plain_completion, sampling_options
from gpu_runtime.generation.schemas import schema_bound
from gpu_runtime.interfaces import Delta, SamplingOptions
from gpu_runtime.journal.records import Completion
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.history.conversation import Conversation
from gpu_runtime.rendering.history.splicing import Prompt, compose_text
from gpu_runtime.rendering.renderer import Renderer
from tinkerscript.wire.config import SessionConfig


@dataclass(frozen=True)
class PreparedText:
    """A checked request with its identity; Calls takes it wherever it takes a PreparedChat."""

    request: TextRequest
    renderer: Renderer
    identity: Identity
    labels: Mapping[str, Any] = field(default_factory=dict)

    # There are none: plain text has no thoughts, calls no tool, and its prompt is an option.
    messages: tuple[dict[str, Any], ...] = ()
    form: None = None

    @property
    def choices(self) -> int:
        """How many completions are requested."""
        return self.request.n or 1

    def check(self) -> None:
        """Raises BadRequest for a prompt that is no prompt, for tokens that there are not, for too
        large a grammar.
        """
        check_tokens(self.request, self.renderer.vocabulary)
        if self.request.thinking_budget is not None:
            raise BadRequest(
                "a text has no thoughts", hint="Leave thinking_budget out.", param="thinking_budget"
            )
        prompt = self.request.the_prompt
        if not prompt:
            raise BadRequest("the prompt is empty", param="prompt")
        if not isinstance(prompt, str) and not all(
            0 <= token < self.renderer.vocabulary for token in prompt
        ):
            raise BadRequest(
                f"token ids are from 0 to {self.renderer.vocabulary - 1}", param="prompt"
            )
        asked = self.request.structured_outputs
        if asked and (form := asked.json_schema or asked.tag):
            schema_bound(json.loads(form), param="structured_outputs")

    def compose(self, conversation: Conversation, context_length: int | None = None) -> Prompt:
        """The ids as given; or those of the text, which continues an earlier call's ids where its
        text does.
        """
        prompt = self.request.the_prompt
        if isinstance(prompt, str):
            return compose_text(self.renderer, conversation, prompt, context_length=context_length)
        return Prompt(tuple(prompt), names=[])

    def sampling(
        self, config: SessionConfig, *, room: int, identity: str, choice: int
    ) -> SamplingOptions:
        """How to sample answer number ``choice``, of at most ``room`` tokens."""
        options = sampling_options(
            self.request, config, room=room, identity=identity, choice=choice
        )
        asked = self.request.structured_outputs
        of_prompt = self.request.wanted_of_prompt
        options = replace(
            options, top_logprobs=self.request.logprobs or 0, prompt_logprobs=of_prompt
        )
        return (
            replace(options, json_schema=asked.json_schema, structural_tag=asked.tag)
            if asked
            else options
        )

    def completion(
        self, call_id: str, choice: int, deltas: Sequence[Delta], prompt: Prompt
    ) -> Completion:
        """Answer number ``choice``, as it is kept."""
        return plain_completion(choice, deltas)

    def options(self) -> dict[str, Any]:
        """The request, for the journal."""
        options = self.request.model_dump(mode="json", by_alias=True, exclude_none=True)
        return (
            options
            | {"prompt": self.request.the_prompt}
            | ({LABELS: dict(self.labels)} if self.labels else {})
        )
