"""One line of JSON per log record, so that a person can read it and a machine can filter it."""

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

_bound: ContextVar[MappingProxyType[str, str]] = ContextVar(
    "log_names", default=MappingProxyType({})
)

# What Django is to be told of logs.
JSON_LINES: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "console.server.logs.JsonFormatter"}},
    "filters": {"expected_refusals": {"()": "console.server.logs.ExpectedRefusals"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "django": {"handlers": [], "propagate": True},
        "django.request": {"filters": ["expected_refusals"]},
        "uvicorn": {"level": "WARNING"},
        "botocore": {"level": "WARNING"},
        "boto3": {"level": "WARNING"},
    },
}


def logs_bind(**names: str) -> None:
    """Name what this task works on (``request_id``, ``session_id``): every line that it logs from
    now on carries them.

    So do the tasks and threads that it starts.
    """
    _bound.set(MappingProxyType({**_bound.get(), **names}))


def refusal_expect(request: Any, *, level: int = logging.INFO) -> None:
    """Log the line of ``request``, which is refused for a reason outside this server, at
    ``level``.
    """
    request.refusal_level = level


class ExpectedRefusals(logging.Filter):
    """Django logs every status of 500 and above as an error; a 503 that says "ask again in a
    moment" is none.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        level = getattr(getattr(record, "request", None), "refusal_level", None)
        if level is not None and not record.exc_info:
            record.levelno, record.levelname = level, logging.getLevelName(level)
        return True


class JsonFormatter(logging.Formatter):
    """Time, level, logger, message, which session and request (bound, or given as ``extra``), the
    traceback if any.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        bound = _bound.get()
        for name in ("session_id", "request_id"):
            if value := getattr(record, name, None) or bound.get(name):
                line[name] = value
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
