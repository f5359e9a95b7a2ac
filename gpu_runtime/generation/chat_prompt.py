"""What one chat request asks for, in the engine's terms: prompt, sampling options, and what is kept
of an answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gpu_runtime.generation.answer_form import AnswerForm
from gpu_runtime.generation.engine_options import check_tokens
from gpu_runtime.generation.labels import LABELS
from gpu_runtime.generation.requests import ChatRequest, Identity
from gpu_runtime.generation.sampling import plain_completion, sampling_options
from gpu_runtime.generation.schemas import WARNING, open_request
from gpu_runtime.generation.template_options import check_loop, template_variables, unknown_effort
from gpu_runtime.interfaces import Delta, SamplingOptions
from gpu_runtime.journal.records import Completion
from gpu_runtime.rendering.history.conversation import Conversation
from gpu_runtime.rendering.history.splicing import Prompt, compose
from gpu_runtime.rendering.messages import extended, normal_answer
from gpu_runtime.rendering.renderer import Renderer
from tinkerscript.wire.config import SessionConfig


@dataclass(frozen=True)
class PreparedChat:
    """A checked request with its identity."""

    request: ChatRequest
    renderer: Renderer
    identity: Identity
    # of the dialect's own, kept with the call's options
    notes: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def form(self) -> AnswerForm:
        """What the answers may be, and what reads them."""
        return AnswerForm(self.request, self.renderer)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The request's messages in normal form."""
        return self.request.normal_messages

    @property
    def choices(self) -> int:
        """How many completions are requested."""
        return self.request.n or 1

    def check(self) -> None:
        """Raises BadRequest for what this model cannot do."""
        check_tokens(self.request, self.renderer.vocabulary)
        self.form.check()
        check_loop(self.messages, self.renderer, has_tools=bool(self.request.tools))

    def compose(self, conversation: Conversation, context_length: int | None = None) -> Prompt:
        """The prompt, on the ids that the engine has seen where that is possible. Raises
        BadRequest.

        With a ``context_length`` a prompt that is far longer is refused before it is encoded.
        """
        asked = self.messages, self.request.normal_tools, self.form.forced
        return compose(self.renderer, conversation, *asked, context_length=context_length)

    def sampling(
        self, config: SessionConfig, *, room: int, identity: str, choice: int
    ) -> SamplingOptions:
        """How to sample answer number ``choice``, of at most ``room`` tokens."""
        grammar = self.form.grammar
        schema = None if grammar else self.request.json_schema
        options = sampling_options(
            self.request, config, room=room, identity=identity, choice=choice
        )
        if not options.ignore_eos:
            options = replace(
                options, stop_token_ids=(*options.stop_token_ids, *self.renderer.stop_ids)
            )
        if self.form.stops_follow_thoughts:
            options = replace(options, stop=())
        top = self.request.top_logprobs or 0
        return replace(options, top_logprobs=top, json_schema=schema, structural_tag=grammar)

    def completion(
        self, call_id: str, choice: int, deltas: Sequence[Delta], prompt: Prompt
    ) -> Completion:
        """Answer number ``choice``, as it is kept and as later requests continue it."""
        plain = plain_completion(choice, deltas)
        message = self.form.message(call_id, choice, plain.text, plain.token_ids_T)
        return replace(
            plain, message=message, splice_key=extended(prompt.names[-1], normal_answer(message))
        )

    def options(self) -> dict[str, Any]:
        """The request without its messages, for the journal."""
        options = self.request.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude={"messages"}
        )
        variables = (
            {"template_variables": self.renderer.variables} if self.renderer.variables else {}
        )
        return (
            options
            | variables
            | dict(self.notes)
            | ({"forced_tool": True} if self.form.forced else {})
        )


def prepare_chat(
    request: ChatRequest,
    renderer: Renderer,
    identity: Identity,
    labels: Mapping[str, Any],
    config: SessionConfig,
) -> PreparedChat:
    """``request``, to be rendered under the variables that it sets, with its ``labels``.

    A wish for thoughts that this template cannot express changes no prompt: it is a label, unless
    the session's ``unsupported_effort`` refuses it. Raises BadRequest for that, and for any other
    that the template ignores.
    """
    unmet: dict[str, Any] = {}
    under = renderer.with_variables(template_variables(request, renderer, unmet))
    if unmet and config.unsupported_effort == "refuse":
        raise unknown_effort(renderer, next(iter(unmet)))
    request, unused = _with_budget(request, under, config.max_tokens)
    kept = {**labels, **unused, **unmet, **under.system_text.changes(request.normal_messages)}
    if found := open_request(request):
        kept[WARNING] = found
    return PreparedChat(request, under, identity, {LABELS: kept} if kept else {})


def _with_budget(
    request: ChatRequest, renderer: Renderer, most_tokens: int
) -> tuple[ChatRequest, dict[str, Any]]:
    """``request`` with the budget of its ``thinking`` as its thinking_budget, or the label of one
    that ends nothing here: without thoughts, beside a grammar, or no shorter than the answer."""
    asked = request.thinking.budget_tokens if request.thinking else None
    if asked is None or request.thinking_budget is not None:
        return request, {}
    most, form = min(request.most_tokens or most_tokens, most_tokens), AnswerForm(request, renderer)
    is_bound = form.grammar is not None or request.json_schema is not None
    if not 0 < asked < most or form.thoughts is None or is_bound:
        return request, {"thinking.budget_tokens": asked}
    return request.model_copy(update={"thinking_budget": asked}), {}
