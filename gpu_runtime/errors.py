"""What can go wrong in a runtime, by boundary.

RuntimeFault
  EngineDead        the engine process is gone or stuck; the runtime restarts
  RequestRefused    the engine cannot do what one call asks for, such as a schema that is none; it serves on
  WeightsRefused    the engine could not load the trainer's weights, such as one of another name or shape
  TrainerFailed     a rank is gone or stuck; the runtime restarts
    TrainerKilled   a rank was killed from outside, as the kernel does when memory runs out
  Stuck             no progress before a deadline; the runtime restarts
  StepRefused       the batch would break the weights (NaN, exploding gradient); weights stand
    EngineMismatch  the engine's log-probabilities are not the trainer's; it is given the weights again, once
    OutOfMemory     the batch does not fit; the trainer starts again from its last state
  FinalFault        no restart would change it: the session fails with its code
    DeviceMemoryShort    engine and trainer take turns on a device, and do not fit on it together
    PlacementImpossible  this machine has not the devices that the session asks for
    ModelUnsupported     this model, or an option on it, would be trained wrong
    EngineTrainerMismatch  engine and trainer compute different numbers from the same weights
    EngineUnsupported    what this machine has of vLLM is not what the engine is written for
    NodesDiffer          the nodes of a session have other versions or another base model
    InputUnusable        an error of the input (failures/input_errors.py), which every repetition would meet
  ControlPlaneLost  the control plane did not respond for too long
  ServerDiffers     what the control plane says cannot be read: it is of another version
  ControlPlaneRefused  it refused, and no repetition would change that: a bug or two versions that differ
  LeaseLost         another runtime holds the session now: end at once, write nothing more
  StoreUnavailable  the object store did not take or give a file, after retries
    StoreFull       because its disk is nearly full
    UploadRefused   each of several tries; the store is there
  DiskFull          the volume has no room for weights or the journal; refused before anything was written
"""


class RuntimeFault(Exception):
    """Base of all; ``code`` and ``hint`` go into the session's failure."""

    code = "runtime_fault"
    hint = ""


class EngineDead(RuntimeFault):
    code = "engine_dead"
    hint = "The runtime restarts from its last committed state."


class RequestRefused(RuntimeFault):
    code = "request_refused"


class EngineBusy(RequestRefused):
    code = "engine_busy"


class WeightsRefused(RuntimeFault):
    code = "weights_refused"
    hint = "The runtime restarts from its last committed state."


class TrainerFailed(RuntimeFault):
    code = "trainer_failed"
    hint = "The runtime restarts from its last committed state."


class TrainerKilled(TrainerFailed):
    pass


class Stuck(RuntimeFault):
    code = "no_progress"
    hint = (
        "The runtime restarts from its last committed state. The stacks say where each of its "
        "processes stood."
    )


class StepRefused(RuntimeFault):
    code = "step_refused"
    hint = (
        "The previous weights stand. Lower the learning rate or look at the rewards of the "
        "named episodes."
    )


class EngineMismatch(StepRefused):
    code = "engine_trainer_mismatch"
    hint = (
        "The previous weights stand and the engine was given them again. If it comes again, one of "
        "the engine's kernels"
        " is wrong for this model. In bfloat16 a small model may need dtype float32."
    )

    def __init__(self, message: str, kl: float) -> None:
        super().__init__(message)
        self.kl = kl  # mean k3 KL in nats


class OutOfMemory(StepRefused):
    code = "out_of_memory"
    hint = (
        "The previous weights stand. Lower micro_batch_tokens, or turn gradient_checkpointing on."
    )


class FinalFault(RuntimeFault):
    pass


class PlacementImpossible(FinalFault):
    code = "placement_impossible"
    hint = "Leave placement at auto, or give the runtime more devices."


class DeviceMemoryShort(FinalFault):
    code = "out_of_memory"
    hint = (
        "Set offload_optimizer, lower micro_batch_tokens, or give the session more GPUs or "
        "larger ones."
    )


class ModelUnsupported(FinalFault):
    code = "model_unsupported"
    hint = (
        "docs/models.md lists what trains right. Choose another base model or leave the named "
        "option at its default."
    )


class EngineTrainerMismatch(FinalFault):
    code = "engine_trainer_mismatch"
    hint = (
        "Nothing was trained on these numbers. docs/models.md lists the model families that are "
        "known to agree."
    )


class EngineUnsupported(FinalFault):
    code = "engine_unsupported"
    hint = (
        "Give the runtime an environment of requirements/, without variables of vLLM's own, and "
        "start again."
    )


class NodesDiffer(FinalFault):
    code = "nodes_differ"
    hint = "Give every node the same environment and the same files, then start the session again."


class InputUnusable(FinalFault):
    code = "input_unusable"
    hint = "It would fail the same way each time. Repair what is named, then start a new session."


class ServerDiffers(RuntimeFault):
    """Of a runtime that was just started, no restart would change it; one that runs is followed by
    a newer one.
    """

    code = "server_differs"
    hint = (
        "Give runtimes the server's version (its image, or its checkout), then start the "
        "session again."
    )


class ControlPlaneLost(RuntimeFault):
    code = "control_plane_lost"


class ControlPlaneRefused(RuntimeFault):
    code = "control_plane_refused"
    hint = (
        "The runtime and the control plane may be of different versions; restart the server and "
        "the session."
    )


class LeaseLost(RuntimeFault):
    code = "stale_lease"


class StoreUnavailable(RuntimeFault):
    code = "storage_unavailable"
    hint = "Check that the object store runs and has room."


class CheckpointDeleted(StoreUnavailable):
    """No later try finds it: whoever asked for it by its name is told so."""

    hint = "Name a checkpoint that exists: this one was deleted, or its time to live ended."


class UploadRefused(StoreUnavailable):
    hint = "Ask the server's operator what its object store refuses: its answer is in the message."


class StoreFull(StoreUnavailable):
    code = "disk_full"

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint  # the control plane's: it knows the disk


class DiskFull(RuntimeFault):
    code = "disk_full"
    hint = "Free space on the volume of the runtime."
