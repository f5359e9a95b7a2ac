"""Alerts: what a person should look at in a run, found as it is recorded."""
