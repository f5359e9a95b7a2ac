"""Bringing a base model to this server: fetched, hashed, loaded once in a process of its own, then
listed.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings

from console.catalogue.base_models import RECORD, BaseModel, base_model_shape
from console.catalogue.memory_places import memory_predict
from console.errors import DomainError, InvalidRequest
from console.object_store import client as object_store
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.model_refusals import (
    folder_refusal,
    positions_count,
    proven_words,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
CONFIG = "config.json"
NEEDED = (CONFIG, "tokenizer_config.json")
CHECK_S = 3600.0
SHORTEST = 256  # tokens of context that any session has
ADAPTER_RANK = 32
NO_ENGINE = 3  # the exit code of gpu_runtime.loading.generate_check.py where there is no engine
READ_AT_ONCE = 1 << 20
SCHEME = "hf://"
# What a model is made of. Weights that are pickles are code, and copies for other libraries are not
# read.
TAKEN = re.compile(
    r"[^/]+\.(safetensors|safetensors\.index\.json|json|txt|model|jinja|md)|LICENSE[^/]*"
)
PLACE = re.compile(r"(?P<name>[^/@]+/[^/@]+)(@(?P<revision>[^@]+))?")


class ModelRefused(DomainError):
    """What was to be added is no base model; the message says why."""


def model_add(*, name: str, source: str, progress: Callable[[str], None]) -> dict[str, Any]:
    """Copy a model from a folder, from ``s3://prefix`` of the server's own bucket, or from
    ``hf://owner/name`` of the Hugging Face Hub, check it, and list it.

    ``progress`` is told each step in words. Raises InvalidRequest for a name that is taken or none
    and for what the Hub does not give, ModelRefused; nothing partial is left.
    """
    if not NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} is no name of a model: letters, digits, dots, dashes, at most 100."
        )
    folder = settings.DATA / "models" / name
    if folder.exists() or name in settings.EXTRA_MODELS:
        raise InvalidRequest(
            f"There is a model called {name} already.", hint="Choose another name."
        )
    partial = folder.with_name(f".{name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        source = _fetch(source, partial, progress)
        if missing := [needed for needed in NEEDED if not (partial / needed).is_file()]:
            raise ModelRefused(f"{source} has no {missing[0]}: it is no Hugging Face model.")
        _refuse(partial)
        progress("hashing")
        files = {str(path.relative_to(partial)): _sha256(path) for path in _files(partial)}
        progress(
            "loading it and generating with it once, which takes as long as starting a session"
        )
        record = {"name": name, "source": source, "files": files} | _load(partial)
        if record.get("generates") is False:
            progress(
                "no engine is installed here, so nothing was generated: its first session shows "
                "whether it can"
            )
        (partial / RECORD).write_text(json.dumps(record, indent=1))
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return record


def _fetch(source: str, folder: Path, progress: Callable[[str], None]) -> str:
    """Where it came from, for the record."""
    if source.startswith(SCHEME):
        return _hub_fetch(
            source,
            folder,
            progress,
            lambda size, count: progress(before_fetch(folder, size, count)),
        )
    if source.startswith("s3://"):
        prefix = source.removeprefix("s3://").strip("/") + "/"
        keys = list(object_store.keys_under(prefix))
        if not keys:
            raise ModelRefused(f"The bucket {settings.S3_BUCKET} has nothing under {prefix}.")
        for key in keys:
            path = folder / key.removeprefix(prefix)
            if folder not in path.resolve().parents:
                raise ModelRefused(f"{key} leads out of its folder.")
            path.parent.mkdir(parents=True, exist_ok=True)
            progress(f"fetching {path.name}")
            object_store.download(key, path)
        return source
    origin = Path(source)
    if not origin.is_absolute() or not origin.is_dir():
        raise ModelRefused(
            f"{source} is neither an absolute folder of this machine nor s3://PREFIX nor "
            "hf://OWNER/NAME.",
            hint=f"A model of the Hugging Face Hub is {SCHEME}OWNER/NAME.",
        )
    for path in _files(origin):
        target = folder / path.relative_to(origin)
        target.parent.mkdir(parents=True, exist_ok=True)
        progress(f"copying {path.name}")
        shutil.copyfile(path, target)
    return source


def _hub_fetch(
    source: str,
    folder: Path,
    progress: Callable[[str], None],
    look: Callable[[int, int | None], None],
) -> str:
    """A model of the Hugging Face Hub, or of a server with its API (HF_ENDPOINT), into a folder.
    ``source``: ``hf://OWNER/NAME`` or ``hf://OWNER/NAME@REVISION``; a revision is a branch, a tag
    or a commit. The token for what is private or gated is HF_TOKEN, or that of ``hf auth login``;
    the package huggingface_hub reads it.

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


def before_fetch(folder: Path, size_bytes: int, counted: int | None) -> str:
    """What the model whose config.json is in ``folder`` needs, and whether it is proven.

    ``size_bytes`` of its files; without a count of its weights that of bfloat16. Raises
    ModelRefused for what that file alone refuses.
    """
    _refuse(folder, " (nothing more was fetched)")
    fetched = f"{size_bytes / 1e9:.2f} GB to fetch"
    shape = base_model_shape(BaseModel("", str(folder), counted or size_bytes // 2))
    if shape is not None:
        whole, adapters = (
            memory_predict(shape, SessionConfig(dtype="bfloat16", lora_rank=rank), devices=1)
            for rank in (0, ADAPTER_RANK)
        )
        fetched += (
            f"; {shape.parameters / 1e9:.2f} billion weights, which in bfloat16 take about "
            f"{whole.total_bytes / 1e9:.0f} GB of memory in all where they are trained, "
            f"{adapters.total_bytes / 1e9:.0f} GB with adapters"
        )
    return f"{fetched}; {proven_words(folder)}"


def _refuse(folder: Path, and_then: str = "") -> None:
    """Raises ModelRefused for what the files say, by file and field: loading names neither."""
    length = min(SHORTEST, positions_count(folder) or SHORTEST)
    if refusal := folder_refusal(folder, SessionConfig(max_context_length=length)):
        raise ModelRefused(f"{refusal}{and_then}")


def _files(folder: Path) -> list[Path]:
    """Its files but for hidden ones, such as caches of a download."""
    inside = (path for path in folder.rglob("*") if path.is_file())
    return sorted(
        path
        for path in inside
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _load(folder: Path) -> dict[str, Any]:
    """What loading and generating show. In processes of their own: the server has no torch, and the
    memory goes back at the end. ``generates`` is False where this machine has no engine to try it
    with."""
    done = _checked("gpu_runtime.loading.load_check", folder)
    generated = _checked("gpu_runtime.loading.generate_check", folder, passes=(0, NO_ENGINE))
    return json.loads(done.stdout.strip().splitlines()[-1]) | {
        "generates": generated.returncode == 0
    }


def _checked(
    module: str, folder: Path, passes: Sequence[int] = (0,)
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", module, str(folder)]
    try:
        done = subprocess.run(
            command, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=CHECK_S
        )
    except subprocess.TimeoutExpired:
        raise ModelRefused(f"{module} did not end after {CHECK_S:.0f} s.") from None
    if done.returncode not in passes:
        lines = done.stderr.strip().splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        raise ModelRefused((errors or lines or [f"{module} ended with {done.returncode}"])[-1])
    return done


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(READ_AT_ONCE):
            found.update(chunk)
    return found.hexdigest()
