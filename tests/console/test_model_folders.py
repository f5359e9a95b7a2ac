"""The files of a base model are looked at for each session, and read anew only once they are
others.
"""

import json
import os
from pathlib import Path

from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.model_refusals import folder_refusal

CONFIG = SessionConfig(max_context_length=128)


def tokenizer_write(folder: Path, *ids: int) -> None:
    vocabulary = {f"token {number:06d}": number for number in ids}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))


def test_a_tokenizer_is_read_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["A"], "vocab_size": 10}))
    assert folder_refusal(tmp_path, CONFIG) is None, "no tokenizer says nothing"
    tokenizer_write(tmp_path, 7, 8)
    assert folder_refusal(tmp_path, CONFIG) is None
    at = (tmp_path / "tokenizer.json").stat().st_mtime_ns
    # As the file system tells it, it is the same file: no megabytes are read for it.
    with (tmp_path / "tokenizer.json").open("r+b") as file:
        file.write(b"?")
    os.utime(tmp_path / "tokenizer.json", ns=(at, at))
    assert folder_refusal(tmp_path, CONFIG) is None
    tokenizer_write(tmp_path, 7, 8, 10)
    assert "vocab_size is 10" in (folder_refusal(tmp_path, CONFIG) or "")
    (tmp_path / "tokenizer.json").unlink()
    assert folder_refusal(tmp_path, CONFIG) is None


def test_one_that_is_replaced_by_another_of_the_same_length_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["A"], "vocab_size": 10}))
    tokenizer_write(tmp_path, 7)
    assert folder_refusal(tmp_path, CONFIG) is None
    at = (tmp_path / "tokenizer.json").stat().st_mtime_ns
    (tmp_path / "other").mkdir()
    tokenizer_write(tmp_path / "other", 7)
    text = (tmp_path / "other" / "tokenizer.json").read_text().replace(" 7}", "99}")
    assert len(text) == (tmp_path / "tokenizer.json").stat().st_size
    (tmp_path / "other" / "tokenizer.json").write_text(text)
    os.utime(tmp_path / "other" / "tokenizer.json", ns=(at, at))
    (tmp_path / "other" / "tokenizer.json").replace(tmp_path / "tokenizer.json")
    assert "up to 99" in (folder_refusal(tmp_path, CONFIG) or "")
