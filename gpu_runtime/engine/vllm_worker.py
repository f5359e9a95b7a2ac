"""What vLLM's worker gets besides its own methods, in every engine of ours: weights; on a CPU seeds, scores, draws,
layers."""

from gpu_runtime.engine.cpu.inverse_sampling import sampling_install
from gpu_runtime.engine.cpu.lazy_cache import cache_allocate_lazily
from gpu_runtime.engine.cpu.seeded_prompts import seeds_keep
from gpu_runtime.engine.grammars.bounds import bounds_install
from gpu_runtime.engine.grammars.budget import FOLLOW_CPU_S, budget_install
from gpu_runtime.engine.model_runner import runner_refusal
from gpu_runtime.engine.raw_logprobs import raw_install
from gpu_runtime.processes.own_groups import groups_watch
from gpu_runtime.processes.progress_bars import bars_lock_set
from gpu_runtime.weights.packing import linears_pack_as_loaded
from gpu_runtime.weights.vllm_receiver import WeightReceiver

# When a worker's process imports this: before it makes groups, and before it loads weights with a bar.
groups_watch()
bars_lock_set()
linears_pack_as_loaded()
cache_allocate_lazily()


class EngineWorker(WeightReceiver):
    """Mixed into the worker's class: ``worker_extension_cls``."""

    def runner_refusal(self) -> str:
        """Why what is here does not work with this worker's model runner; "" where it does."""
        return runner_refusal(self.model_runner)

    def seeds_set_right(self) -> None:
        """Serve seeded requests whose prompt is computed in pieces; called once on a CPU, before the first request."""
        seeds_keep(self.model_runner)

    def raw_logprobs_set(self) -> None:
        """Score sampled tokens at temperature 1 too, where it is asked for; called once, before the first request."""
        raw_install(self.model_runner)

    def sampling_set(self) -> None:
        """Draw a token by one random number and not by one for each id; called once on a CPU."""
        sampling_install(self.model_runner)

    def grammars_bound(self, cpu_s: float = FOLLOW_CPU_S) -> None:
        """End calls whose grammar takes longer to be followed; called once, before the first request."""
        budget_install(cpu_s)
        bounds_install()

    def layers_flatten(self) -> tuple[int, bool]:
        """Let the model's layers compute with less Python, where they are known; called once on a CPU.

        Their number, and whether a decoding step is one call for all of them.
        """
        from gpu_runtime.engine.cpu.flat_layers import layers_flatten  # vLLM's Llama, for whoever serves one

        return layers_flatten(self.model_runner.get_model())
