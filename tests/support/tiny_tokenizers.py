"""Tokenizers with the chat templates of the families that the gateway must serve, built on the spot
and small.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from gpu_runtime.bundled_model import TEMPLATE as BUNDLED
from support.real_templates import real_template

CORPUS = [
    "the quick brown fox jumps over the lazy dog while seven wizards quietly brew a potion",
    "what is the capital of France? The capital of France is Paris. What is two plus two? It is four.",
    'You are a helpful assistant. {"name": "get_weather", "arguments": {"city": "Paris"}} <tool_call> </tool_call>',
    "<think> let me think about it </think> user assistant system tool 0 1 2 3 4 5 6 7 8 9",
]
CHATML = (
    "{%- if tools %}{{- '<|im_start|>system\\n# Tools\\n' }}{%- for tool in tools %}{{- tool | tojson }}{{- '\\n' }}"
    "{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}"
    "{%- for m in messages %}{{- '<|im_start|>' + m.role }}"
    "{%- if m.content or not m.tool_calls %}{{- '\\n' + (m.content or '') }}{%- endif %}"
    "{%- if m.tool_calls %}{%- for c in m.tool_calls %}"
    '{{- \'\\n<tool_call>\\n{"name": "\' + c.function.name + \'", "arguments": \' + (c.function.arguments | tojson)'
    " + '}\\n</tool_call>' }}{%- endfor %}{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
# As Qwen3: the thinking of every turn but the last is dropped.
CHATML_STRIPS_THINKING = CHATML.replace(
    "{{- '<|im_start|>' + m.role }}{%- if m.content or not m.tool_calls %}{{- '\\n' + (m.content or '') }}{%- endif %}",
    "{%- set c = m.content or '' %}{%- if m.role == 'assistant' and not loop.last and '</think>' in c %}"
    "{%- set c = c.split('</think>')[-1].lstrip('\\n') %}{%- endif %}{{- '<|im_start|>' + m.role + '\\n' + c }}",
)
# Opens the assistant's turn inside thoughts, unless it is told not to.
OPENS_THOUGHTS = CHATML.replace(
    "<|im_start|>assistant\\n' }}",
    "<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is not defined or enable_thinking %}{{- '<think>\\n' }}{%- endif %}",
)
# As SmolLM2's own: a default system message, no tools.
SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful assistant<|im_end|>\\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# As Llama 3: trims contents, writes a begin-of-text, calls are bare JSON with "parameters".
LLAMA3 = (
    "{{- '<|begin_of_text|>' }}{%- if tools %}{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}"
    "{%- for t in tools %}{{- t | tojson }}{%- endfor %}{{- '<|eot_id|>' }}{%- endif %}"
    "{%- for m in messages %}{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}"
    "{%- if m.tool_calls %}{%- set f = m.tool_calls[0].function %}"
    "{{- '{\"name\": \"' + f.name + '\", \"parameters\": ' + (f.arguments | tojson) + '}' }}"
    "{%- else %}{{- m.content | trim }}{%- endif %}{{- '<|eot_id|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"
)
# As Mistral: no roles but [INST], the tools stand before the last user message, alternation is
# enforced.
MISTRAL = (
    "{{- '<s>' }}{%- for m in messages %}"
    "{%- if m.role not in ['user', 'assistant', 'tool'] %}{{ raise_exception('only user and assistant') }}{%- endif %}"
    "{%- if m.role == 'user' %}{%- if tools and loop.last %}{{- '[AVAILABLE_TOOLS] ' + (tools | tojson)"
    " + '[/AVAILABLE_TOOLS]' }}{%- endif %}{{- '[INST] ' + m.content + '[/INST]' }}"
    "{%- elif m.role == 'tool' %}{{- '[TOOL_RESULTS] ' + m.content + '[/TOOL_RESULTS]' }}"
    "{%- elif m.tool_calls %}{{- '[TOOL_CALLS] [' }}{%- for c in m.tool_calls %}"
    "{%- if c.id | length != 9 %}{{ raise_exception('Tool call IDs should be of length 9') }}{%- endif %}"
    '{{- \'{"name": "\' + c.function.name + \'", "arguments": \' + (c.function.arguments | tojson)'
    " + ', \"id\": \"' + c.id + '\"}' }}{%- if not loop.last %}{{- ', ' }}{%- endif %}{%- endfor %}{{- ']</s>' }}"
    "{%- else %}{{- ' ' + m.content + '</s>' }}{%- endif %}{%- endfor %}"
)
SMOLLM3 = Path(__file__).with_name("smollm3.jinja").read_text()
# As no family: calls are written in a way of their own.
CHATML_ODD_CALLS = CHATML.replace("<tool_call>", "<<").replace("</tool_call>", ">>")
# As Cohere's and Phi's: messages of an unknown role are left out without a word.
CHATML_DROPS_RESULTS = CHATML.replace(
    "{%- for m in messages %}", "{%- for m in messages if m.role != 'tool' %}"
)
# As no family, but as some finetunes: of several calls in a message the first alone is written.
CHATML_ONE_CALL = CHATML.replace("for c in m.tool_calls %}", "for c in m.tool_calls[:1] %}")
TEMPLATES: dict[str, tuple[str, str]] = {
    "chatml": (CHATML, "<|im_end|>"),
    "chatml_strips_thinking": (CHATML_STRIPS_THINKING, "<|im_end|>"),
    "opens_thoughts": (OPENS_THOUGHTS, "<|im_end|>"),
    "chatml_drops_results": (CHATML_DROPS_RESULTS, "<|im_end|>"),
    "chatml_odd_calls": (CHATML_ODD_CALLS, "<|im_end|>"),
    "chatml_one_call": (CHATML_ONE_CALL, "<|im_end|>"),
    "smollm3": (SMOLLM3, "<|im_end|>"),
    "smollm2": (SMOLLM2, "<|im_end|>"),
    "bundled": (BUNDLED.read_text(), "<|im_end|>"),
    "llama3": (LLAMA3, "<|eot_id|>"),
    "mistral": (MISTRAL, "</s>"),
}
SPECIAL = [
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>"),
    *("<|start_header_id|>", "<|end_header_id|>", "<s>", "</s>", "[INST]", "[/INST]"),
    *("<end_of_turn>", "<｜end▁of▁sentence｜>", "<|return|>"),
    *(
        "[AVAILABLE_TOOLS]",
        "[/AVAILABLE_TOOLS]",
        "[TOOL_CALLS]",
        "[TOOL_RESULTS]",
        "[/TOOL_RESULTS]",
    ),
]
GEMMA4 = [
    "<|turn>",
    "<turn|>",
    "<|tool>",
    "<tool|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|tool_response>",
]
GEMMA4 += ["<tool_response|>", "<|channel>", "<channel|>", "<|think|>", '<|"|>']
# Further marks of families; the ids of the others' tokenizers stay as they are.
MARKS = {
    "magistral_v13": ["[THINK]", "[/THINK]", "[ARGS]"],
    "mistral_v11": ["[CALL_ID]", "[ARGS]", "[TOOL_CONTENT]"],
    "magistral_v11": ["[CALL_ID]", "[ARGS]", "[TOOL_CONTENT]"],
    **dict.fromkeys(("gemma4", "gemma4_v2", "gemma4_v3", "gemma4_v4", "gemma4_v5"), GEMMA4),
    "gptoss": ["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>"],
}


def build_tokenizer(folder: Path, family: str = "chatml", *, special: Sequence[str] = ()) -> Path:
    """A small byte-level BPE tokenizer with the chat template of ``family``, saved as transformers
    saves one.

    ``special`` are further special tokens.
    """
    special = [*MARKS.get(family, []), *special]
    template, end_of_turn = TEMPLATES[family] if family in TEMPLATES else real_template(family)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=[*SPECIAL, *special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    extra = [token for token in [*SPECIAL, *special] if token not in (end_of_turn, "<|endoftext|>")]
    config = {
        "eos_token": end_of_turn,
        "pad_token": "<|endoftext|>",
        "extra_special_tokens": extra,
        "tokenizer_class": "TokenizersBackend",
    }
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(template)
    return folder
