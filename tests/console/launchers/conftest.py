"""The backends of tests/launching, one engine each for the whole run."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from launching.backends import BACKENDS, Backend


@pytest.fixture(scope="session")
def backends() -> Iterator[dict[str, Backend | str]]:
    """Every backend that was asked for, or why it is not there."""
    opened: dict[str, Backend | str] = {}
    with ExitStack() as engines:
        opened["engines"] = engines  # type: ignore[assignment]
        yield opened


def backend_open(backends: dict, name: str, folder: Path) -> Backend:
    """The backend, opened once; skips with the reason where it is not there."""
    if name not in backends:
        try:
            backends[name] = backends["engines"].enter_context(BACKENDS[name]())
        except pytest.skip.Exception as reason:
            backends[name] = str(reason)
    if isinstance(backends[name], str):
        pytest.skip(backends[name])
    backend = backends[name]
    backend.folder = folder if backend.home is None else backend.home / folder.name
    return backend


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, backends: dict, tmp_path: Path) -> Iterator[Backend]:
    """Each backend in turn."""
    backend = backend_open(backends, request.param, tmp_path)
    yield backend
    backend.clear()


@pytest.fixture
def docker_backend(backends: dict, tmp_path: Path) -> Iterator[Backend]:
    backend = backend_open(backends, "docker", tmp_path)
    yield backend
    backend.clear()


@pytest.fixture
def slurm_backend(backends: dict, tmp_path: Path) -> Iterator[Backend]:
    backend = backend_open(backends, "slurm", tmp_path)
    yield backend
    backend.clear()


@pytest.fixture
def cluster_backend(backends: dict, tmp_path: Path) -> Iterator[Backend]:
    backend = backend_open(backends, "cluster", tmp_path)
    yield backend
    backend.clear()
