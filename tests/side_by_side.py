"""The whole suite in three parts that run side by side: ``python tests/side_by_side.py [pytest arguments]``.

The quick tests of the parts compute and wait by turns, those of the whole loop (tests/e2e) mostly wait for servers,
clocks and browsers, and those with the real engine and trainer take what is left of the machine: one after the other
they would take nearly twice as long. Ends with the first exit status that is not 0, in this order.
"""

import os
import subprocess
import sys
import tempfile
from typing import BinaryIO

# Title, pytest's own choice of tests, and niceness: deadlines of the quick tests are in seconds.
PARTS = [
    ("The parts", ["-m", "not engine", "--ignore=tests/e2e"], 0),
    ("The whole loop", ["-m", "not engine", "tests/e2e"], 0),
    ("The real engine and trainer", ["-m", "engine"], 15),
]


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryFile() as second, tempfile.TemporaryFile() as third:
        outputs: list[BinaryIO | None] = [None, second, third]
        running = [start([*chosen, *arguments], nice, to) for (_, chosen, nice), to in zip(PARTS, outputs, strict=True)]
        try:
            for (title, _, _), process, output in zip(PARTS, running, outputs, strict=True):
                process.wait()
                if output is not None:
                    tell(title, output)
        except KeyboardInterrupt:
            for process in running:
                process.wait()  # they were interrupted too, and end what they have started
            return 130
    return next((process.returncode for process in running if process.returncode), 0)


def start(arguments: list[str], nice: int, output: BinaryIO | None) -> subprocess.Popen[bytes]:
    """A pytest of its own; what it says goes to ``output``, else to the terminal as it comes."""
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.Popen(command, stdout=output, stderr=output, preexec_fn=lambda: os.nice(nice))


def tell(title: str, output: BinaryIO) -> None:
    print(f"\n{title}:", flush=True)
    output.seek(0)
    sys.stdout.buffer.write(output.read())
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
