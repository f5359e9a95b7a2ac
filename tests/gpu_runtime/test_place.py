"""Where a runtime is reached, and that it has the devices that were asked for."""

import importlib.metadata
import re
import sys
from types import SimpleNamespace

import pytest

from gpu_runtime import placement
from gpu_runtime.config import RuntimeConfig, address_advertise
from gpu_runtime.errors import PlacementImpossible
from gpu_runtime.placement import devices_verify


def config(tmp_path, **changes) -> RuntimeConfig:
    same = {
        "server_url": "http://127.0.0.1:8000",
        "lease": "x",
        "session_id": "ses_1",
        "runtime_dir": tmp_path,
    }
    return RuntimeConfig(**(same | changes))


def test_a_gateway_on_one_address_is_reached_there(tmp_path) -> None:
    assert address_advertise(config(tmp_path), "127.0.0.1:4711") == "127.0.0.1:4711"


def test_a_gateway_that_listens_everywhere_is_reached_over_the_interface_that_leads_to_the_server(
    tmp_path,
) -> None:
    assert address_advertise(config(tmp_path), "0.0.0.0:7000") == "127.0.0.1:7000"


def test_a_name_that_the_launcher_gave_is_what_is_said(tmp_path) -> None:
    named = config(tmp_path, address="ts-x.tests.svc:7000")
    assert address_advertise(named, "0.0.0.0:7000") == "ts-x.tests.svc:7000"


def no_gpu(cuda: str | None) -> SimpleNamespace:
    """A torch that sees none, built for that version of CUDA."""
    return SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: False), version=SimpleNamespace(cuda=cuda)
    )


@pytest.mark.parametrize(
    ("cuda", "driver", "why"),
    [
        (None, "580.65", "build for CPUs, and the machine has driver 580.65: make up BUILD=cuda"),
        ("13.0", "570.1", "driver 570.1: CUDA 13 needs driver 580 or newer"),
        ("13.0", None, "no NVIDIA driver, or its container was given no device"),
    ],
)
def test_a_refusal_for_no_gpu_names_the_build_and_the_driver(
    monkeypatch, cuda, driver, why
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "torch", no_gpu(cuda))
    monkeypatch.setattr(
        placement, "nvml_open", lambda: driver and SimpleNamespace(driver=lambda: driver)
    )
    with pytest.raises(
        PlacementImpossible, match=f"1 GPUs were asked for and 0 are visible.*{re.escape(why)}"
    ):
        devices_verify(1)


def test_fewer_gpus_than_were_asked_for_are_found_out_from_inside(monkeypatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    cuda = SimpleNamespace(is_available=lambda: True, device_count=lambda: 1)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    devices_verify(1)
    with pytest.raises(PlacementImpossible, match="2 GPUs were asked for and 1 are visible"):
        devices_verify(2)


def test_a_runtime_that_asks_for_no_gpu_loads_no_torch_to_look(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    devices_verify(0)


def test_the_engine_for_gpus_is_not_started_where_none_is(monkeypatch) -> None:
    named = []
    monkeypatch.setattr(importlib.metadata, "distribution", named.append)
    monkeypatch.setitem(sys.modules, "torch", no_gpu("13.0"))
    with pytest.raises(PlacementImpossible, match="no GPU is visible.*TINKERSCRIPT_RUNTIME_GPUS"):
        devices_verify(0)
    assert named == ["vllm"]
