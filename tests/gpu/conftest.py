"""The GPU tier: skipped, with the reason, where torch sees no CUDA device.

With TESTS_GPU_SMOKE=1 the tests that take ``device`` run on the CPU instead: `make gpu`'s smoke
(correctness.py).
"""

import os

import pytest
import torch

IS_SMOKE = os.environ.get("TESTS_GPU_SMOKE") == "1"


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available() and not IS_SMOKE:
        return
    for item in items:
        # By the marker and not the keyword, which is this folder's name too.
        if item.get_closest_marker("gpu") and not (IS_SMOKE and "device" in item.fixturenames):
            item.add_marker(pytest.mark.skip(reason="torch sees no CUDA device on this machine"))


@pytest.fixture(scope="session")
def device():
    """Where the tested half runs. What it is compared with is on the CPU."""
    return "cpu" if IS_SMOKE else "cuda"


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    from support.tiny_model import tiny_model_make

    return tiny_model_make(tmp_path_factory.mktemp("tiny"))
