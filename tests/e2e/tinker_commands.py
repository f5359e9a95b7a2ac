"""Commands of the ``tinker`` command line in one process: ``python tinker_commands.py '[["run", "list"], ...]'``.

Prints what each of them printed, as a list of texts in JSON. A command that fails ends it, with status 1.
"""

import contextlib
import io
import json
import sys

from tinker.cli.__main__ import main_cli

said = []
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        main_cli.main(["-f", "json", *arguments], standalone_mode=False)
    said.append(out.getvalue())
print(json.dumps(said))
