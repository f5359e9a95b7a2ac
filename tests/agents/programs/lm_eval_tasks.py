"""lm-eval: two questions to a chat model, as its generation tasks put them."""

import os

from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalChatCompletion
from weather import MODEL, QUESTION


def play(base_url: str, api_key: str) -> str:
    os.environ["OPENAI_API_KEY"] = api_key
    model = LocalChatCompletion(
        model=MODEL, base_url=f"{base_url}/chat/completions", tokenizer_backend=None
    )
    asked = [
        model.apply_chat_template([{"role": "user", "content": text}])
        for text in (QUESTION, "And in Oslo?")
    ]
    options = {"until": ["Question:"], "max_gen_toks": 100, "temperature": 1.0}
    requests = [
        Instance("generate_until", {}, (text, options), number) for number, text in enumerate(asked)
    ]
    return " ".join(model.generate_until(requests))
