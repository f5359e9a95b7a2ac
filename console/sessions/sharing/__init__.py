"""Public links to a run: anyone who has one reads the run, until it expires or is revoked."""
