"""What every repetition would meet ends a session at once; what passes is tried again."""

import errno
import json
import logging
import ssl
from pathlib import Path

import jinja2
import pytest
from safetensors import SafetensorError

from gpu_runtime.errors import (
    EngineDead,
    InputUnusable,
    ModelUnsupported,
    StoreUnavailable,
    TrainerKilled,
)
from gpu_runtime.failures.core_errors import core_errors_forget, core_errors_keep, core_input_error
from gpu_runtime.failures.final_cause import final_cause
from gpu_runtime.failures.input_errors import is_of_input
from gpu_runtime.training.rank_process import kind_of


@pytest.mark.parametrize(
    "error",
    [
        ValueError("temperature is set and do_sample is not"),
        json.JSONDecodeError("no JSON", "x", 0),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text"),
        KeyError("hidden_size"),
        AttributeError("'list' object has no attribute 'get'"),
        ZeroDivisionError("integer modulo by zero"),
        FileNotFoundError(errno.ENOENT, "no such file", "model-00002-of-00002.safetensors"),
        PermissionError(errno.EACCES, "not readable"),
        OSError("the folder does not appear to have a file named tokenizer.json"),
        SafetensorError("incomplete metadata, file not fully covered"),
        jinja2.TemplateSyntaxError("unexpected end", 1),
        RuntimeError("Unsupported head size: 72"),
        RuntimeError("Error(s) in loading state_dict: size mismatch for lm_head.weight"),
        # transformers 5
        RuntimeError("You set `ignore_mismatched_sizes` to `False`, thus raising an error."),
    ],
    ids=lambda error: f"{type(error).__name__} {error}"[:50],
)
def test_an_error_of_the_input_is_not_repeated(error: Exception) -> None:
    assert is_of_input(error)
    assert kind_of(error) == "of_input"
    assert final_cause(error, is_start=True) == f"{type(error).__name__}: {error}"
    assert final_cause(error, is_start=False) is None, "of one call, as far as this process knows"


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError("reset"),
        TimeoutError("no answer"),
        # a number that is EPERM's, of another list
        ssl.SSLError(ssl.SSL_ERROR_SSL, "bad record mac"),
        OSError(errno.EIO, "input/output error"),
        OSError(errno.ENOMEM, "no memory"),
        RuntimeError("connection closed by peer"),
        StoreUnavailable("away"),
        TrainerKilled("trainer rank 0 was killed"),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_passes_is_tried_again(error: Exception) -> None:
    assert not is_of_input(error)
    assert final_cause(error, is_start=True) is None


def test_full_disk_and_memory_are_told_apart_from_the_input() -> None:
    assert kind_of(OSError(errno.ENOSPC, "no space")) == "disk_full"
    assert kind_of(MemoryError()) == "out_of_memory"


def test_final_faults_end_a_session_at_any_time() -> None:
    assert final_cause(ModelUnsupported("72"), is_start=False) == "72"
    assert final_cause(InputUnusable("x"), is_start=False) == "x"


def test_an_engine_that_ended_is_judged_by_its_own_last_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_RPC_BASE_PATH", str(tmp_path))
    logger = logging.getLogger("vllm.v1.engine.core")
    before = list(logger.handlers)
    core_errors_keep()
    try:
        dead = EngineDead("the engine's process ended with exit code 1")
        assert final_cause(dead, is_start=True) is None
        for error, cause in [
            (
                RuntimeError("Unsupported head size: 72"),
                "the engine: RuntimeError: Unsupported head size: 72",
            ),
            (ConnectionResetError("reset"), None),
        ]:
            try:
                raise error
            except (RuntimeError, OSError):
                logger.exception("EngineCore encountered a fatal error.")
            assert final_cause(dead, is_start=False) == cause
        core_errors_forget()
        assert core_input_error() is None
    finally:
        logger.handlers = before
