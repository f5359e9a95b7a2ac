"""Many attempts of an agent at many tasks: threads, metrics to trackers, evaluation on the way."""
