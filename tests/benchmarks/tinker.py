"""A Tinker server through the unmodified client: training, steps, samples, weight sync, several
adapters at once.

Run it in the client's environment, which has nothing of ours, against any server that speaks the
wire:

    export TINKER_BASE_URL=http://127.0.0.1:8000 TINKER_API_KEY=tml-...
    .venv/bin/python tests/benchmarks/tinker.py MODEL

Times are wall-clock time at the client, from the first request to the last result, so they hold the
client's own work (6 to 7 ms for an operation, about 8 ms for a sample). Each row is run once
unmeasured, then ``--rounds`` times; the table has the median and the best. Token ids are drawn from
5 to 89, which every model has. ``--rank 0`` trains all weights, where the server does; the rows of
several adapters are then left out. ``--short`` has sixteen adapters with a short operation each.
``--small`` has a few tokens in every row, to see that each runs: its times say nothing.
"""

import argparse
import math
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

# there this file has the name of the client's package
sys.path.remove(str(Path(__file__).resolve().parent))
import numpy as np  # noqa: E402
import tinker  # noqa: E402
from tinker import types  # noqa: E402

WAIT_S = 900.0


@dataclass(frozen=True)
class Load:
    """How much each row does: data and tokens of each; answers to one prompt, its tokens and theirs;
    requests, samples and tokens; adapters at once.
    """

    trained: tuple[tuple[int, int], ...] = ((8, 128), (8, 512), (32, 256))
    answered: tuple[int, int, int] = (8, 128, 128)
    stepped: tuple[int, int] = (8, 512)
    sampled: tuple[tuple[int, int, int], ...] = ((8, 1, 64), (8, 8, 64))
    many: tuple[int, int, int] = (512, 1, 4)
    adapters: tuple[int, ...] = (2, 8)
    trained_each: tuple[int, int] = (8, 128)
    sampled_each: tuple[int, int, int] = (8, 1, 64)


SMALL = Load(
    trained=((2, 8),), answered=(2, 8, 8), stepped=(2, 8), sampled=((2, 2, 4),), many=(8, 1, 4), adapters=(2,),
    trained_each=(2, 8), sampled_each=(2, 1, 4),
)  # fmt: skip
SHORT = Load(
    trained=((1, 48),), answered=(2, 16, 16), stepped=(1, 48), sampled=((1, 1, 8),), many=(8, 1, 4), adapters=(16,),
    trained_each=(1, 48), sampled_each=(1, 1, 8),
)  # fmt: skip


