"""``python -m gpu_runtime.training.nodes.remote_main``: what is started on another node for each
rank.
"""

import os
import signal

from gpu_runtime.processes.exit_report import errors_captured

from .line import RankLine


def main() -> None:
    """Be the rank that the runtime's first message describes, until the runtime goes away."""
    os.umask(0o077)
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # a notice is for the runtime, which ends its ranks (health/notice.py)
    # Stacks are read by pid, on the runtime's node.
    os.environ.pop("TINKERSCRIPT_RUNTIME_DIR", None)
    incoming, outgoing = os.dup(0), os.dup(1)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # what a library prints belongs in the log
    with errors_captured():
        line = RankLine(incoming, outgoing)
        run, spec = line.recv()
        run(line, spec)


if __name__ == "__main__":
    main()
