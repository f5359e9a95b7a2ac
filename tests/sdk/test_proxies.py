"""The proxy variables of a person's environment: each value works, or is one sentence with its
name."""

import pytest

from tinkerscript import InvalidRequest
from tinkerscript.connection import proxies
from tinkerscript.connection.http_client import HttpOptions, http_client_for, proxy_of

FAR, V6, V4 = "https://lab.example.org", "http://[fd00::7]:8000", "http://10.1.2.3:8000"
PROXY = "http://proxy.test:3128"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for kind in ("http", "https", "all", "no"):
        for name in (f"{kind}_proxy", f"{kind}_proxy".upper()):
            monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("no_proxy", "url", "goes_past"),
    [
        ("localhost,[::1]", FAR, False),
        ("localhost, ::1 ,127.0.0.1", FAR, False),
        ("*", FAR, True),
        ("example.org", FAR, True),
        (".example.org", FAR, True),
        ("*.example.org", FAR, True),
        ("ample.org", FAR, False),
        ("LAB.example.org:443", FAR, True),
        ("lab.example.org:8443", FAR, False),
        ("10.0.0.0/8", V4, True),
        ("192.168.0.0/16", V4, False),
        ("10.1.2.3:8000", V4, True),
        ("10.0.0.0/8", FAR, False),
        ("fd00::/8", V6, True),
        ("[fd00::]/8", V6, True),
        ("[fd00::7]", V6, True),
        ("[fd00::7]:8000", V6, True),
        ("[fd00::7]:1", V6, False),
        ("[::", FAR, False),
        (",, ,", FAR, False),
    ],
)
def test_no_proxy_is_read_whatever_is_in_it(
    environment: pytest.MonkeyPatch, no_proxy: str, url: str, goes_past: bool
) -> None:
    environment.setenv("ALL_PROXY", PROXY)
    environment.setenv("NO_PROXY", no_proxy)
    assert proxy_of(url, HttpOptions()) == (None if goes_past else PROXY)
    http_client_for(url).close()


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("socks4://proxy.test:1080", "a proxy of socks4 cannot be used"),
        ("ftp://proxy.test", "a proxy of ftp cannot be used"),
        ("http://[::1", "is not the address of a proxy"),
        ("http://", "is not the address of a proxy"),
        ("http://joe:secret@proxy.test:99999", "is not the address of a proxy"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_named(
    environment: pytest.MonkeyPatch, name: str, value: str, why: str
) -> None:
    environment.setenv(name, value)
    with pytest.raises(InvalidRequest) as caught:
        http_client_for(FAR)
    assert str(caught.value).startswith(name) and why in str(caught.value)
    assert "secret" not in f"{caught.value} {caught.value.hint}"


def test_socks_works_where_its_package_is_and_is_named_where_not(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("ALL_PROXY", "socks5://joe:secret@proxy.test:1080")
    environment.setattr(proxies.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        InvalidRequest, match="ALL_PROXY is socks5://proxy.test:1080: a SOCKS proxy needs"
    ) as caught:
        http_client_for(FAR)
    assert "httpx[socks]" in caught.value.hint
    environment.setattr(proxies.importlib.util, "find_spec", lambda name: name)
    assert proxy_of(FAR, HttpOptions()) == "socks5://proxy.test:1080"


@pytest.mark.parametrize(
    ("value", "proxy"),
    [
        ("proxy.test:3128", PROXY),
        ("http://joe:p%40ss@proxy.test:3128", PROXY),
        ("http://[::1]:3128", "http://[::1]:3128"),
    ],
)
def test_a_proxy_is_taken_in_each_way_that_it_is_written(
    environment: pytest.MonkeyPatch, value: str, proxy: str
) -> None:
    environment.setenv("HTTPS_PROXY", value)
    assert proxy_of(FAR, HttpOptions()) == proxy
    http_client_for(FAR).close()


def test_a_network_that_is_none_is_named(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ALL_PROXY", PROXY)
    environment.setenv("NO_PROXY", "10.0.0.0/99")
    with pytest.raises(InvalidRequest, match="NO_PROXY has '10.0.0.0/99'"):
        http_client_for(FAR)