class Table:
    """Rows as they are measured: what, seconds, and how many of what in a second."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        print("| what | median | best | at the median |\n| --- | --- | --- | --- |")

    def row(self, name: str, act: Callable[[], None], *, count: int = 1, unit: str = "") -> None:
        """``act`` does ``count`` units of work."""
        act()
        times = []
        for _ in range(self._rounds):
            began = time.perf_counter()
            act()
            times.append(time.perf_counter() - began)
        middle = statistics.median(times)
        rate = f"{count / middle:,.0f} {unit}/s" if unit else ""
        print(f"| {name} | {_seconds(middle)} | {_seconds(min(times))} | {rate} |", flush=True)


def _seconds(value: float) -> str:
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.2f} s"


def tokens_drawn(count: int) -> list[int]:
    """Token ids that every model has."""
    return [random.randrange(5, 90) for _ in range(count)]


def data_drawn(number: int, length: int, prompt: int = 0) -> list[types.Datum]:
    """``number`` sequences of ``length`` tokens, after as many of one prompt, which have no loss.
    They share nothing else.
    """
    data, shared = [], tokens_drawn(prompt)
    weights = (np.arange(prompt + length) >= prompt - 1).astype(np.float32)
    for _ in range(number):
        tokens = shared + tokens_drawn(length + 1)
        inputs = {
            "target_tokens": types.TensorData.from_numpy(np.array(tokens[1:], dtype=np.int64)),
            "weights": types.TensorData.from_numpy(weights),
        }
        data.append(
            types.Datum(model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs)
        )
    return data


def trained(trainings: list[tinker.TrainingClient], data: list[types.Datum]) -> None:
    """A forward_backward and a step of every model, all in flight at once."""
    waiting = []
    for training in trainings:
        waiting.append(training.forward_backward(data, "cross_entropy"))
        waiting.append(training.optim_step(types.AdamParams(learning_rate=1e-5)))
    for each in waiting:
        each.result(timeout=WAIT_S)


def sampled(
    samplers: list[tinker.SamplingClient], requests: int, samples: int, length: int
) -> None:
    """``requests`` of each sampler at once, each for ``samples`` of exactly ``length`` tokens to
    its own prompt.
    """
    waiting = []
    for number in range(requests):
        for sampler in samplers:
            params = types.SamplingParams(max_tokens=length, temperature=1.0, seed=number, stop=[])
            waiting.append(
                sampler.sample(types.ModelInput.from_ints(tokens_drawn(32)), samples, params)
            )
    for each in waiting:
        answer = each.result(timeout=WAIT_S)
        assert [len(sequence.tokens) for sequence in answer.sequences] == [length] * samples


def rows_of_one(table: Table, load: Load, training: tinker.TrainingClient) -> tinker.SamplingClient:
    """What one model does; returns a sampler of it."""
    number, prompt, length = load.answered
    named = [(f"{number}x{length}", data_drawn(number, length)) for number, length in load.trained]
    named.append(
        (f"{number}x{length} after a prompt of {prompt}", data_drawn(number, length, prompt))
    )
    for name, data in named:
        table.row(
            f"forward_backward {name}",
            lambda data=data: training.forward_backward(data, "cross_entropy").result(timeout=WAIT_S) and None,
            count=sum(datum.model_input.length for datum in data), unit="tokens",
        )  # fmt: skip
    step = types.AdamParams(learning_rate=1e-5)
    table.row("optim_step alone", lambda: training.optim_step(step).result(timeout=WAIT_S) and None)
    number, length = load.stepped
    table.row(
        f"forward_backward {number}x{length} and optim_step",
        lambda data=data_drawn(number, length): trained([training], data), count=number * length, unit="tokens",
    )  # fmt: skip

    def synced() -> None:
        sampled([training.save_weights_and_get_sampling_client()], 1, 1, 1)

    table.row("snapshot to first token", synced)
    sampler = training.save_weights_and_get_sampling_client()
    rows_of_sampling(table, load, "sample", sampler)
    requests, _, length = load.many
    table.row(f"sample {requests} requests x {length} tokens", lambda: sampled([sampler], *load.many), count=requests,
              unit="samples")  # fmt: skip
    return sampler


def rows_of_sampling(table: Table, load: Load, name: str, sampler: tinker.SamplingClient) -> None:
    """Requests of one and of several samples each, in rows that begin with ``name``."""
    for shape in load.sampled:
        requests, samples, length = shape
        table.row(
            f"{name} {requests} requests x {samples} x {length} tokens",
            lambda shape=shape: sampled([sampler], *shape), count=math.prod(shape), unit="tokens",
        )  # fmt: skip


def rows_of_several(
    table: Table,
    load: Load,
    trainings: list[tinker.TrainingClient],
    samplers: list[tinker.SamplingClient],
) -> None:
    """What several adapters of one base do at once."""
    count, (number, length) = len(trainings), load.trained_each
    data = data_drawn(number, length)
    table.row(
        f"{count} adapters: forward_backward {number}x{length} and optim_step of each",
        lambda: trained(trainings, data), count=count * number * length, unit="tokens",
    )  # fmt: skip
    requests, _, length = load.sampled_each
    table.row(
        f"{count} adapters: sample {requests} requests x {length} tokens of each",
        lambda: sampled(samplers, *load.sampled_each), count=count * math.prod(load.sampled_each), unit="tokens",
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="a base model of the server")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", dest="load", action="store_const", const=SMALL, default=Load())
    parser.add_argument("--short", dest="load", action="store_const", const=SHORT)
    options = parser.parse_args()
    random.seed(0)
    opened = tinker.ServiceClient()
    # 0.25, for other servers, has none
    with opened if hasattr(opened, "__exit__") else nullcontext(opened) as service:
        training = service.create_lora_training_client(
            base_model=options.model, rank=options.rank, seed=0
        )
        print(
            f"{options.model}, rank {options.rank}, tinker {tinker.__version__}, {options.rounds} rounds,"
            f" {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} processors ({platform.machine()}), load"
            f" {os.getloadavg()[0]:.1f} when it began\n"
        )
        table = Table(options.rounds)
        base = service.create_sampling_client(base_model=options.model)
        rows_of_sampling(table, options.load, "base: sample", base)
        trainings, samplers = [training], [rows_of_one(table, options.load, training)]
        for count in options.load.adapters if options.rank else ():
            while len(trainings) < count:
                another = service.create_lora_training_client(
                    base_model=options.model, rank=options.rank, seed=len(trainings)
                )
                trainings.append(another)
                samplers.append(another.save_weights_and_get_sampling_client())
            rows_of_several(table, options.load, trainings, samplers)


if __name__ == "__main__":
    main()
