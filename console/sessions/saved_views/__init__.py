"""Ways to look at a run, kept by name."""
