"""Arguments of the client's own methods: one of a wrong kind or size is refused by its name, before
anything is sent.

The options of a session, an episode's and an output's fields are checked by their wire types.
"""

import functools
import inspect
import math
import time
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec

from .errors import InvalidRequest

P = ParamSpec("P")


class NamedArguments:
    """A class of which a call with too few or too many arguments is refused with ``made_by``: how
    one comes about.
    """

    made_by: ClassVar[str]

    if not TYPE_CHECKING:  # type checkers read __init__

        def __new__(cls, *values: Any, **named: Any) -> "NamedArguments":
            """Raises InvalidRequest."""
            try:
                inspect.signature(cls.__init__).bind(None, *values, **named)
            except TypeError as failure:
                raise InvalidRequest(f"{cls.__name__}(): {failure}.", hint=cls.made_by) from failure
            return super().__new__(cls)


def parameters_of(
    method: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """A method that has the parameters of another ``method``: for type checkers, for help() and for
    NamedArguments.
    """
    return functools.wraps(method, assigned=(), updated=())


def check_client_options(given: Mapping[str, Any]) -> None:
    """Those of TinkerScript's own options that are in ``given``. Raises InvalidRequest."""
    for name, check in CLIENT_OPTIONS.items():
        if name in given:
            check(name, given[name])


def seconds(name: str, value: Any, *, least: float = 0.0) -> float:
    """A finite number of seconds of at least ``least``. Raises InvalidRequest."""
    if (
        isinstance(value, bool)
        or not isinstance(value, Real)
        or not math.isfinite(value)
        or value < least
    ):
        raise wrong(name, value, f"a number of seconds, {least:g} or more")
    return float(value)


def deadline_after(timeout_s: Any) -> float:
    """When a wait of ``timeout_s`` seconds is over, of time.monotonic(). Raises InvalidRequest."""
    return time.monotonic() + seconds("timeout_s", timeout_s)


def count(name: str, value: Any, *, least: int) -> int:
    """A whole number of at least ``least``. Raises InvalidRequest."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise wrong(name, value, f"a whole number, {least} or more")
    return int(value)


def path_of(name: str, value: Any) -> Path:
    """A path, with ``~`` as the home folder. Raises InvalidRequest."""
    if not isinstance(value, str | PathLike) or not str(value):
        raise wrong(name, value, "a path")
    return Path(value).expanduser()


def function_or_none(name: str, value: Any) -> None:
    """Raises InvalidRequest for what cannot be called."""
    if value is not None and not callable(value):
        raise wrong(name, value, "a function")


def reason_of(reason: Any) -> str:
    """Why an episode is given up, in words: a text, or the exception that an agent raised. Raises
    InvalidRequest.
    """
    if isinstance(reason, BaseException):
        return f"{type(reason).__name__}: {reason}".rstrip(": ")
    if not isinstance(reason, str):
        raise wrong("reason", reason, "a text or an exception")
    return reason


def wrong(name: str, value: Any, wanted: str) -> InvalidRequest:
    """The error of an argument that is not ``wanted``."""
    return InvalidRequest(f"{name} must be {wanted}, not {type(value).__name__} ({value!r:.80}).")


def _text_or_none(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise wrong(name, value, "a text")


def _id_or_none(name: str, value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise wrong(name, value, "the id of a session, such as 'ses_9f2c41d07ab3e85f'")


def _path_or_none(name: str, value: Any) -> None:
    if value is not None:
        path_of(name, value)


def _positive_seconds(name: str, value: Any) -> None:
    seconds(name, value, least=0.001)


CLIENT_OPTIONS: dict[str, Callable[[str, Any], object]] = {
    "base_url": _text_or_none,
    "api_key": _text_or_none,
    "session_id": _id_or_none,
    "wait_timeout_s": seconds,
    "begin_timeout_s": seconds,
    "retry_timeout_s": seconds,
    "timeout_s": _positive_seconds,
    "proxy": _text_or_none,
    "ca_file": _path_or_none,
    "on_progress": function_or_none,
}
