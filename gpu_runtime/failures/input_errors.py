"""Which errors are of the input, so that every repetition would meet them: of starts, calls,
exports and steps alike.

What is not named here is tried again: a process that was killed, a network, a store or a disk that
was away.
"""

import errno
import ssl

# What Python, torch and the libraries raise for values, types and names that do not fit, JSON and
# text included: a list where an object belongs has no attribute of it, no heads divide nothing.
OF_INPUT = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    NotImplementedError,
)
# Of safetensors, huggingface_hub and jinja2, by name: not every process that asks has imported
# them.
OF_INPUT_NAMES = ("SafetensorError", "StrictDataclassError", "TemplateError")
# Files that are missing, or of another kind or owner, and names that cannot be. A disk, a network
# or memory passes.
OF_FILES = frozenset({
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP,
})  # fmt: skip
# Some are raised without a number, and those of TLS with one of OpenSSL's.
PASSING = (ConnectionError, TimeoutError, ssl.SSLError)
# torch and vLLM have RuntimeError for everything; these words are of kernels and weights that do
# not fit the model.
WORDS = ("unsupported", "not supported", "not implemented", "size mismatch", "mismatched_sizes")


def is_of_input(error: BaseException) -> bool:
    """Whether the same input would raise ``error`` again."""
    if isinstance(error, OSError):
        is_passing = isinstance(error, PASSING) or error.errno not in OF_FILES | {None}
        return not is_passing
    if isinstance(error, OF_INPUT) or any(
        kind.__name__ in OF_INPUT_NAMES for kind in type(error).__mro__
    ):
        return True
    return type(error) is RuntimeError and any(word in str(error).lower() for word in WORDS)


def said(error: BaseException) -> str:
    """The kind and the words of an error, as a session's record has them."""
    return f"{type(error).__name__}: {error}"
