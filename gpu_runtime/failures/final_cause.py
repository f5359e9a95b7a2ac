"""Whether a runtime's end is the session's: one rule for whoever has to decide it."""

from gpu_runtime.errors import EngineDead, FinalFault

from .core_errors import core_input_error
from .input_errors import is_of_input, said


def final_cause(error: Exception, *, is_start: bool) -> str | None:
    """Why no other runtime would do better; None where one is started again.

    An engine that ended is judged by its own last error. What goes wrong in this process by itself
    is judged while it starts: later it may be of one call, or of the order in which calls came.
    """
    if isinstance(error, FinalFault):
        return str(error)
    if isinstance(error, EngineDead):
        cause = core_input_error()
        return None if cause is None else f"the engine: {cause}"
    return said(error) if is_start and is_of_input(error) else None
