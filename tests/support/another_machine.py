"""A network namespace as another machine: programs in it reach one address of this one, and nothing
else.
"""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest


class AnotherMachine:
    """``address`` is this machine's, as the other one reaches it."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address

    def run(
        self, command: list[str], *, timeout_s: float, env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a program there."""
        there = ["ip", "netns", "exec", self.name, *command]
        return subprocess.run(
            there, env=dict(env), capture_output=True, text=True, timeout=timeout_s
        )


@contextmanager
def another_machine() -> Iterator[AnotherMachine]:
    """One that is there until the block ends. Skips the test where namespaces cannot be made.

    What listens on this machine's loopback, the store above all, is out of its reach, and so is
    every name.
    """
    if os.getuid() or not shutil.which("ip"):
        pytest.skip("a network namespace of its own needs root and `ip`")
    tag = secrets.token_hex(3)
    name, here, there = f"tst-{tag}", f"h{tag}", f"n{tag}"
    net = f"10.{213 + int(tag[0], 16)}.{int(tag[1:3], 16)}"
    if _ip("netns", "add", name).returncode:
        pytest.skip("network namespaces cannot be made here")
    try:
        _do("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        _do("addr", "add", f"{net}.1/30", "dev", here)
        _do("link", "set", here, "up")
        _do("-n", name, "addr", "add", f"{net}.2/30", "dev", there)
        _do("-n", name, "link", "set", there, "up")
        _do("-n", name, "link", "set", "lo", "up")
        yield AnotherMachine(name, f"{net}.1")
    finally:
        _ip("link", "del", here)
        _ip("netns", "del", name)


def _ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=60)


def _do(*arguments: str) -> None:
    made = _ip(*arguments)
    assert made.returncode == 0, made.stderr
