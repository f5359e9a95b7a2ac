"""The Modelfile with which `ollama create` takes a GGUF file. Source: Ollama's documentation,
docs/modelfile.md.

Ollama writes prompts by a template of Go's, not by the model's own of Jinja. Where that one writes
ChatML, the same is written here; where it writes anything else there is no TEMPLATE, and Ollama
looks for one that it knows in the file.
"""

from pathlib import Path

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tinkerscript.errors import InvalidRequest

from .folder_files import Json, json_read

Message = dict[str, str]
START, END, ANSWER = "<|im_start|>", "<|im_end|>\n", "<|im_start|>assistant\n"
CHATML = (
    'TEMPLATE """{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}'
    '{{ range .Messages }}{{ if ne .Role "system" }}<|im_start|>{{ .Role }}\n{{ .Content '
    "}}<|im_end|>\n"
    "{{ end }}{{ end }}"
    '<|im_start|>assistant\n"""'
)
ASKED: list[Message] = [{"role": "user", "content": "one"}]
TALK = [*ASKED, {"role": "assistant", "content": "two"}, {"role": "user", "content": "three"}]
SYSTEM: Message = {"role": "system", "content": "zero"}
# Of generation_config.json, by Ollama's names.
PARAMETERS = {
    "temperature": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
}  # fmt: skip


def modelfile(folder: Path, model: str, context_length: int) -> str:
    """The text of the Modelfile for the file ``model`` beside it, made of the model in
    ``folder``.
    """
    generation = (
        json_read(folder / "generation_config.json")
        if (folder / "generation_config.json").exists()
        else {}
    )
    lines = [f"FROM ./{model}", f"PARAMETER num_ctx {context_length}"]
    lines += [
        f"PARAMETER {name} {float(generation[ours]):g}"
        for ours, name in PARAMETERS.items()
        if isinstance(generation.get(ours), int | float)
    ]
    found = _chatml_system(folder)
    if found is None:
        lines.append(
            "# The chat template in the model is not ChatML: Ollama uses one that it knows, or "
            "none."
        )
    else:
        lines += [f'PARAMETER stop "{END.strip()}"', CHATML]
        if found:
            lines.append(f'SYSTEM """{found}"""')
    return "\n".join(lines) + "\n"


def _chatml_system(folder: Path) -> str | None:
    """The system message that the chat template puts before a chat without one; None of one that is
    not ChatML.
    """
    source = _template(folder)
    if source is None:
        return None
    try:
        template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(
            source
        )
        asked, talk, with_system = (
            template.render(messages=messages, add_generation_prompt=True)
            for messages in (ASKED, TALK, [SYSTEM, *TALK])
        )
    except (TemplateError, ValueError, TypeError, AttributeError):
        return None
    default = asked.removesuffix(_chatml(ASKED))
    is_chatml = (
        with_system == _chatml([SYSTEM, *TALK])
        and talk == default + _chatml(TALK)
        and asked == default + _chatml(ASKED)
    )
    text = default.removeprefix(f"{START}system\n").removesuffix(END)
    is_one_message = (
        default in ("", f"{START}system\n{text}{END}") and '"""' not in text and START not in text
    )
    return text if is_chatml and is_one_message else None


def _chatml(messages: list[Message]) -> str:
    return "".join(f"{START}{one['role']}\n{one['content']}{END}" for one in messages) + ANSWER


def _template(folder: Path) -> str | None:
    beside = folder / "chat_template.jinja"
    if beside.exists():
        return beside.read_text(encoding="utf-8")
    config: Json = json_read(folder / "tokenizer_config.json")
    template = config.get("chat_template")
    if template is not None and not isinstance(template, str):
        raise InvalidRequest(
            "This model has several chat templates: none of them is written to a Modelfile."
        )
    return template
