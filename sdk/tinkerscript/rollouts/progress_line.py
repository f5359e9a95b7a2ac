"""How far a run is, on stderr."""

import sys
import time

LINE_INTERVAL_S = 10.0  # where the line cannot rewrite itself


class ProgressLine:
    """One line on stderr: it rewrites itself on a terminal, elsewhere there is one now and then."""

    def __init__(self, wanted: bool) -> None:
        self._wanted, self._rewrites = wanted, sys.stderr.isatty()
        self._next = time.monotonic() + LINE_INTERVAL_S

    def show(self, text: str) -> None:
        if not self._wanted or (not self._rewrites and time.monotonic() < self._next):
            return
        self._next = time.monotonic() + LINE_INTERVAL_S
        sys.stderr.write(f"\r\x1b[K{text}" if self._rewrites else f"{text}\n")
        sys.stderr.flush()

    def end(self, *texts: str) -> None:
        if self._wanted:
            said = "\n".join(text for text in texts if text)
            sys.stderr.write(f"\r\x1b[K{said}\n" if self._rewrites else f"{said}\n")
