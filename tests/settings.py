"""The server's own settings over a throw-away folder: set before Django reads them, so that no test
touches .data.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

# Set by tests/on_postgres.py; without them SQLite, and channels in memory.
_database, _redis = (os.environ.get(name, "") for name in ("TEST_DATABASE_URL", "TEST_REDIS_URL"))
if _redis and (_worker := os.environ.get("PYTEST_XDIST_WORKER")):
    # database 0 is that of the servers which tests start
    _redis = f"{_redis.rpartition('/')[0]}/{int(_worker.removeprefix('gw')) + 1}"
_data = Path(tempfile.mkdtemp(prefix="tinkerscript-tests-"))
atexit.register(shutil.rmtree, _data, ignore_errors=True)
# the catalogue looks for a folder, runtimes into it
(_data / "models" / "SmolLM2-135M-Instruct").mkdir(parents=True)
for _name in [
    name
    for name in os.environ
    if name.startswith(("TINKERSCRIPT_", "S3_", "DATABASE_URL", "REDIS_URL"))
]:
    del os.environ[_name]
os.environ["TINKERSCRIPT_DATA"] = str(_data)
os.environ.update(
    {name: url for name, url in (("DATABASE_URL", _database), ("REDIS_URL", _redis)) if url}
)

from console.settings import *  # noqa: E402, F403
from console.settings import DATABASES, MIDDLEWARE  # noqa: E402

if not _database:
    # A file, because threads that race need connections of their own; no fsync, because it goes
    # when the tests end.
    DATABASES["default"]["TEST"] = {"NAME": str(_data / "test.sqlite3")}
    DATABASES["default"]["OPTIONS"]["init_command"] = (
        "PRAGMA journal_mode=WAL;PRAGMA synchronous=OFF;"
    )
_page_files = "console.server.middleware.PageFiles"
MIDDLEWARE = [
    "support.static_files.StaticFilesOnce" if name == _page_files else name for name in MIDDLEWARE
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
