"""The whole suite: the quick tests, and beside them, with what they leave of the machine, those with the real engine.

``python tests/both_halves.py [pytest arguments]``: ends with the first half's exit status that is not 0. The quick half
waits much (for servers, clocks and browsers), the other computes: one after the other they take nearly twice as long.
"""

import os
import subprocess
import sys
import tempfile

LEFT_OVER = 15  # niceness of the half that may wait: deadlines of the quick tests are in seconds


def main(arguments: list[str]) -> int:
    pytest = [sys.executable, "-m", "pytest", *arguments]
    with tempfile.TemporaryFile() as said:
        engine = subprocess.Popen(
            [*pytest, "-m", "engine"], stdout=said, stderr=subprocess.STDOUT, preexec_fn=lambda: os.nice(LEFT_OVER)
        )
        try:
            quick = subprocess.run([*pytest, "-m", "not engine"]).returncode
            print("\nThe half with the real engine and trainer:", flush=True)
            engine.wait()
        except KeyboardInterrupt:
            engine.wait()  # it was interrupted too, and ends what it has started
            return 130
        said.seek(0)
        sys.stdout.flush()
        sys.stdout.buffer.write(said.read())
    return quick or engine.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
