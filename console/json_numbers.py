"""Numbers that JSON objects of the database have under names that others chose."""

from typing import Any

from django.db.models import Expression, FloatField, Func, Value


class NumberOf(Func):
    """The number under a name of a JSON object; NULL where it has none.

    Django's KeyTransform is not it: it takes a name such as "7" for a place in an array.
    """

    output_field = FloatField()

    def __init__(self, of: str | Expression, name: str) -> None:
        super().__init__(of, Value(name))

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, Any]:
        # A path would not find a name with a quotation mark.
        template = "(SELECT json_each.value FROM json_each(%(expressions)s)"
        joiner = ") WHERE json_each.key = "
        return self.as_sql(compiler, connection, template=template, arg_joiner=joiner, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, Any]:
        template = "(%(expressions)s)::double precision"
        return self.as_sql(compiler, connection, template=template, arg_joiner=" ->> ", **context)
