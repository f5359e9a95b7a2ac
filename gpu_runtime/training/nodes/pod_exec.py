"""``python -m gpu_runtime.training.nodes.pod_exec ADDRESS``: a rank in another pod, as ``srun`` has
one elsewhere.

Its standard input, output and error are those of the rank, and its exit code is the rank's: 128 and
the number for a signal, LOST where the pod went away first. A pod that is not reached is tried
until this process is ended.
"""

import asyncio
import os
import socket
import sys

from .pods import CODE, ERRORS, FRAME, LOST, RUN, pod_reach, pump


async def run(address: str) -> int:
    """The exit code."""
    far_reader, far_writer = await pod_reach(address, RUN)
    near_reader, near_writer = await asyncio.open_connection(sock=socket.socket(fileno=os.dup(0)))
    commands = asyncio.create_task(pump(near_reader, far_writer))
    outputs = asyncio.create_task(_outputs(far_reader, near_writer))
    await asyncio.wait({commands, outputs}, return_when=asyncio.FIRST_COMPLETED)
    if not outputs.done() and commands.exception() is None:
        return 0  # the runtime closed its end, and nobody waits for a result
    try:
        return await outputs
    except (OSError, EOFError):
        return LOST


async def _outputs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """Pass on what the rank writes, up to its exit code. Raises OSError or EOFError where the line
    ends before.
    """
    while True:
        kind, length = FRAME.unpack(await reader.readexactly(FRAME.size))
        data = await reader.readexactly(length)
        if kind == CODE:
            return data[0]
        if kind == ERRORS:
            sys.stderr.buffer.write(data)
            sys.stderr.buffer.flush()
        else:
            writer.write(data)
            await writer.drain()


if __name__ == "__main__":
    result = asyncio.run(run(sys.argv[1]))
    sys.exit(result)
