"""Tries a grammar that is new in a process that may be ended, before the engine is given it.

A few words of a schema, a pattern or a grammar can ask for minutes of work, to compile it or at
each token; which do cannot be read off them. In the engine nothing could stop that work, and it is
done in the process that samples for all. Here the kernel ends the process when the work has used
its share of a core or of memory, and the call is refused.
"""

import asyncio
import hashlib
import logging
import resource
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_runtime.engine.grammars.bounds import bounds_install
from gpu_runtime.errors import EngineBusy, RequestRefused
from gpu_runtime.processes.starting import kept_from_children, process_context

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.structured_output.backend_types import StructuredOutputBackend

COMPILE_CPU_S = 10.0  # the largest schema of test_grammar_trial.py takes a third of it
COMPILE_WALL_S = 60.0  # on a machine that is full the share of a core above takes longer
START_S = 300.0  # on a GPU the process imports vLLM anew
MAX_BYTES = 2 << 30  # that compiling may add to the process
WAIT_S = 90.0  # that a call waits for the grammars before its own, and for its own
TOKENS_TRIED = 64  # of one text that the grammar allows
KEPT = 4096  # grammars of which is known whether they can be made

log = logging.getLogger(__name__)
Key = tuple[Any, str]  # vLLM's kind of a grammar, and its text
TOO_MUCH = (
    f"its grammar cannot be made and followed within {{:g}} s of a core and {MAX_BYTES >> 30} GiB: "
    "ask for fewer and "
    "smaller counts inside one another (such as maxItems and maxLength), fewer choices, and rules "
    "that read a text in "
    "one way"
)


class GrammarTrial:
    """Of one engine. The process starts with the first grammar, and anew after each that it was
    ended for.
    """

    def __init__(self, vllm_config: "VllmConfig", *, cpu_s: float = COMPILE_CPU_S) -> None:
        self._vllm_config, self._cpu_s = vllm_config, cpu_s
        # whether it can be made, the last used last
        self._known: OrderedDict[bytes, bool] = OrderedDict()
        # one grammar after another
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grammar-trial")
        self._lock = threading.Lock()  # over the three below: close is called from another thread
        self._process: Any = None
        self._connection: Connection | None = None
        self._is_closed = False

    async def check(self, key: Key) -> None:
        """Raises RequestRefused where it takes too much to be made, EngineBusy. A wrong one passes:
        vLLM says how.
        """
        name = hashlib.sha256(f"{key[0]}\0{key[1]}".encode("utf-8", "surrogatepass")).digest()
        if name not in self._known:
            try:
                async with asyncio.timeout(WAIT_S):
                    await asyncio.get_running_loop().run_in_executor(
                        self._thread, self._try, name, key
                    )
            except TimeoutError as error:
                raise EngineBusy(
                    f"other new grammars were made for {WAIT_S:g} s before this one could be"
                ) from error
        if not self._known.get(name, True):
            raise RequestRefused(TOO_MUCH.format(self._cpu_s))

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one."""
        return self._process.pid if self._process is not None else None

    def close(self) -> None:
        """End the process, also while it compiles."""
        with self._lock:
            self._is_closed = True
            self._end()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _try(self, name: bytes, key: Key) -> None:
        if name in self._known:  # another call of the same grammar was first
            self._known.move_to_end(name)
            return
        connection = self._started()
        if connection is None:
            return
        try:
            connection.send(key)
            is_made = connection.poll(COMPILE_WALL_S) and connection.recv()
        except (EOFError, OSError):  # the kernel ended it
            is_made = False
        with self._lock:
            if self._is_closed:
                return
            if not is_made:
                self._end()
        self._known[name] = is_made
        while len(self._known) > KEPT:
            self._known.popitem(last=False)

    def _started(self) -> Connection | None:
        with self._lock:
            if self._connection is not None or self._is_closed:
                return self._connection
            context = process_context(self._vllm_config.device_config.device_type)
            ours, theirs = context.Pipe()
            self._process = context.Process(
                target=_serve, args=(theirs, self._vllm_config, self._cpu_s), daemon=True
            )
            with kept_from_children():
                self._process.start()
            theirs.close()
            self._connection = ours
        if not ours.poll(START_S) or not ours.recv():
            raise TimeoutError("the process that tries grammars did not start")
        return ours

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None


def _serve(connection: Connection, vllm_config: "VllmConfig", cpu_s: float) -> None:
    """The process: a key comes, True goes when its grammar was made, or is none."""
    from vllm.tokenizers import cached_tokenizer_from_config
    from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

    bounds_install()
    tokenizer = cached_tokenizer_from_config(model_config=vllm_config.model_config)
    backend = XgrammarBackend(
        vllm_config, tokenizer=tokenizer, vocab_size=vllm_config.model_config.get_vocab_size()
    )
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + MAX_BYTES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process
    try:
        _answer(connection, lambda key: _make(backend, key), cpu_s)
    except EOFError:  # the runtime ended
        return


def _answer(connection: Connection, make: Callable[[Key], None], cpu_s: float) -> None:
    """Calls ``make`` with each key that comes. Raises EOFError at the end of the connection."""
    connection.send(True)
    while True:
        key = connection.recv()
        signal.setitimer(signal.ITIMER_PROF, cpu_s)  # of all threads of the process
        try:
            make(key)
            is_made = True
        except (MemoryError, TimeoutError):  # the latter is vLLM's own, for patterns
            is_made = False
        except Exception:  # the top of a loop: what is wrong with the grammar vLLM says to the call
            log.debug("A grammar is none.", exc_info=True)
            is_made = True
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send(is_made)


def _make(backend: "StructuredOutputBackend", key: Key) -> None:
    """What the engine will do: compile, and say which tokens may come next, along one text.

    A grammar that reads a text in many ways is soon compiled, and then takes longer with each
    token.
    """
    grammar = backend.compile_grammar(*key, stop_token_ids=None)
    words = backend.allocate_token_bitmask(1)
    for _ in range(TOKENS_TRIED):
        if grammar.is_terminated():
            return
        grammar.fill_bitmask(words, 0)
        allowed = np.flatnonzero(np.unpackbits(words.numpy().view(np.uint8)[0], bitorder="little"))
        if not len(allowed) or not grammar.accept_tokens("", [int(allowed[len(allowed) // 2])]):
            return


def _data_bytes() -> int:
    """What RLIMIT_DATA counts of this process today (proc(5), VmData)."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:"))
