"""Settings: the environment and nothing else; a malformed value stops start-up and is named."""

import json
import logging
import os
import re
import runpy
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.exceptions import ImproperlyConfigured

from console import settings as console_settings
from console.config.amounts import PUBLIC, KeepDays, keep_days_read
from console.config.database import databases_read
from console.config.environment import read_models, unknown_refuse
from console.config.mail import mail_settings
from console.config.private_files import read_or_create
from console.server.logs import JsonFormatter

ROOT = Path(__file__).resolve().parents[2]


def read(tmp_path: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Load the settings in a fresh interpreter."""
    clean = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("TINKERSCRIPT_", "S3_", "DATABASE", "REDIS"))
    }
    return subprocess.run(
        [sys.executable, "-c", f"from console import settings as s; {code}"],
        cwd=ROOT,
        env=clean | {"TINKERSCRIPT_DATA": str(tmp_path / "data")} | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def loaded(monkeypatch, tmp_path) -> Callable[..., SimpleNamespace]:
    """What the settings are with an environment: loaded anew, in this process."""

    def load(**environment: str) -> SimpleNamespace:
        for name in list(os.environ):
            if name.startswith(("TINKERSCRIPT_", "S3_", "DATABASE", "REDIS")):
                monkeypatch.delenv(name)
        monkeypatch.setenv("TINKERSCRIPT_DATA", str(tmp_path / "data"))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return SimpleNamespace(**runpy.run_path(console_settings.__file__))

    return load


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TINKERSCRIPT_PORT", "eight"),
        ("TINKERSCRIPT_PORT", "0"),
        ("TINKERSCRIPT_PORT", "70000"),
        ("TINKERSCRIPT_PORT", "-1"),
        ("TINKERSCRIPT_LEASE_PORT", "70000"),
        ("TINKERSCRIPT_MAX_RUNTIMES", "1.5"),
        ("TINKERSCRIPT_RATE_LIMIT", "none"),
        ("TINKERSCRIPT_TRUSTED_PROXIES", "-1"),
        ("TINKERSCRIPT_WEB_PROCESSES", "33"),
        ("TINKERSCRIPT_PUBLIC_URL", "example.com"),
        ("TINKERSCRIPT_PUBLIC_URL", "ftp://example.com"),
        ("TINKERSCRIPT_PUBLIC_URL", "https://example.com/trainer"),
        ("TINKERSCRIPT_PUBLIC_URL", "https://example.com?x=1"),
        ("TINKERSCRIPT_PUBLIC_URL", "https://user:secret@example.com"),
        ("TINKERSCRIPT_PUBLIC_URL", "http://example.com:99999"),
        ("TINKERSCRIPT_PUBLIC_URL", "http://example.com:abc"),
        ("TINKERSCRIPT_PUBLIC_URL", "http://fe80::1:8000"),
        ("TINKERSCRIPT_PUBLIC_URL", "http://[fe80::1"),
        ("TINKERSCRIPT_PUBLIC_URL", "http://127.1:8000"),
        ("TINKERSCRIPT_PUBLIC_URL", "http://0.0.0.0:8000"),
        ("TINKERSCRIPT_PUBLIC_URL", "http://[::]:8000"),
        ("TINKERSCRIPT_PUBLIC_URL", "http://:8000"),
        ("TINKERSCRIPT_PUBLIC_URL", "https://lab .example.org"),
        ("TINKERSCRIPT_PUBLIC_URL", "https://b\u00fccher.example"),
        ("TINKERSCRIPT_TRACES_URL", "http://host:port"),
        ("TINKERSCRIPT_RUNTIME_SERVER_URL", "example.com"),
        ("TINKERSCRIPT_TRACES_URL", "host:4318"),
        ("TINKERSCRIPT_MODELS", "tiny"),
        ("TINKERSCRIPT_MODELS", "tiny=relative/folder"),
        ("TINKERSCRIPT_MODELS", "tiny=/no/such/folder"),
        ("TINKERSCRIPT_DEBUG", "yes"),
        ("TINKERSCRIPT_WEBHOOKS_PRIVATE", "yes"),
        ("TINKERSCRIPT_TRUSTED_USERS", "root,nobody-of-this-name"),
        ("TINKERSCRIPT_SIGN_UP", "everybody"),
        ("TINKERSCRIPT_EMAIL_VERIFICATION", "perhaps"),
        ("TINKERSCRIPT_OIDC_ISSUER", "id.example.org"),
        ("TINKERSCRIPT_LIMITS", "seats=3"),
        ("TINKERSCRIPT_PRICES", "gpu=much"),
        ("TINKERSCRIPT_SMTP_URL", "mail.example.org"),
        ("TINKERSCRIPT_KEEP_DAYS", "episodes=-1"),
        ("TINKERSCRIPT_LAUNCHER", "nomad"),
        ("TINKERSCRIPT_PLACES", "/no/such/file"),
        ("TINKERSCRIPT_SECRET_KEY", "new old older"),
        ("DATABASE_URL", "nonsense://x"),
        ("DATABASE_URL", "sqlite:////x?pool_mode=transaction"),
        ("REDIS_URL", "localhost:6379"),
        ("S3_ENDPOINT_URL", "localhost:9000"),
        ("S3_ENDPOINT_URL", "http://localhost:9000"),
        ("S3_ACCESS_KEY", "alone"),
    ],
)
def test_a_malformed_value_stops_start_up_and_is_named(loaded, name: str, value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=name):
        loaded(**{name: value})


def test_the_defaults_serve_one_machine_and_nothing_is_lost_on_a_power_cut(
    loaded, tmp_path
) -> None:
    found = loaded()
    assert (found.PORT, found.PUBLIC_URL) == (8000, "http://127.0.0.1:8000")
    assert (found.HOST, found.MAX_RUNTIMES, found.DEBUG) == ("127.0.0.1", 1, False)
    database = found.DATABASES["default"]
    assert database["NAME"] == str(tmp_path / "data" / "console.sqlite3")
    assert database["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert "synchronous=FULL" in database["OPTIONS"]["init_command"]
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_the_public_url_is_the_origin_that_a_browser_sends(loaded) -> None:
    for given, origin in (
        ("https://lab.example.org/", "https://lab.example.org"),
        ("HTTPS://Lab.Example.org:443", "https://lab.example.org"),
        ("http://lab_1.lan:80", "http://lab_1.lan"),
        ("http://[FE80::1]:8000", "http://[fe80::1]:8000"),
    ):
        assert origin == loaded(TINKERSCRIPT_PUBLIC_URL=given).PUBLIC_URL
    for given in ("http://localhost.:8000", "http://[::ffff:127.0.0.1]:8000"):
        assert loaded(TINKERSCRIPT_PUBLIC_URL=given).SIGN_UP.policy == "open", "as on loopback"


def test_a_server_that_others_reach_is_not_open_to_them_by_default(loaded) -> None:
    for host, origin in (("10.0.0.5", "10.0.0.5"), ("0.0.0.0", socket.gethostname().lower())):
        found = loaded(TINKERSCRIPT_HOST=host, TINKERSCRIPT_PORT="8100")
        assert f"http://{origin}:8100" == found.PUBLIC_URL
        assert (found.SIGN_UP.policy, found.SIGN_UP.verification) == ("invited", "mandatory")
        assert found.LIMITS.projects is not None


def test_the_table_of_the_page_has_the_defaults(loaded) -> None:
    page = (ROOT / "docs/operations/settings.md").read_text()
    rows = re.findall(r"^\| `([A-Z0-9_]+)` \| `?([\w.-]+)`? \|", page, re.MULTILINE)
    table, found = dict(rows), loaded()
    names = {
        "S3_BUCKET": found.S3_BUCKET,
        "S3_REGION": found.S3_REGION,
        "TINKERSCRIPT_DEBUG": int(found.DEBUG),
        "TINKERSCRIPT_HOST": found.HOST,
        "TINKERSCRIPT_LAUNCHER": found.LAUNCHER.name,
        "TINKERSCRIPT_MAX_RUNTIMES": found.MAX_RUNTIMES,
        "TINKERSCRIPT_PORT": found.PORT,
        "TINKERSCRIPT_RATE_LIMIT": found.RATE_LIMIT_PER_MINUTE,
        "TINKERSCRIPT_TRUSTED_PROXIES": found.ALLAUTH_TRUSTED_PROXY_COUNT,
        "TINKERSCRIPT_WEBHOOKS_PRIVATE": int(found.WEBHOOKS_PRIVATE),
        "TINKERSCRIPT_WEB_PROCESSES": found.WEB_PROCESSES,
    }
    assert {name: table.get(name) for name in names} == {
        name: str(value) for name, value in names.items()
    }
    limits = ",".join(
        f"{name}={value}" for name, value in asdict(PUBLIC).items() if value is not None
    )
    days = ",".join(f"{name}={value}" for name, value in asdict(KeepDays()).items() if value)
    assert f"else `{limits}` |" in page and f"`TINKERSCRIPT_KEEP_DAYS` | `{days}` |" in page


def test_every_variable_that_is_read_is_in_the_table():
    page = (ROOT / "docs/operations/settings.md").read_text()
    read = re.compile(r'read_(?:text|int|url|models)\(\s*"([A-Z0-9_]+)"')
    sources = [path.read_text() for path in (ROOT / "console").rglob("*.py")]
    found = {name for source in sources for name in read.findall(source)}
    assert "TINKERSCRIPT_SIGN_UP" in found, "read in console/config"
    assert sorted(name for name in found if f"`{name}" not in page) == []


def test_readers_name_what_they_refuse(monkeypatch, tmp_path):
    monkeypatch.setenv("N", "²")
    with pytest.raises(ImproperlyConfigured, match="N='²'"):
        console_settings.read_int("N", 1, low=0, high=9)
    folders = {name: str(tmp_path / name) for name in "ab"}
    for folder in folders.values():
        Path(folder).mkdir()
        (Path(folder) / "config.json").write_text("{}")
    monkeypatch.setenv("N", ", ".join(f"{name}={folder}" for name, folder in folders.items()))
    assert console_settings.read_models("N") == folders


@pytest.mark.smoke
def test_the_secret_key_is_made_once_private_and_kept(tmp_path):
    keys = {read(tmp_path, "print(s.SECRET_KEY)").stdout for _ in range(2)}
    assert len(keys) == 1 and len(keys.pop()) > 64
    assert stat.S_IMODE((tmp_path / "data" / "secret_key").stat().st_mode) == 0o600


def test_the_secret_before_the_present_one_is_read_from_the_second_line_or_the_environment(
    loaded, tmp_path
) -> None:
    def keys(**environment: str) -> tuple[str, list[str]]:
        found = loaded(**environment)
        return found.SECRET_KEY, found.SECRET_KEY_FALLBACKS

    assert keys(TINKERSCRIPT_SECRET_KEY="b") == ("b", [])
    assert keys(TINKERSCRIPT_SECRET_KEY=f"{'b' * 32} a") == ("b" * 32, ["a"])
    with pytest.raises(ImproperlyConfigured, match="a key has no space in it"):
        loaded(TINKERSCRIPT_SECRET_KEY="two words")
    (tmp_path / "data" / "secret_key").write_text("d\nc\n")
    assert keys() == ("d", ["c"])
    (tmp_path / "data" / "secret_key").write_text("")
    with pytest.raises(ImproperlyConfigured, match="secret_key is empty"):
        loaded()


def test_processes_that_race_for_a_secret_read_the_same_one(tmp_path):
    start, seen = threading.Barrier(8), []

    def race(number: int) -> None:
        start.wait(25)
        seen.append(
            read_or_create(tmp_path / "deep" / "secret", lambda: f"of thread {number}" * 1000)
        )

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(25)
    assert len(seen) == 8 and len(set(seen)) == 1
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["secret"]


def test_a_log_line_is_one_json_object():
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord(
            "a.b", logging.ERROR, "f", 1, "it %s", ("broke",), sys.exc_info()
        )
    record.session_id = "ses_1"
    text = JsonFormatter().format(record)
    line = json.loads(text)
    assert "\n" not in text and line["message"] == "it broke" and line["session_id"] == "ses_1"
    assert line["level"] == "error" and "ValueError" in line["traceback"]


def test_a_variable_that_is_no_setting_stops_start_up_with_the_nearest_name(monkeypatch) -> None:
    monkeypatch.setenv("TINKERSCRIPT_API_KEY", "the client's, which may be set beside it")
    unknown_refuse()
    monkeypatch.setenv("TINKERSCRIPT_MAX_RUNTIME", "4")
    with pytest.raises(ImproperlyConfigured, match="Did you mean TINKERSCRIPT_MAX_RUNTIMES"):
        unknown_refuse()
    monkeypatch.delenv("TINKERSCRIPT_MAX_RUNTIME")
    monkeypatch.setenv("TINKERSCRIPT_QWXYZ", "1")
    with pytest.raises(ImproperlyConfigured, match="QWXYZ is no setting"):
        unknown_refuse()


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("SAML_METADATA", "Use OpenID Connect"),
        ("SHARED_COUNTS", "set REDIS_URL"),
        ("SECRET_KEY_PREVIOUS", "TINKERSCRIPT_SECRET_KEY takes both"),
        ("AUDIT_KEY", "the file audit_key of TINKERSCRIPT_DATA"),
        ("SIGN_UP_DOMAINS", "TINKERSCRIPT_SIGN_UP=example.org"),
        ("MAIL_FROM", r"TINKERSCRIPT_SMTP_URL: smtp://.*\?from="),
        ("CHECKPOINT_DAYS", "TINKERSCRIPT_KEEP_DAYS=checkpoints="),
        ("RECORD_DAYS", "TINKERSCRIPT_KEEP_DAYS=.*records="),
        ("EPISODE_DAYS", "TINKERSCRIPT_KEEP_DAYS=.*episodes="),
        ("OIDC_NAME", "TINKERSCRIPT_OIDC_OPTIONS=name="),
        ("OIDC_SCOPES", "TINKERSCRIPT_OIDC_OPTIONS=.*scopes="),
        ("OIDC_GROUPS_CLAIM", "TINKERSCRIPT_OIDC_OPTIONS=.*groups_claim="),
        ("OIDC_TRUSTED_DOMAINS", "TINKERSCRIPT_OIDC_OPTIONS=.*trusted_domains="),
        ("DISABLE_SERVER_SIDE_CURSORS", r"\?pool_mode=transaction"),
        ("DOCKER_NETWORK", "tinkerscript-runtimes"),
        ("KUBERNETES_NAMESPACE", "TINKERSCRIPT_KUBERNETES=namespace="),
        ("KUBERNETES_CLAIM", "TINKERSCRIPT_KUBERNETES=.*claim="),
        ("KUBERNETES_CONTEXT", "TINKERSCRIPT_KUBERNETES=.*context="),
    ],
)
def test_a_setting_of_an_earlier_release_stops_start_up_with_what_to_use_instead(
    monkeypatch, name: str, instead: str
) -> None:
    monkeypatch.setenv(f"TINKERSCRIPT_{name}", "1")
    with pytest.raises(ImproperlyConfigured, match=f"TINKERSCRIPT_{name}: .*{instead}"):
        unknown_refuse()


def test_what_is_kept_is_named_with_its_days(monkeypatch) -> None:
    assert keep_days_read() == KeepDays(checkpoints=0, records=400, episodes=0)
    monkeypatch.setenv("TINKERSCRIPT_KEEP_DAYS", "checkpoints=30, records=0")
    assert keep_days_read() == KeepDays(checkpoints=30, records=0, episodes=0)
    for wrong in ("episode=9", "episodes=-1", "episodes=36501", "episodes", "9"):
        monkeypatch.setenv("TINKERSCRIPT_KEEP_DAYS", wrong)
        with pytest.raises(ImproperlyConfigured, match="TINKERSCRIPT_KEEP_DAYS: "):
            keep_days_read()


def test_no_cursor_outlives_a_transaction_behind_a_pool_of_transactions() -> None:
    url = "postgres://u:p@pool/db"
    plain, pooled = (databases_read(it)["default"] for it in (url, f"{url}?pool_mode=transaction"))
    assert not plain["DISABLE_SERVER_SIDE_CURSORS"] and pooled["DISABLE_SERVER_SIDE_CURSORS"]
    assert not pooled["OPTIONS"], "the driver does not know pool_mode"
    for wrong in (f"{url}?pool_mode=session", "sqlite:////x?pool_mode=transaction"):
        with pytest.raises(ImproperlyConfigured, match="DATABASE_URL: pool_mode="):
            databases_read(wrong)


def test_the_url_of_the_mail_server_names_the_sender() -> None:
    assert mail_settings("", name="N")["DEFAULT_FROM_EMAIL"] == "tinkerscript@localhost"
    named = mail_settings("smtp://u:p@mail.example.org:587?from=lab@example.org", name="N")
    assert (named["DEFAULT_FROM_EMAIL"], named["EMAIL_PORT"]) == ("lab@example.org", 587)
    for written in ("lab+runs@example.org", "lab%2Bruns%40example.org"):
        named = mail_settings(f"smtp://mail.example.org?from={written}", name="N")
        assert named["DEFAULT_FROM_EMAIL"] == "lab+runs@example.org"
    for wrong in (
        "mail?to=a@b",
        "mail?from=nobody",
        "mail?from",
        "mail/inbox",
        "mail?from=a@b&to=c",
        "[::1",
    ):
        with pytest.raises(ImproperlyConfigured, match="N does not read smtp"):
            mail_settings(f"smtp://{wrong}", name="N")


def test_a_misspelt_folder_of_a_model_stops_start_up_and_names_its_neighbour(
    tmp_path, monkeypatch
) -> None:
    (tmp_path / "qwen3-8b").mkdir()
    (tmp_path / "qwen3-8b" / "config.json").write_text("{}")
    monkeypatch.setenv("TINKERSCRIPT_MODELS", f"qwen={tmp_path}/qwen3-8b")
    assert read_models("TINKERSCRIPT_MODELS") == {"qwen": f"{tmp_path}/qwen3-8b"}
    monkeypatch.setenv("TINKERSCRIPT_MODELS", f"qwen={tmp_path}/qwen3-8B")
    with pytest.raises(ImproperlyConfigured, match="Beside it is qwen3-8b"):
        read_models("TINKERSCRIPT_MODELS")


@pytest.mark.system
def test_runtimes_are_given_the_address_that_the_lease_process_listens_on(tmp_path) -> None:
    elsewhere = {
        "TINKERSCRIPT_HOST": "10.0.0.5", "TINKERSCRIPT_LAUNCHER": "docker", "TINKERSCRIPT_RUNTIME_IMAGE": "runtime:1",
        "TINKERSCRIPT_RUNTIME_MEMORY_GIB": "16", "S3_ENDPOINT_URL": "http://10.0.0.5:9000", "S3_ACCESS_KEY": "k",
        "S3_SECRET_KEY": "s",
    }  # fmt: skip
    says = "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'console.settings'; "
    says += (
        "from console.server.lease_address import runtime_server_url; print(runtime_server_url())"
    )
    given = read(tmp_path, says, **elsewhere, TINKERSCRIPT_LEASE_PORT="8001")
    assert given.stdout.strip() == "http://10.0.0.5:8001", given.stderr
    refused = read(tmp_path, says, **elsewhere)
    assert (
        refused.returncode
        and "needs TINKERSCRIPT_RUNTIME_SERVER_URL or TINKERSCRIPT_LEASE_PORT" in refused.stderr
    )
