"""Qwen-Agent over the API's own tools, whose results it names by ``id``."""

import qwen_agent_text


def play(base_url: str, api_key: str) -> str:
    return qwen_agent_text.play(base_url, api_key, use_raw_api=True)
