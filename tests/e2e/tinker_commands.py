"""Commands of the ``tinker`` command line in one process: ``python tinker_commands.py '[["run",
"list"], ...]'``.

Prints a list in JSON: of each the status that it would exit with, what it printed, and its errors.
"""

import contextlib
import io
import json
import sys

from tinker.cli.__main__ import main

said = []
for arguments in json.loads(sys.argv[1]):
    status, out, errors = 0, io.StringIO(), io.StringIO()
    sys.argv = ["tinker", "-f", "json", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
    said.append([status, out.getvalue(), errors.getvalue()])
print(json.dumps(said))
