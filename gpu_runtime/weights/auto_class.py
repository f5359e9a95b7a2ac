"""Which of transformers' classes loads a folder whole."""

from typing import Any

from transformers import (
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
)


def auto_class(config: Any) -> Any:
    """Of the folder of this configuration: with its tower where it has one."""
    is_text = (
        config.get_text_config() is config
        or type(config) not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    )
    return AutoModelForCausalLM if is_text else AutoModelForImageTextToText
