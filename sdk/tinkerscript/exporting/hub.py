"""A downloaded model, merged or an adapter, into a repository of the Hugging Face Hub or of a
server with its API.

The `huggingface_hub` package sends the files, large ones by Git LFS, and not again those that the
repository has.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinkerscript.errors import InvalidRequest, ServerUnreachable, TinkerScriptError

HUB = "https://huggingface.co"
# One of them is in every model folder: a model's own, or that of an adapter (PEFT).
CONFIGS = ("config.json", "adapter_config.json")
LEFT_HERE = ["*.partial", ".*", "*/.*"]  # unfinished files, and hidden ones


def folder_push(
    folder: Path, name: str, *, endpoint: str | None = None, is_public: bool = False
) -> str:
    """Make the repository ``name`` (``owner/name``) if there is none, and put the folder's files in
    one commit.

    Returns the commit's address. ``endpoint``: the server, HF_ENDPOINT or else the Hub itself. The
    token is HF_TOKEN or that of ``hf auth login``. Raises InvalidRequest before a file is sent,
    ServerUnreachable, TinkerScriptError with the server's words.
    """
    if not any((folder / config).is_file() for config in CONFIGS):
        raise InvalidRequest(
            f"{folder} has no {' or '.join(CONFIGS)}: it is no model.",
            hint="tinkerscript download ID",
        )
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError

    if not huggingface_hub.get_token():
        raise InvalidRequest(
            "There is no token to push with.", hint="Set HF_TOKEN, or run: hf auth login"
        )
    try:
        with _storage_of(api := huggingface_hub.HfApi(endpoint=endpoint)):
            return _sent(api, folder, name, is_public)
    except HFValidationError as refused:
        raise InvalidRequest(f"{name!r} is no name of a repository: {refused}") from refused
    except HfHubHTTPError as refused:
        status = refused.response.status_code
        hint = "The token must be allowed to write there." if status in (401, 403) else ""
        raise TinkerScriptError(
            f"The push was refused: {refused}", hint=hint, status=status
        ) from refused
    except (
        HTTPError,
        OSError,
        RuntimeError,
    ) as error:  # the last is of a large file that was cut off
        raise ServerUnreachable(
            f"The push did not get through: {error}", hint="Push again: it goes on."
        ) from error


@contextmanager
def _storage_of(api: Any) -> Iterator[None]:
    """Large files go by Git LFS, but to the Hub itself: another server may not have its own storage
    (Xet).
    """
    from huggingface_hub import constants

    before = constants.HF_HUB_DISABLE_XET
    constants.HF_HUB_DISABLE_XET = before or api.endpoint != HUB
    try:
        yield
    finally:
        constants.HF_HUB_DISABLE_XET = before


def _sent(api: Any, folder: Path, name: str, is_public: bool) -> str:
    api.create_repo(name, private=not is_public, exist_ok=True)
    if not is_public and not api.repo_info(name).private:
        raise InvalidRequest(
            f"Everybody may read {name}.", hint="Push to another name, or say so: --public"
        )
    commit = api.upload_folder(
        repo_id=name,
        folder_path=folder,
        ignore_patterns=LEFT_HERE,
        commit_message="Upload a tuned model",
    )
    return str(commit.commit_url)
