"""A runtime with fake engine and trainer, and the fake control plane that it serves."""

import multiprocessing
import multiprocessing.forkserver
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from support.fake_control_plane import FakeControlPlane
from support.runtime_harness import plane_assign, running, tiny_model


@pytest.fixture(scope="session", autouse=True)
def one_thread_is_enough_for_tiny_tensors() -> None:
    """In this process: torch's threads spin while they wait for one another, which costs more than
    the sums.
    """
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session")
def warm_process() -> Iterator[multiprocessing.context.ForkServerContext]:
    """The process that has imported torch, DeepSpeed and vLLM; it starts with the first that is
    forked from it.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["support.warm_imports"])
    yield context
    multiprocessing.forkserver._forkserver._stop()  # noqa: SLF001 - nothing else ends it


@pytest.fixture(scope="module", autouse=True)
def engines_and_ranks_are_forked_from_a_warm_process(
    request: pytest.FixtureRequest,
) -> Iterator[None]:
    """Each of the many here starts ten seconds of computing sooner.

    A session spawns them. What the two ways share is all that a test can see: a process, a
    connection, an exit code.
    """
    if not any(
        item.path == request.path and item.get_closest_marker("engine")
        for item in request.session.items
    ):
        yield
        return
    context = request.getfixturevalue("warm_process")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("OMP_WAIT_POLICY", "PASSIVE")
        patch.setenv("DS_ACCELERATOR", "cpu")
        patch.setattr(multiprocessing, "get_context", lambda method=None: context)
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def runtime(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., AbstractAsyncContextManager]:
    """``runtime(plane, **options)``: a runtime of this control plane, on the same volume each
    time.
    """
    return lambda plane, **options: running(
        plane, tmp_path / "volume", model, monkeypatch, **options
    )


@pytest.fixture
def plane(model: Path) -> Iterator[FakeControlPlane]:
    """It assigns a session that trains on its own policy's episodes alone."""
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane, model, max_staleness=0)
        yield plane
