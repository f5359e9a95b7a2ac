"""What a request may name of earlier responses of its episode: a whole conversation, or one item of
an answer.
"""

from collections.abc import Sequence
from typing import Any

from gpu_runtime.gateway.openai.responses_items import (
    InputItem,
    ItemReference,
    item_of,
    output_items,
)
from gpu_runtime.journal.call_ids import CALL, RESPONSE, canonical_call_id
from gpu_runtime.journal.records import CallRecord
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.messages import as_sent

INSTRUCTIONS = "instructions"  # noted with a call whose first message they are


class EarlierResponses:
    """The completed calls of one episode; those of another one are not to be seen."""

    def __init__(self, calls: Sequence[CallRecord] = ()) -> None:
        self._calls = {call.id: call for call in calls if call.status == "completed"}

    def conversation(self, response_id: str) -> list[dict[str, Any]]:
        """The chat messages up to and with the answer of ``response_id``, without instructions.

        Raises BadRequest for one that is not of this episode.
        """
        call = (
            self._calls.get(canonical_call_id(response_id))
            if response_id.startswith(RESPONSE)
            else None
        )
        if call is None:
            raise BadRequest(
                f"no response of this episode has the id {response_id!r}",
                hint="An episode's key knows the responses of its own episode alone.",
                param="previous_response_id",
                openai_code="previous_response_not_found",
            )
        messages = [*self._messages(call), call.completions[0].message]
        return messages[1:] if call.options.get(INSTRUCTIONS) else messages

    def resolved(self, item: InputItem) -> InputItem:
        """``item``, or what it refers to. Raises BadRequest for a reference to nothing."""
        if not isinstance(item, ItemReference):
            return item
        call = self._calls.get(CALL + item.id.partition("_")[2].partition("_")[0])
        items = output_items(call) if call else []
        found = next((each for each in items if each["id"] == item.id), None)
        if found is None:
            raise BadRequest(
                f"item_reference: no item of this episode has the id {item.id!r}",
                hint="Send the item itself, or begin the conversation in this episode.",
                param="input",
            )
        return item_of(found)

    def _messages(self, call: CallRecord) -> list[dict[str, Any]]:
        """All messages that ``call`` was asked with: its own follow its parent's and the parent's
        answer.
        """
        parts = [[as_sent(message) for message in call.messages]]
        while call.parent is not None:
            answer = call.parent.choice
            call = self._calls[call.parent.call_id]
            parts.append([*map(as_sent, call.messages), call.completions[answer].message])
        return [message for part in reversed(parts) for message in part]
