"""vLLM's modules of models with a tower are imported where torchvision is not installed."""

import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from gpu_runtime.processes import absent_vision
from gpu_runtime.processes.absent_vision import (
    MODULES,
    PACKAGE,
    inspections_stand_in,
    vision_stand_in,
)


@pytest.fixture
def without_torchvision(monkeypatch):
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(
        absent_vision, "find_spec", lambda name: None if name == PACKAGE else find_spec(name)
    )
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.skipif(find_spec(PACKAGE) is not None, reason="transformers has found the real one")
def test_what_only_imports_torchvision_is_imported_and_what_calls_it_is_told(
    without_torchvision,
) -> None:
    vision_stand_in()
    from torchvision.transforms.v2 import functional

    with pytest.raises(ImportError, match="torchvision, which has resize, is not installed"):
        functional.resize(None, size=[1, 1])
    modules = {name: sys.modules[name] for name in MODULES}
    vision_stand_in()
    assert {name: sys.modules[name] for name in MODULES} == modules


def test_nothing_stands_in_for_a_torchvision_that_is_there(
    monkeypatch, without_torchvision
) -> None:
    monkeypatch.setattr(absent_vision, "find_spec", lambda _: object())
    vision_stand_in()
    assert PACKAGE not in sys.modules


def test_the_process_that_looks_at_a_class_has_the_stand_in_first(monkeypatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(absent_vision, "vision_stand_in", lambda: done.append("stand-in"))
    registry = SimpleNamespace(_run_in_subprocess=lambda work: work())
    monkeypatch.setitem(
        sys.modules, "vllm.model_executor.models", SimpleNamespace(registry=registry)
    )
    inspections_stand_in()
    inspections_stand_in()
    registry._run_in_subprocess(lambda: done.append("look"))  # noqa: SLF001 - vLLM's, without a public name
    assert done == ["stand-in", "stand-in", "stand-in", "look"]
