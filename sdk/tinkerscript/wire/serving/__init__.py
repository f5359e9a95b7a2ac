"""Messages of sessions that serve a model."""
