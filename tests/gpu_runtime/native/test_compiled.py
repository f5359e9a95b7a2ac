"""Kernels in C: compiled once for a processor, kept for their user alone, and not needed where
there is no compiler.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpu_runtime.native import compiled as module
from gpu_runtime.native.compiled import SOURCES, compiled, is_suited, kernels_compile

NAMES = sorted(path.stem for path in SOURCES.glob("*.c"))


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path) -> Path:
    """Where libraries are kept, empty."""
    folder = tmp_path / "compiled"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
    compiled.cache_clear()
    yield folder
    compiled.cache_clear()


@pytest.mark.system
@pytest.mark.parametrize("name", NAMES)
def test_a_library_is_compiled_once_and_kept_for_its_user_alone(monkeypatch, folder, name):
    assert compiled(name) is not None
    compiled.cache_clear()
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("compiled again"))
    assert compiled(name) is not None
    (kept,) = folder.iterdir()
    assert kept.stat().st_mode & 0o077 == 0 or kept.parent.stat().st_mode & 0o077 == 0


@pytest.mark.system
@pytest.mark.parametrize("suited", [True, False])
def test_all_are_compiled_beforehand_where_the_processor_is_theirs(monkeypatch, folder, suited):
    monkeypatch.setattr(module, "is_suited", lambda: suited and is_suited())
    kernels_compile()
    kept = [path.name.rpartition("-")[0] for path in folder.iterdir()] if folder.exists() else []
    assert sorted(kept) == (NAMES if suited and is_suited() else [])


@pytest.mark.system
@pytest.mark.parametrize("side", [8, 16])
@pytest.mark.parametrize("name", NAMES)
def test_the_compiler_has_nothing_to_warn_of(tmp_path, name, side):
    level = 4 if side == 16 else 3
    processor = (f"-march=x86-64-v{level}", f"-DSIDE={side}", "-fopenmp")
    command = ["cc", "-O3", *processor, "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}", "-c"]
    subprocess.run(
        [*command, str(SOURCES / f"{name}.c"), "-o", str(tmp_path / "made.o")], check=True
    )


@pytest.mark.system
@pytest.mark.parametrize("changed", ["packed_linear.c", "panels.h"])
def test_another_source_has_a_library_of_its_own(monkeypatch, tmp_path, folder, changed):
    sources = Path(shutil.copytree(SOURCES, tmp_path / "sources"))
    monkeypatch.setattr(module, "SOURCES", sources)
    assert compiled("packed_linear") is not None
    compiled.cache_clear()
    (sources / changed).write_text((sources / changed).read_text() + "\n")
    assert compiled("packed_linear") is not None
    assert len(list(folder.iterdir())) == 2


@pytest.mark.system
@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_compiler_there_is_none_and_the_log_reports_it(monkeypatch, caplog, compiler):
    monkeypatch.setenv("CC", compiler)
    assert compiled("tree_attention") is None
    assert "tree_attention computes more slowly" in caplog.text


def test_a_compiler_that_hangs_is_given_up(monkeypatch):
    def run(*_, timeout, **__):
        raise subprocess.TimeoutExpired("cc", timeout)

    monkeypatch.setattr(subprocess, "run", run)
    assert compiled("packed_linear") is None
    assert not list(Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).glob("*"))
