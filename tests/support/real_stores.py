"""The two real object stores that tests of the store run with."""

import pytest

REAL_STORES = (
    pytest.param("seaweedfs", marks=pytest.mark.system),
    pytest.param("swift", marks=(pytest.mark.system, pytest.mark.swift)),
)
# A test of what the store itself does: not with the one in this process.
real_stores = pytest.mark.parametrize("s3", REAL_STORES, indirect=True)
