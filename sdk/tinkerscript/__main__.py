"""``python -m tinkerscript``: the command line, where its script is not on the PATH."""

from .cli import main

main()
