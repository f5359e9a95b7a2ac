"""A web server that is only ever woken: ``python server_without_looks.py MODULE ARGUMENT...``.

It runs MODULE, as ``python -m`` would, with a live channel that looks at the record by itself once
an hour: what a lost wake-up leaves behind comes too late for every test, on every machine.
"""

import os
import runpy
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
django.setup()

from console.live import hub  # noqa: E402

hub.POLL_INTERVAL_S = 3600.0
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
