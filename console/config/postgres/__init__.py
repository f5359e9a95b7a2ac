"""Django's database backend for PostgreSQL, which keeps its connections."""
