"""llama.cpp over a GGUF file, compared with transformers."""

import json
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

TEXTS = [
    "The capital of France is",
    "Hello  world\n\n 12345 it's über 你好 \t tabs?!",
    "<|im_start|>user\nI'M 3.14<|im_end|>\n",
]
STEPS = 4


def served(path: Path) -> Any:
    """llama.cpp, on one thread."""
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.model.path, options.n_ctx, options.n_parallel, options.warmup = str(path), 512, 1, False
    options.cpuparams.n_threads = 1
    return xllamacpp.Server(options)


def asked(server: Any, path: str, **body: Any) -> Any:
    """What its server answers."""
    url, headers = f"{server.listening_address}/{path}", {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def ids_of(server: Any, text: str, *, special: bool = True) -> list[int]:
    """The ids of ``text``; ``special``: with what a tokenizer puts around it."""
    told = asked(server, "tokenize", content=text, add_special=special, parse_special=True)
    found: list[int] = told["tokens"]
    return found


def same_as(
    path: Path, model: Any, tokenizer: Any, farthest: float, texts: Sequence[str] = TEXTS
) -> Any:
    """llama.cpp reads the same ids of each text and computes the same probabilities along a greedy
    answer. Returns its server.
    """
    import torch

    # llama.cpp holds an answer back that ends within a character: such tokens are not sampled.
    ids_in_all = model.config.get_text_config().vocab_size
    banned = [number for number in range(ids_in_all) if not tokenizer.decode([number]).isascii()]
    banned += range(len(tokenizer), ids_in_all)
    server = served(path)
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        assert ids_of(server, text) == ids, (path.name, text)
        for _ in range(STEPS):
            with torch.no_grad():
                logprobs_V = torch.log_softmax(model(torch.tensor([ids])).logits[0, -1], -1)
            asked = {
                "prompt": ids,
                "n_predict": 1,
                "temperature": 0,
                "n_probs": 5,
                "ignore_eos": True,
            }
            answer = server.handle_completions(
                asked | {"logit_bias": [[number, False] for number in banned]}
            )
            [token] = answer["choices"][0]["logprobs"]["content"]
            told = {one["id"]: one["logprob"] for one in token["top_logprobs"]}
            assert told == pytest.approx(
                {number: logprobs_V[number].item() for number in told}, abs=farthest
            )
            logprobs_V[banned] = -torch.inf
            assert logprobs_V[token["id"]] > logprobs_V.max() - 2 * farthest
            ids = [*ids, token["id"]]
    return server
