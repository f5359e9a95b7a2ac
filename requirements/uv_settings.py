"""What pip is set to, by the names that uv reads, as lines of a shell: ``python
requirements/uv_settings.py``.

uv reads nothing of pip's configuration, which names a machine's index, certificate and proxy.
"""

import ast
import os
import shlex
import subprocess
import sys

# uv's name of each option, and what is between several values there; pip has blanks.
NAMES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_NO_INDEX", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "proxy": ("ALL_PROXY", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
    "retries": ("UV_HTTP_RETRIES", " "),
}
SCOPES = ("global", "install", ":env:")  # the later one counts
# As pip does: the best version of all indexes, not the first index that has any.
AS_PIP = {"UV_INDEX_STRATEGY": "unsafe-best-match"}


def translated(listed: str) -> dict[str, str]:
    """uv's variables for the output of ``pip config list``; what else pip may be set to changes no
    locked version."""
    found: dict[str, str] = {}
    lines = [line.partition("=") for line in listed.splitlines() if "=" in line]
    for wanted in SCOPES:
        for key, _, value in lines:
            scope, _, name = key.rpartition(".")
            if scope == wanted and name in NAMES:
                variable, between = NAMES[name]
                found[variable] = between.join(str(ast.literal_eval(value)).split())
    return found


def settings() -> dict[str, str]:
    """uv's variables on this machine, without those that the environment sets by itself."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return {
        name: value
        for name, value in (AS_PIP | translated(listed)).items()
        if name not in os.environ
    }


if __name__ == "__main__":
    for each, value in settings().items():
        sys.stdout.write(f"export {each}={shlex.quote(value)}\n")
