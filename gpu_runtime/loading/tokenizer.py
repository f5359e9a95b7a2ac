"""The base model's tokenizer, and how its conversations are written."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.interfaces import Tokenizer
from gpu_runtime.processes.paused_gc import gc_paused
from gpu_runtime.rendering.renderer import Renderer
from gpu_runtime.rendering.template_check import template_verify
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.model_refusals import head_refusal


def tokenizer_load(folder: str) -> Tokenizer:
    """The base model's tokenizer. Raises OSError where the folder holds none, ModelUnsupported: too
    many ids.
    """
    # The server compared them by the files; here they are as the library loads them, defaults and
    # formats included.
    with gc_paused():  # an engine that starts beside it imports the same
        from transformers import AutoConfig

        # imports torch
        from gpu_runtime.rendering.transformers_tokenizer import TransformersTokenizer

    tokenizer = TransformersTokenizer(folder)
    head = AutoConfig.from_pretrained(folder).get_text_config().vocab_size
    if refusal := head_refusal(head, tokenizer.largest_id):
        raise ModelUnsupported(refusal)
    # the engine samples any id of the head: it may come back
    tokenizer.size = max(tokenizer.size, head)
    return tokenizer


@asynccontextmanager
async def tokenizer_reading(folder: str) -> AsyncIterator["asyncio.Task[Tokenizer]"]:
    """The tokenizer, read beside what the block does. The block's end waits for it."""
    reading = asyncio.create_task(asyncio.to_thread(tokenizer_load, folder))
    try:
        yield reading
    finally:
        await asyncio.gather(reading, return_exceptions=True)


def renderer_of(tokenizer: Tokenizer, folder: str, config: SessionConfig) -> Renderer:
    """How conversations are written with ``tokenizer``. Raises ModelUnsupported."""
    renderer = Renderer(tokenizer, config=config)
    template_verify(renderer, folder)
    return renderer


def renderer_load(folder: str, config: SessionConfig) -> Renderer:
    """As ``renderer_of``, with the tokenizer of the folder. Raises OSError too."""
    return renderer_of(tokenizer_load(folder), folder, config)
