"""What vLLM's worker gets besides its own methods, in every engine of ours: weights, and seeds on a CPU."""

from gpu_runtime.engine.seeded_prompts import seeds_keep
from gpu_runtime.weights.vllm_receiver import WeightReceiver


class EngineWorker(WeightReceiver):
    """Mixed into the worker's class: ``worker_extension_cls``."""

    def seeds_set_right(self) -> None:
        """Serve seeded requests whose prompt is computed in pieces; called once on a CPU, before the first request."""
        seeds_keep(self.model_runner)
