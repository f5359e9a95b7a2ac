"""Settings of tests over generated data."""

from hypothesis import HealthCheck, settings

SLOW, FIXTURE = HealthCheck.too_slow, HealthCheck.function_scoped_fixture
# Without the deadline of 200 ms an example and the limit to the time of making one: a busy machine
# is no defect. The same examples in every run: what one example in thousands breaks is red at once.
any_speed = settings(derandomize=True, deadline=None, suppress_health_check=[SLOW])
# For a test whose examples may share what a fixture of the test made.
any_speed_shared = settings(any_speed, suppress_health_check=[SLOW, FIXTURE])
