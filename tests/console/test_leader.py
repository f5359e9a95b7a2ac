"""One reconciler leads. One that was killed is followed at once by another that can see it; all
others wait.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from console.scheduling import leader
from console.scheduling.leader import PAUSE, Leadership, holder_new, leader_renew, leader_status
from console.scheduling.models import LeaderLease

pytestmark = pytest.mark.django_db


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that would lead for ever."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    yield process
    process.kill()
    process.wait(25)


def leads(holder: str, after_s: float = 0) -> bool:
    return leader_renew(holder=holder, now=timezone.now() + timedelta(seconds=after_s))


@pytest.mark.system
@pytest.mark.parametrize("collected", [False, True])
def test_a_leader_that_was_killed_is_followed_at_once_by_one_alone(process, collected) -> None:
    old, new, third = holder_new(process.pid), holder_new(), holder_new()
    assert leads(old) and not leads(new)
    process.kill()
    # it has ended; its parent may not know yet
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    if collected:
        process.wait(25)
    assert leads(new)
    assert not leads(third) and leads(new) and leader_status() is not None


@pytest.mark.system
def test_a_leader_that_is_only_slow_is_waited_for(process) -> None:
    old, new = holder_new(process.pid), holder_new()
    assert leads(old)
    assert not leads(new, after_s=9)
    assert leads(new, after_s=11)


@pytest.mark.system
def test_a_pid_that_another_process_has_by_now_does_not_keep_the_lead(process) -> None:
    place, pid, start_time, token = holder_new(process.pid).split(":")
    assert leads(f"{place}:{pid}:{int(start_time) - 1}:{token}")
    assert leads(holder_new())


@pytest.mark.parametrize("holder", ["elsewhere:999999999:1:aa", "host:1:aa", "x"])
def test_nothing_is_seen_of_a_process_of_another_machine(holder) -> None:
    assert leads(holder)
    assert not leads(holder_new(), after_s=9)
    assert leads(holder_new(), after_s=11)


def test_another_kernel_namespace_or_user_is_another_machine(monkeypatch) -> None:
    here = leader.machine_id()
    assert leader.machine_id() == here
    monkeypatch.setattr(os, "readlink", lambda _: "pid:[1]")
    other = leader.machine_id()
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert len({here, other, leader.machine_id()}) == 3


@pytest.mark.system
def test_where_the_kernel_hides_it_every_process_is_waited_for(process, monkeypatch) -> None:
    def hidden(_: str) -> str:
        raise PermissionError(13, "not here")

    monkeypatch.setattr(os, "readlink", hidden)
    assert leads(holder_new(process.pid))
    process.kill()
    process.wait(25)
    assert not leads(holder_new(), after_s=9)


@pytest.mark.system
def test_a_lead_that_was_taken_meanwhile_is_not_taken_again(process, monkeypatch) -> None:
    """Two see that the leader is gone; the slower of them finds that it is not the leader any
    more.
    """
    old, fast, slow = holder_new(process.pid), holder_new(), holder_new()
    assert leads(old)
    process.kill()
    process.wait(25)
    is_gone = leader._is_gone  # noqa: SLF001 - between its look and its move the faster one leads

    def look(holder: str) -> bool:
        monkeypatch.setattr(leader, "_is_gone", is_gone)
        assert holder == old and leads(fast)
        return is_gone(holder)

    monkeypatch.setattr(leader, "_is_gone", look)
    assert not leads(slow) and LeaderLease.objects.get().holder == fast


def test_a_lead_judges_anew_where_another_may_have_led() -> None:
    done: list[str] = []
    take_over, forget, wait = (
        partial(done.append, each) for each in ("take over", "forget", "wait")
    )
    lead = Leadership(take_over, forget, wait)
    began = timezone.now()
    paused = began + timedelta(seconds=9) + PAUSE
    assert lead.renew(began) == lead.renew(began + timedelta(seconds=9)) == lead.renew(paused)
    assert lead.judging_since == began and done == ["take over", "forget"]
    late = paused + PAUSE + timedelta(seconds=1)
    assert lead.renew(late) == late and done[2:] == ["forget"]
    LeaderLease.objects.update(holder="another", expires_at=late + PAUSE)
    assert lead.renew(late) is None and lead.keep() is None and done[3:] == ["wait"]
    after = late + 2 * PAUSE
    assert lead.renew(after) == after and done[4:] == ["take over", "forget"]


def test_what_has_to_be_done_before_it_leads_is_tried_until_it_is_done() -> None:
    done: list[str] = []

    def take_over() -> None:
        done.append("take over")
        if len(done) == 1:
            raise OSError("no device")

    lead, now = Leadership(take_over, partial(done.append, "forget"), lambda: None), timezone.now()
    with pytest.raises(OSError, match="no device"):
        lead.renew(now)
    assert lead.judging_since is None and lead.renew(now) == now
    assert done == ["take over", "take over", "forget"]
