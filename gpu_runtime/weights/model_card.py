"""The card of an exported model: what it was made of, in the form that the Hugging Face hub
reads."""

import json
from pathlib import Path

from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.runtime import Assignment


def card_write(assignment: Assignment, config: SessionConfig, step: int, folder: Path) -> None:
    """Put the card of the model of ``step``, which ``config`` trained, into its folder."""
    of_step = assignment.model_copy(update={"config": config})
    (folder / "README.md").write_text(model_card(of_step, step))


def model_card(assignment: Assignment, step: int) -> str:
    """Markdown with the hub's metadata before it. Source: huggingface.co/docs/hub/model-cards."""
    usual = SessionConfig().model_dump(mode="json")
    config = assignment.config.model_dump(mode="json")
    options = {name: value for name, value in config.items() if value != usual.get(name)}
    lines = [
        "---",
        f"base_model: {json.dumps(assignment.base_model)}",
        "library_name: transformers",
        "pipeline_tag: text-generation",
        "tags: [tinkerscript, reinforcement-learning]",
        "---",
        "",
        f"# {_plain(assignment.base_model)}, trained",
        "",
        f"- Base model: {_plain(assignment.base_model)}",
        f"- Began from: {_beginning(assignment)}",
        f"- Session: {assignment.session_id}, step {step}",
        f"- Loss: {assignment.config.loss}, seed {assignment.config.seed}",
        "",
        "Options other than the defaults:",
        "",
        "```json",
        json.dumps(options, indent=2, sort_keys=True),
        "```",
        "",
    ]
    return "\n".join(lines)


def _beginning(assignment: Assignment) -> str:
    began = assignment.started_from
    if began is None:
        return "the base model"
    path = f", {began.tinker_path}" if began.tinker_path else ""
    return (
        f"the {began.kind} checkpoint {began.checkpoint_id} of session {began.session_id}, step "
        f"{began.step}{path}"
    )


def _plain(name: str) -> str:
    """A name as text of one line, without marks of Markdown."""
    return "".join(letter for letter in name if letter.isalnum() or letter in "-_./ ")
