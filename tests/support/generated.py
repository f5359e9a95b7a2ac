"""Settings of tests over generated data."""

from hypothesis import HealthCheck, settings

# Without the deadline of 200 ms an example and the limit to the time of making one: a busy machine is no defect.
any_speed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
