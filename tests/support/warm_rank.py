"""What a rank of the trainer imports, imported before it is forked: see gpu_runtime/training/conftest.py."""

import gpu_runtime.training.trainer  # noqa: F401
