"""A row of the table of routes."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from api.rest.parsing import Query
from api.rest.permissions import RequireLease, RequireScope, RequireShare

PARAMETER = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Route:
    """``body`` and ``query`` are the types that the view takes; ``run`` is the view and all that the row asks for."""

    method: str
    path: str
    view: Callable[..., Any]
    access: RequireScope | RequireLease | RequireShare
    result: type[BaseModel] | None
    status: int
    once: bool
    body: type[BaseModel] | None
    query: type[Query] | None
    run: Callable[..., Any]
    is_large: bool = False  # its body may be as long as the server takes any

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.view)

    @property
    def ids(self) -> list[str]:
        """The names in the path."""
        return PARAMETER.findall(self.path)
