"""A model of the Hugging Face Hub, or of a server with its API (HF_ENDPOINT), into a folder.

The token for what is private or gated is HF_TOKEN, or that of ``hf auth login``; the package
huggingface_hub reads it.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from console.errors import InvalidRequest

SCHEME = "hf://"
CONFIG = "config.json"
# What a model is made of. Weights that are pickles are code, and copies for other libraries are not
# read.
TAKEN = re.compile(
    r"[^/]+\.(safetensors|safetensors\.index\.json|json|txt|model|jinja|md)|LICENSE[^/]*"
)
PLACE = re.compile(r"(?P<name>[^/@]+/[^/@]+)(@(?P<revision>[^@]+))?")


def hub_fetch(
    source: str,
    folder: Path,
    progress: Callable[[str], None],
    look: Callable[[int, int | None], None],
) -> str:
    """``source``: ``hf://OWNER/NAME`` or ``hf://OWNER/NAME@REVISION``; a revision is a branch, a
    tag or a commit.

    ``look`` is called once, while the folder has config.json alone: with the bytes of all files,
    and the number of weights where the Hub counts them. Returns the source with the commit that
    was fetched. Raises InvalidRequest, and what ``look`` raises.
    """
    if (place := PLACE.fullmatch(source.removeprefix(SCHEME))) is None:
        raise InvalidRequest(
            f"{source} does not read {SCHEME}OWNER/NAME or {SCHEME}OWNER/NAME@REVISION."
        )
    try:
        import huggingface_hub
        from huggingface_hub.errors import GatedRepoError, HFValidationError, HTTPError
    except ImportError:
        raise InvalidRequest(
            "This server has no package huggingface_hub.",
            hint="Run add_model where a runtime could start, or fetch the folder elsewhere and add "
            "that.",
        ) from None
    name, api = place["name"], huggingface_hub.HfApi()
    try:
        info = api.model_info(name, revision=place["revision"], files_metadata=True)
        sizes = {
            file.rfilename: file.size or 0
            for file in info.siblings or []
            if TAKEN.fullmatch(file.rfilename)
        }
        if not sizes:
            raise InvalidRequest(f"{name} has no file of a model.")
        for file in sorted(sizes, key=lambda each: (each != CONFIG, each)):
            progress(f"fetching {file}")
            api.hf_hub_download(name, file, revision=info.sha, local_dir=folder)
            if file == CONFIG:
                counted = getattr(info.safetensors, "total", None)
                look(sum(sizes.values()), counted)
    except GatedRepoError:
        raise InvalidRequest(
            f"{name} is gated: its owner decides who may have it.",
            hint=f"Accept its terms at {api.endpoint}/{name}, and set HF_TOKEN to a token of that "
            "account.",
        ) from None
    except (HTTPError, HFValidationError, OSError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        hint = (
            "If it is private, set HF_TOKEN to a token that may read it."
            if status in (401, 403, 404)
            else ""
        )
        raise InvalidRequest(
            f"{name} was not fetched from {api.endpoint}: {error}", hint=hint
        ) from None
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # what a broken download would go on by
    return f"{SCHEME}{name}@{info.sha}"
