"""What pip is set to, by the names that uv reads, as lines of a shell: ``python requirements/uv_settings.py``.

uv reads nothing of pip's configuration: the index, certificate or constraints that a machine wants would be left out.
Status 1, with the reason on stderr, where pip is set to something that is not known here: pip itself goes on then.
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
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "constraint": ("UV_CONSTRAINT", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "proxy": ("ALL_PROXY", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
    "retries": ("UV_HTTP_RETRIES", " "),
}
# They change nothing of what is installed, or, as no-compile, nothing of what uv does anyway.
WITHOUT_EFFECT = {
    "break-system-packages", "cache-dir", "config-file", "disable-pip-version-check", "log", "no-cache-dir", "no-color",
    "no-compile", "no-input", "no-warn-script-location", "prefer-binary", "progress-bar", "quiet", "require-virtualenv",
    "root-user-action", "verbose",
}  # fmt: skip
SCOPES = ("global", "install", ":env:")  # the later one counts
# As pip does: the best version of all indexes, not the first index that has any.
AS_PIP = {"UV_INDEX_STRATEGY": "unsafe-best-match"}


def translated(listed: str) -> dict[str, str]:
    """uv's variables for the output of ``pip config list``. Raises LookupError for an option that is not known."""
    found: dict[str, str] = {}
    lines = [line.partition("=") for line in listed.splitlines() if "=" in line]
    for wanted in SCOPES:
        for key, _, value in lines:
            scope, _, name = key.rpartition(".")
            if scope != wanted or name in WITHOUT_EFFECT:
                continue
            if name not in NAMES:
                raise LookupError(f"pip is set to {name}, for which set-up knows no option of uv")
            variable, between = NAMES[name]
            found[variable] = between.join(str(ast.literal_eval(value)).split())
    return found


def main() -> int:
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    try:
        settings = AS_PIP | translated(listed)
    except LookupError as unknown:
        sys.stderr.write(f"{unknown}\n")
        return 1
    for name, value in settings.items():
        if name not in os.environ:
            sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
