"""What web processes count: in memory while one serves, in Redis where several do."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from allauth.core import ratelimit
from django.core.exceptions import ImproperlyConfigured
from django.test import RequestFactory

from console.config.database import caches, web_processes_read
from console.server.tally import Tally
from console.server.web_processes import web_names


def test_parallel_failed_sign_ins_are_all_counted(settings) -> None:
    settings.CACHES = caches("")
    settings.ACCOUNT_RATE_LIMITS = {"login_failed": "5/300s/key"}
    request = RequestFactory().post("/")

    def consume(_: int) -> bool:
        return ratelimit.consume(request, action="login_failed", key="a@example.com")

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(consume, range(16))) <= 5
    assert not consume(0)


def test_a_tally_counts_by_who_has_it_and_forgets_who_has_nothing_left() -> None:
    calls = Tally()
    assert calls.count("a", 2) == (2, 2)
    assert calls.count("b", 1) == (1, 3)
    assert calls.count("a", -2) == (0, 1)
    assert dict(calls) == {"b": 1}


def test_several_web_processes_need_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINKERSCRIPT_WEB_PROCESSES", raising=False)
    assert web_processes_read("") == web_processes_read("redis://127.0.0.1") == 1
    monkeypatch.setenv("TINKERSCRIPT_WEB_PROCESSES", "2")
    assert web_processes_read("redis://127.0.0.1") == 2
    with pytest.raises(ImproperlyConfigured, match="TINKERSCRIPT_WEB_PROCESSES=2 needs REDIS_URL"):
        web_processes_read("")


def test_each_web_process_has_a_name(settings) -> None:
    settings.WEB_PROCESSES = 3
    assert web_names() == ["web", "web-2", "web-3"]
