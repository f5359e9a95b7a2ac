"""How a program of the ``tinker`` client may end."""

import re
import signal

# with its line of source
WARNING = re.compile(r"^\S+:\d+: \w*Warning: .*\n(?:  .*\n)?", re.MULTILINE)
ABORT_AT_EXIT = -signal.SIGABRT  # after its last line: see ended_well


def ended_well(returncode: int, stderr: str | bytes) -> bool:
    """Whether it did its work: status 0, or the client's own abort at exit, which writes nothing.

    Warnings of Python count as nothing.

    The client's HTTP library (pyqwest) has threads that may take the interpreter's lock while the
    interpreter ends. Before Python 3.14 such a thread is unwound through Rust, and the process
    aborts after its work and its output (5 of 240 programs that ended with requests under way, none
    of 160 with httpx alone). No server can prevent that.
    """
    text = stderr.decode(errors="replace") if isinstance(stderr, bytes) else stderr
    return returncode == 0 or (returncode == ABORT_AT_EXIT and not WARNING.sub("", text).strip())
