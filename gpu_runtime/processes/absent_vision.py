"""torchvision's place where it is not installed: vLLM's code of text models imports it and never
calls it.

The builds of torchvision for CPUs are on an index of their own, so set-up does not install it.
vLLM's modules of Qwen3.5 and of every model with a tower import image processors of transformers,
which import it at their top. Here its names exist, and say that it is not installed once they are
called. transformers asks whether it is there before that, and keeps the answer: it takes its
processors for PIL.
"""

import sys
from collections.abc import Callable
from functools import partial
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")
PACKAGE = "torchvision"
MODULES = (
    PACKAGE,
    f"{PACKAGE}.transforms",
    f"{PACKAGE}.transforms.v2",
    f"{PACKAGE}.transforms.v2.functional",
)


class _Absent:
    """Base of whatever is taken from it. Raises ImportError when it is made or called."""

    def __init__(self, *_: Any, **__: Any) -> None:
        name = type(self).__name__
        raise ImportError(
            f"{PACKAGE}, which has {name}, is not installed: images are not served here"
        )


class _Module(ModuleType):
    def __getattr__(self, name: str) -> type[_Absent]:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Absent,), {})


def vision_stand_in() -> None:
    """Before a module of vLLM's models is imported. Nothing changes where torchvision is
    installed.
    """
    if PACKAGE in sys.modules or find_spec(PACKAGE) is not None:
        return
    from transformers.utils.import_utils import is_torchvision_available

    assert not is_torchvision_available(), "it keeps this answer"
    made = {name: _Module(name) for name in MODULES}
    for name, module in made.items():
        vars(module).update(__spec__=ModuleSpec(name, None, is_package=True), __path__=[])
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(made[parent], own, module)
    sys.modules.update(made)


def inspections_stand_in() -> None:
    """Here, and for the process in which vLLM's registry looks at a model's class, before it
    does.
    """
    vision_stand_in()
    import cloudpickle  # type: ignore[import-untyped]
    from vllm.model_executor.models import registry

    start = registry._run_in_subprocess  # noqa: SLF001 - which has no public name
    if isinstance(start, partial):
        return
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # it may not find this module
    registry._run_in_subprocess = partial(_run, start)  # noqa: SLF001


def _run(start: Callable[[Callable[[], T]], T], look: Callable[[], T]) -> T:
    return start(partial(_after_stand_in, look))


def _after_stand_in(look: Callable[[], T]) -> T:
    vision_stand_in()
    return look()
