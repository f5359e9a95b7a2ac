#!/usr/bin/env python
"""Django's command line: ``python manage.py up`` runs everything on one machine."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    # A checkout that was not installed still finds the wire types.
    sys.path.insert(1, str(Path(__file__).resolve().parent / "sdk"))
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
