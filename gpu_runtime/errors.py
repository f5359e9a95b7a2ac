"""What can go wrong in a runtime, by boundary.

RuntimeFault
  EngineDead        the engine process is gone or stuck; the runtime restarts
  TrainerFailed     a rank is gone or stuck; the runtime restarts
  StepRefused       the batch would break the weights (NaN, infinite gradient, out of memory); weights stand
  ControlPlaneLost  the control plane did not answer for too long
  ControlPlaneRefused  it answered, and no repetition would change the answer: a bug or two versions that differ
  LeaseLost         another runtime holds the session now: end at once, write nothing more
  StoreUnavailable  the object store did not take or give a file, after retries
  DiskFull          the volume has no room for weights; refused before anything was written
  JournalFull       the disk has no room; refused before anything was written
"""


class RuntimeFault(Exception):
    """Base of all; ``code`` and ``hint`` go into the session's failure."""

    code = "runtime_fault"
    hint = ""


class EngineDead(RuntimeFault):
    code = "engine_dead"
    hint = "The runtime restarts from its last committed state."


class TrainerFailed(RuntimeFault):
    code = "trainer_failed"
    hint = "The runtime restarts from its last committed state."


class StepRefused(RuntimeFault):
    code = "step_refused"
    hint = "The previous weights stand. Lower the learning rate or look at the rewards of the named episodes."


class ControlPlaneLost(RuntimeFault):
    code = "control_plane_lost"


class ControlPlaneRefused(RuntimeFault):
    code = "control_plane_refused"
    hint = "The runtime and the control plane may be of different versions; restart the server and the session."


class LeaseLost(RuntimeFault):
    code = "stale_lease"


class StoreUnavailable(RuntimeFault):
    code = "storage_unavailable"
    hint = "Check that the object store runs and has room."


class DiskFull(RuntimeFault):
    code = "disk_full"
    hint = "Free space on the volume of the runtime."


class JournalFull(RuntimeFault):
    code = "disk_full"
    hint = "Free space on the volume of the runtime."
