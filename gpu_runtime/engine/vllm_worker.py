"""What vLLM's worker gets besides its own methods, in every engine of ours; on a CPU cpu/worker.py
adds to it.
"""

from pathlib import Path
from typing import Any

from gpu_runtime.engine.experts.recorder import recorder_install, recorder_make
from gpu_runtime.engine.grammars.bounds import bounds_install
from gpu_runtime.engine.grammars.budget import FOLLOW_CPU_S, budget_install
from gpu_runtime.engine.model_repairs import model_repair, reloads_prepare
from gpu_runtime.engine.model_runner import models_prepare, runner_refusal
from gpu_runtime.engine.prompt_rows import prompt_heads_install, rows_install
from gpu_runtime.engine.raw_logprobs import raw_install
from gpu_runtime.health.stack_dumps import stacks_register
from gpu_runtime.processes.foreign_peers import groups_watch
from gpu_runtime.processes.starting import bars_lock_set
from gpu_runtime.weights.vllm_receiver import WeightReceiver


def model_prepare(runner: Any) -> None:
    """Repair the model of ``runner``, and bind a recorder to it; again changes nothing."""
    model_repair(runner.get_model())
    recorder_make(runner)


# When a worker's process imports this: before it makes groups, and before it loads weights with a
# bar.
groups_watch()
bars_lock_set()
models_prepare(model_prepare)


class EngineWorker(WeightReceiver):
    """Mixed into the worker's class: ``worker_extension_cls``."""

    def worker_prepare(self, stacks: str | None) -> str:
        """Install what is ours; called once, before the first request. Why it does not work here;
        "" where it does.

        ``stacks`` is the folder with the names of the processes whose stacks are read. They are
        read by pid, on the runtime's node.
        """
        if refusal := runner_refusal(self.model_runner):
            return refusal
        self.grammars_bound()
        raw_install(self.model_runner)
        model_prepare(self.model_runner)
        reloads_prepare(self.model_runner.get_model())
        recorder_install(self.model_runner)
        self.runner_extend()
        if stacks is not None and self.parallel_config.node_rank == 0:
            stacks_register(Path(stacks), "engine")
        return ""

    def runner_extend(self) -> None:
        """Install what is for this device alone: on a GPU, the adapters of prompts that are
        scored.
        """
        if self.model_runner.lora_config is not None:
            prompt_heads_install(self.model_runner)
            rows_install(self.model_runner)

    def grammars_bound(self, cpu_s: float = FOLLOW_CPU_S) -> None:
        """End calls whose grammar takes longer to be followed."""
        budget_install(cpu_s)
        bounds_install()
