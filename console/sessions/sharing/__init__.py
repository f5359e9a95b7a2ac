"""Public links to a run: whoever has one reads the run, until it expires or is revoked."""
