"""The table of dialects: where each is called, and what its errors look like.

The server's path of a call is a prefix and the gateway's path.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .error_bodies import Refusal, anthropic_error_body, openai_error_body

# Before the paths of every dialect, for the key of an episode and for an API key.
PREFIX_OF_ALL = "/openai"


@dataclass(frozen=True)
class DialectRow:
    """One dialect. ``prefix`` stands before its own paths alone, for an API key.

    ``root`` is how its paths begin at the gateway; the row with the longest root has a path.
    ``paths`` take POST with either key, ``of_episodes`` are reached with an episode's alone.
    ``error_event`` stands before the data of the last event of a stream that fails.
    ``capabilities`` are its names in ``GET /v1/server``.
    """

    prefix: str
    root: str
    paths: tuple[str, ...]
    capabilities: tuple[str, ...]
    error_body: Callable[[Refusal], dict[str, Any]]
    error_event: bytes = b""
    of_episodes: tuple[str, ...] = ()


OPENAI = DialectRow(
    prefix="/oai/api",
    root="/v1/",
    paths=(
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/responses/input_tokens",
        "/v1/tokenize",
        "/v1/detokenize",
    ),
    capabilities=("openai.chat", "openai.completions", "openai.responses"),
    error_body=openai_error_body,
    # Without /v1/ where vLLM's server has them, and lm-eval looks.
    of_episodes=("/v1/tokenizer_info", "/tokenizer_info", "/tokenize", "/detokenize"),
)
ANTHROPIC = DialectRow(
    prefix="/anthropic/api",
    root="/v1/messages",
    paths=("/v1/messages", "/v1/messages/count_tokens"),
    capabilities=("anthropic.messages",),
    error_body=anthropic_error_body,
    error_event=b"event: error\n",
)
DIALECTS = (OPENAI, ANTHROPIC)

PREFIXES = tuple(dict.fromkeys((PREFIX_OF_ALL, *(row.prefix for row in DIALECTS))))
# Of the gateway; the relay passes on these, and what is below /v1/.
BESIDE_V1 = frozenset(
    path
    for row in DIALECTS
    for path in (*row.paths, *row.of_episodes)
    if not path.startswith("/v1/")
)


def prefix_of(path: str) -> str | None:
    """The prefix that a path of the server is, or is below; None where no dialect is called."""
    return next(
        (prefix for prefix in PREFIXES if path == prefix or path.startswith(f"{prefix}/")), None
    )


def paths_below(prefix: str) -> tuple[str, ...]:
    """The gateway's paths that an API key reaches below ``prefix``."""
    return tuple(path for row in _rows(prefix) for path in row.paths)


def dialect_at(path: str) -> DialectRow | None:
    """The dialect of a path of the gateway; None where the path is not of a dialect."""
    return _longest(DIALECTS, path)


def dialect_of(path: str) -> DialectRow:
    """The dialect in which a request for ``path`` is refused, of the server or of the gateway: of a
    path that is not there, the first below its prefix.
    """
    prefix = prefix_of(path) or PREFIX_OF_ALL
    rows = _rows(prefix)
    return _longest(rows, path.removeprefix(prefix)) or rows[0]


def _rows(prefix: str) -> list[DialectRow]:
    return [row for row in DIALECTS if prefix in (row.prefix, PREFIX_OF_ALL)]


def _longest(rows: Sequence[DialectRow], path: str) -> DialectRow | None:
    found = [row for row in rows if path.startswith(row.root)]
    return max(found, key=lambda row: len(row.root), default=None)
