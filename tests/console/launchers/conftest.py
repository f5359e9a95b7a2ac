"""The places of tests/launching, one engine each for the whole run."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from launching.places import PLACES, Place


@pytest.fixture(scope="session")
def places() -> Iterator[dict[str, Place | str]]:
    """Every place that was asked for, or why it is not there."""
    opened: dict[str, Place | str] = {}
    with ExitStack() as engines:
        opened["engines"] = engines  # type: ignore[assignment]
        yield opened


def place_open(places: dict, name: str, folder: Path) -> Place:
    """The place, opened once; skips with the reason where it is not there."""
    if name not in places:
        try:
            places[name] = places["engines"].enter_context(PLACES[name]())
        except pytest.skip.Exception as reason:
            places[name] = str(reason)
    if isinstance(places[name], str):
        pytest.skip(places[name])
    place = places[name]
    place.folder = folder if place.home is None else place.home / folder.name
    return place


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, places: dict, tmp_path: Path) -> Iterator[Place]:
    """Each place in turn."""
    place = place_open(places, request.param, tmp_path)
    yield place
    place.clear()


@pytest.fixture
def docker_place(places: dict, tmp_path: Path) -> Iterator[Place]:
    place = place_open(places, "docker", tmp_path)
    yield place
    place.clear()


@pytest.fixture
def slurm_place(places: dict, tmp_path: Path) -> Iterator[Place]:
    place = place_open(places, "slurm", tmp_path)
    yield place
    place.clear()


@pytest.fixture
def cluster_place(places: dict, tmp_path: Path) -> Iterator[Place]:
    place = place_open(places, "cluster", tmp_path)
    yield place
    place.clear()
