"""Draining: nothing starts, and what runs saves its state and is suspended, so that the machine can
be worked on.
"""

from console.scheduling.models import Drain


def drain_begin() -> None:
    """From the next tick on. Again changes nothing."""
    Drain.objects.get_or_create(id=1)


def drain_end() -> None:
    """Sessions start again; those that were suspended wake at their next request, as always."""
    Drain.objects.all().delete()


def is_draining() -> bool:
    """Whether a drain was begun and not ended."""
    return Drain.objects.exists()
