"""What one text-completion request asks for: the same as a chat plan, with a prompt that no template writes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_runtime.gateway.completion_requests import TextRequest
from gpu_runtime.gateway.errors import BadRequest
from gpu_runtime.gateway.plan import plain_completion, sampling_options
from gpu_runtime.gateway.render import Renderer
from gpu_runtime.gateway.splicing import Conversation, Prompt, compose_text
from gpu_runtime.interfaces import Delta, SamplingOptions
from gpu_runtime.journal_records import Completion
from tinkerscript.wire.config import SessionConfig


@dataclass(frozen=True)
class TextPlan:
    """A checked request with its identity; see ChatPlan, whose place it takes in Calls."""

    request: TextRequest
    renderer: Renderer
    body_sha256: str
    request_id: str | None = None
    agent: str | None = None

    messages: tuple[dict[str, Any], ...] = ()  # there are none; the prompt is among the options

    @property
    def choices(self) -> int:
        """How many answers are asked for."""
        return self.request.n or 1

    def check(self) -> None:
        """Raises BadRequest for a prompt that is no prompt."""
        prompt = self.request.the_prompt
        if not prompt:
            raise BadRequest("the prompt is empty", param="prompt")
        if not isinstance(prompt, str) and not all(0 <= token < self.renderer.vocabulary for token in prompt):
            raise BadRequest(f"token ids are from 0 to {self.renderer.vocabulary - 1}", param="prompt")

    def compose(self, conversation: Conversation, context_length: int | None = None) -> Prompt:
        """The ids as given; or those of the text, which continues an earlier call's ids where its text does."""
        prompt = self.request.the_prompt
        if isinstance(prompt, str):
            return compose_text(self.renderer, conversation, prompt, context_length=context_length)
        return Prompt(tuple(prompt), names=[])

    def sampling(self, config: SessionConfig, *, room: int, identity: str, choice: int) -> SamplingOptions:
        """How to sample answer number ``choice``, of at most ``room`` tokens."""
        options = sampling_options(self.request, config, room=room, identity=identity, choice=choice)
        return replace(options, top_logprobs=self.request.logprobs or 0)

    def completion(self, call_id: str, choice: int, deltas: Sequence[Delta], prompt: Prompt) -> Completion:
        """Answer number ``choice``, as it is kept."""
        return plain_completion(choice, deltas)

    def options(self) -> dict[str, Any]:
        """The request, for the journal."""
        return self.request.model_dump(mode="json", exclude_none=True) | {"prompt": self.request.the_prompt}
