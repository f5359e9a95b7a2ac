"""The GPU tier: skipped, with the reason, where torch sees no CUDA device."""

import pytest
import torch


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):  # not the keyword, which is this folder's name too
            item.add_marker(pytest.mark.skip(reason="torch sees no CUDA device on this machine"))


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    from support.tiny_model import tiny_model_make

    return tiny_model_make(tmp_path_factory.mktemp("tiny"))
