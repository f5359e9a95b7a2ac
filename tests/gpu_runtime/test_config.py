import os

import pytest

from gpu_runtime.config import BadConfig, config_load, config_read

LEASE = "tml-ls-ses_0123456789abcdef." + "a" * 64


def environ(tmp_path, **changes):
    values = {
        "TINKERSCRIPT_SERVER_URL": "http://127.0.0.1:8000/",
        "TINKERSCRIPT_LEASE": LEASE,
        "TINKERSCRIPT_RUNTIME_DIR": str(tmp_path),
    }
    return {**values, **changes}


def test_a_runtime_knows_its_server_session_and_folder(tmp_path):
    config = config_read(environ(tmp_path))
    assert config.server_url == "http://127.0.0.1:8000"
    assert config.session_id == "ses_0123456789abcdef"
    assert config.runtime_dir == tmp_path
    assert (config.listen_host, config.listen_port, config.address, config.gpus) == (
        "127.0.0.1",
        0,
        None,
        0,
    )


def test_a_runtime_with_a_network_of_its_own_gets_where_to_listen_and_how_it_is_reached(tmp_path):
    variables = {
        "LISTEN": "0.0.0.0:7000",
        "ADDRESS": "ts-x.tests.svc:7000",
        "GPUS": "2",
        "NOTICE_S": "50",
    }
    config = config_read(
        environ(
            tmp_path, **{f"TINKERSCRIPT_RUNTIME_{name}": value for name, value in variables.items()}
        )
    )
    assert (config.listen_host, config.listen_port) == ("0.0.0.0", 7000)
    assert (config.address, config.gpus, config.notice_s) == ("ts-x.tests.svc:7000", 2, 50)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TINKERSCRIPT_SERVER_URL", ""),
        ("TINKERSCRIPT_SERVER_URL", "127.0.0.1:8000"),
        ("TINKERSCRIPT_SERVER_URL", "ftp://127.0.0.1"),
        ("TINKERSCRIPT_SERVER_URL", "http://127.0.0.1/path"),
        ("TINKERSCRIPT_LEASE", ""),
        ("TINKERSCRIPT_LEASE", "tml-ls-ses_1.abc"),
        ("TINKERSCRIPT_LEASE", LEASE + "\nX: y"),
        ("TINKERSCRIPT_RUNTIME_DIR", ""),
        ("TINKERSCRIPT_RUNTIME_DIR", "relative"),
        ("TINKERSCRIPT_RUNTIME_DIR", "/nowhere/at/all"),
        ("TINKERSCRIPT_RUNTIME_LISTEN", "7000"),
        ("TINKERSCRIPT_RUNTIME_LISTEN", "0.0.0.0:70000"),
        ("TINKERSCRIPT_RUNTIME_ADDRESS", "http://x:1"),
        ("TINKERSCRIPT_RUNTIME_ADDRESS", "x:0"),
        ("TINKERSCRIPT_RUNTIME_GPUS", "all"),
        ("TINKERSCRIPT_RUNTIME_NOTICE_S", "-1"),
    ],
)
def test_a_malformed_variable_is_named(tmp_path, name, value):
    with pytest.raises(BadConfig, match=name):
        config_read(environ(tmp_path, **{name: value}))


def test_a_malformed_environment_ends_the_process_with_a_message(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", environ(tmp_path, TINKERSCRIPT_LEASE="nonsense"))
    with pytest.raises(SystemExit, match="error: TINKERSCRIPT_LEASE"):
        config_load()


def test_the_lease_is_neither_inherited_nor_printed(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", environ(tmp_path))
    config = config_load()
    assert config.lease == LEASE
    assert "TINKERSCRIPT_LEASE" not in os.environ
    assert LEASE not in repr(config)
