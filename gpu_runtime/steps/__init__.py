"""A step on one batch: its updates, and what is recorded where one is refused."""
