"""Programs that a test starts: whatever becomes of the test, they are killed and waited for, for a
limited time.
"""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

END_WAIT_S = 25.0


@contextmanager
def child_process(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """``command`` in ``folder``, its output in pipes. Killed at the end where it still runs."""
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield child
    finally:
        child.kill()
        # what a child of its own may hold open is not read to its end
        for pipe in (child.stdout, child.stderr):
            pipe.close()
        child.wait(END_WAIT_S)
