"""What several modules of these tests share."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.reconciler_world import World


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch) -> "World":
    """A reconciler with a launcher of ours, whose clock is everybody's. Modules with another world
    have their own.
    """
    from django.utils import timezone

    from support.reconciler_world import World

    world = World()
    monkeypatch.setattr(timezone, "now", lambda: world.now)
    return world
