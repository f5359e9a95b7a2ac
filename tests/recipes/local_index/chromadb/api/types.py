"""What a query returns."""

QueryResult = dict[str, list[list[str]]]
