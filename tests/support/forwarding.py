"""Policies of the forwarder under which no test waits."""

from dataclasses import replace
from typing import Any

import pytest

from api.forward import POLICIES


def policies_set(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Each policy with these changes, and a look each hundredth of a second."""
    for name, policy in list(POLICIES.items()):
        monkeypatch.setitem(POLICIES, name, replace(policy, poll_s=0.01, **changes))
