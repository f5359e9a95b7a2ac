"""Room in large pages: aligned, its own, given back, and in large pages after a while."""

import gc
import re
from pathlib import Path

import pytest
import torch

from gpu_runtime.native.large_pages import LINE, PAGE, REGION, LargePages
from support.waiting import wait_until

ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
SMAPS = Path("/proc/self/smaps")


def test_rooms_are_zeros_at_the_start_of_a_line_and_do_not_reach_one_another():
    pages = LargePages()
    rooms = [pages.room(rows, 3, 16) for rows in (1, 7, 40_000, 0, 2)]
    for number, room in enumerate(rooms):
        assert not room.any()
        assert room.is_contiguous()
        assert room.data_ptr() % LINE == 0
        room.fill_(number + 1)
    assert all((room == number + 1).all() for number, room in enumerate(rooms))


def test_a_room_that_no_region_holds_has_one_of_its_own():
    pages = LargePages()
    before, room, after = pages.room(16), pages.room(REGION // 4 + 1), pages.room(16)
    room.fill_(1)
    assert not before.any()
    assert not after.any()


def mapped() -> int:
    """Address space of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * 4096


@pytest.mark.system
@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(),
    reason="this system does not say what a process has mapped",
)
def test_a_region_is_given_back_with_its_last_room():
    size, pages = 1 << 30, LargePages()
    room = pages.room(size // 4)
    held = mapped()
    pages.room(REGION)  # the next region: the first is held by its room alone
    assert mapped() >= held
    del room
    gc.collect()
    assert mapped() < held - size // 2


def mapping_at(address: int) -> str:
    """What Linux says of the mapping that has this address: its part of smaps, as proc(5) has
    it.
    """
    for mapping in re.finditer(
        r"^([0-9a-f]+)-([0-9a-f]+) .*?^VmFlags: .*?$", SMAPS.read_text(), re.M | re.S
    ):
        if int(mapping[1], 16) <= address < int(mapping[2], 16):
            return mapping[0]
    raise AssertionError("nothing is mapped there")


@pytest.mark.skipif(
    not (ENABLED.exists() and SMAPS.exists()), reason="this kernel has no large pages"
)
def test_what_was_written_comes_to_lie_in_large_pages_and_stays_what_it_is():
    numbers = torch.arange(16 * PAGE // 4, dtype=torch.float32)
    room = LargePages(after_s=0.5).room(len(numbers))
    assert room.data_ptr() % PAGE == 0
    room.copy_(numbers)
    assert (
        "AnonHugePages:         0 kB" in mapping_at(room.data_ptr())
        or "[always]" in ENABLED.read_text()
    )

    def is_large() -> bool:
        """It is, or the kernel has none free now and is asked to do it once it has."""
        found = mapping_at(room.data_ptr())
        return "AnonHugePages:         0 kB" not in found or " hg" in found

    wait_until(is_large, timeout_s=30)
    assert torch.equal(room, numbers)
