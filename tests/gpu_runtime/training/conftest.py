"""Ranks are forked from a process that has imported torch and DeepSpeed: each of the many here starts seconds sooner.

A session spawns them. What the two ways share is all that a test can see: a process, a connection, an exit code.
"""

import multiprocessing
import multiprocessing.forkserver
import os
import sys
from collections.abc import Iterator

import pytest

from gpu_runtime.training import ranks


@pytest.fixture(scope="session", autouse=True)
def ranks_are_forked_from_a_warm_process() -> Iterator[None]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["support.warm_rank"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("OMP_WAIT_POLICY", "PASSIVE")
        patch.setenv("DS_ACCELERATOR", "cpu")
        patch.setattr(ranks.multiprocessing, "get_context", lambda _: context)
        yield
        multiprocessing.forkserver._forkserver._stop()  # noqa: SLF001 - nothing else ends it
