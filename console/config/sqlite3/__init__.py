"""Django's database backend for SQLite, which keeps its connections."""
