"""Numbers that JSON objects of the database have under names that others chose."""

import json
from typing import Any

from django.db.models import Expression, FloatField, Func, Value


class NumberOf(Func):
    """The number under a name of a JSON object; NULL where it has none.

    Django's KeyTransform is not it: it takes a name such as "7" for a place in an array.
    """

    output_field = FloatField()

    def __init__(self, of: str | Expression, name: str) -> None:
        super().__init__(of, Value(name))
        self._name = name

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, Any]:
        path = Value(f"$.{json.dumps(self._name)}")  # written as Django writes objects
        extract = Func(self.source_expressions[0], path, function="JSON_EXTRACT")
        return extract.as_sql(compiler, connection, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, Any]:
        template = "(%(expressions)s)::double precision"
        return self.as_sql(compiler, connection, template=template, arg_joiner=" ->> ", **context)
