"""Who may import whom: the contracts of pyproject.toml, and what really gets loaded."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "vllm", "deepspeed", "transformers")


def test_every_import_contract_is_kept():
    # A process of its own: the linter sets up logging for itself and would silence everybody's here.
    linter = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(linter, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def loaded_by(statement, tmp_path):
    """The heavy modules (and Django) that running ``statement`` in a process of its own brings in."""
    names = (*HEAVY, "django")
    program = f"import sys\n{statement}\nprint([name for name in {names!r} if name in sys.modules])"
    environment = {"TINKERSCRIPT_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "console.settings"}
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'sdk'}"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_control_plane_loads_no_torch(tmp_path):
    assert loaded_by("import django; django.setup(); import console.urls, console.asgi", tmp_path) == "['django']"


def test_agent_journal_and_store_load_neither_torch_nor_django(tmp_path):
    modules = ["agent", "config", "lease", "journal", "interfaces", "bundled_model", "weights.store", "archive"]
    modules += ["training.grpo", "training.batching"]
    imports = ", ".join(f"gpu_runtime.{name}" for name in modules)
    assert loaded_by(f"import {imports}", tmp_path) == "[]"
