"""Each call of the wire, and each way in which a client notices that a server fails it, with the
test that shows it.
"""

import json
import re
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async

from api.tinker.routes import wire
from console.users.models import Project, User
from support.factories import BASE_MODEL, key_make
from support.tinker_client import Client
from tinkerscript.wire.account import Scope

TESTS = Path(__file__).resolve().parents[2]
API, LEDGER, SAMPLING, WHOLE, SAVING = (
    f"api/tinker/test_{name}.py"
    if name == "tinker_api"
    else f"gpu_runtime/gateway/tinker/test_tinker_{name}.py"
    for name in ("tinker_api", "ledger", "sampling", "whole", "saving")
)
ACCOUNT, WORK, UPLOADS = (
    f"api/tinker/test_{name}.py" for name in ("account", "work", "external_uploads")
)
# the unmodified client, every part of ours real
CLIENT = "e2e/test_tinker.py::test_a_tinker_program_runs_as_it_is"
COMMANDS = "e2e/test_tinker.py::test_the_command_line_lists_changes_downloads_and_deletes"
FIRST = "api/tinker/test_every_call.py::test_what_a_client_reads_before_anything_else"
NAMES = f"{API}::test_names_are_taken_once_listed_expire_and_go"
MODEL = f"{API}::test_a_model_gets_a_session_of_its_own_kind_and_the_promise_names_it"
VANISHES = (
    f"{API}::test_a_client_that_finishes_or_vanishes_frees_its_runtimes_and_its_checkpoints_stay"
)
STEPS = f"{WHOLE}::test_snapshots_and_the_base_are_sampled_side_by_side_and_outlive_the_runtime"
UPLOADED = (
    f"{UPLOADS}::test_uploaded_weights_are_a_checkpoint_that_is_listed_downloaded_and_deleted"
)
RUN, POINT = "training_runs/{model_id}", "training_runs/{model_id}/checkpoints/{segment}/{name}"
CALLS = {
    "POST client/config": FIRST,
    "POST client/dynamic_config": FIRST,
    "GET healthz": FIRST,
    "GET openapi.json": "api/tinker/test_every_call.py::test_the_document_has_each_row_and_the_types_of_its_body",
    "GET get_server_capabilities": FIRST,
    "POST auth/token": f"{ACCOUNT}::test_a_token_stands_for_its_key_until_either_ends",
    "POST create_session": MODEL,
    "POST session_heartbeat": VANISHES,
    "POST sessions/{session_id}/finish": VANISHES,
    "POST telemetry": f"{API}::test_what_a_client_says_of_itself_is_on_the_record_of_its_sessions",
    "POST create_model": MODEL,
    "POST get_info": MODEL,
    "POST forward_backward": f"{LEDGER}::test_a_model_is_trained_step_by_step",
    "POST optim_step": f"{LEDGER}::test_a_model_is_trained_step_by_step",
    "POST save_weights": f"{LEDGER}::test_after_a_kill_the_model_is_what_it_was_to_the_bit",
    "POST save_weights_for_sampler": STEPS,
    "POST save_weights_external": f"{LEDGER}::test_external_weights_can_be_read_by_their_recipients_alone",
    "POST load_weights": f"{LEDGER}::test_a_state_is_loaded_into_a_model_that_is_there_and_outlives_its_checkpoint",
    "POST copy_weights": "api/tinker/test_copies.py::"
    "test_a_copy_outlives_its_source_and_is_loaded_listed_and_deleted_like_any",
    "POST create_sampling_session": MODEL,
    "POST join_sampling_session": f"{ACCOUNT}::test_copies_of_a_sampling_client_get_numbers_of_their_own",
    "GET samplers/{sampler_id}": MODEL,
    "POST asample": f"{SAMPLING}::test_samples_come_with_log_probabilities_and_names",
    "POST cancel_future": f"{SAMPLING}::test_a_cancelled_sample_ends_and_one_of_an_earlier_runtime_is_gone",
    "POST retrieve_future": f"{LEDGER}::test_what_waits_says_so_with_408_and_why",
    "POST retrieve_futures": f"{SAMPLING}::test_one_question_tells_which_samples_of_a_client_are_done",
    "GET training_runs": f"{ACCOUNT}::test_lists_are_of_ones_own_or_of_the_project_and_say_when_a_model_was_last_asked",
    f"GET {RUN}": NAMES,
    f"GET {RUN}/checkpoints": NAMES,
    f"DELETE {POINT}": NAMES,
    f"POST {POINT}/publish": COMMANDS,
    f"DELETE {POINT}/publish": COMMANDS,
    f"PUT {POINT}/ttl": NAMES,
    f"GET {RUN}/checkpoints/external_weights/{{name}}/external_weights_urls": UPLOADED,
    "GET checkpoints": COMMANDS,
    "POST weights_info": f"{API}::test_anothers_sessions_models_and_paths_are_as_good_as_none",
    "GET sessions": f"{ACCOUNT}::test_lists_are_of_ones_own_or_of_the_project_and_say_when_a_model_was_last_asked",
    "GET sessions/{session_id}": MODEL,
    "POST sessions/search": f"{ACCOUNT}::test_sessions_are_searched_by_all_that_is_given_page_by_page",
    "PUT sessions/{session_id}/project": f"{ACCOUNT}::test_a_session_stays_in_the_one_project_of_its_key",
    "GET sessions/{session_id}/trace_export": f"{WORK}::"
    "test_durations_are_in_the_trace_and_what_overlaps_is_a_thread_of_its_own",
    "GET audit": f"{ACCOUNT}::test_the_audit_log_is_for_admin_keys",
    "GET billing/usage/events": f"{WORK}::"
    "test_tokens_are_in_the_usage_of_their_hour_once_and_for_their_own_project_alone",
    "GET billing/usage/checkpoints/current": f"{ACCOUNT}::test_checkpoints_are_searched_and_counted",
    "GET auth/apikey/me": f"{ACCOUNT}::test_a_key_revokes_itself_alone",
    "DELETE auth/apikey/me": f"{ACCOUNT}::test_a_key_revokes_itself_alone",
    "POST search_checkpoints": f"{ACCOUNT}::test_checkpoints_are_searched_and_counted",
    "POST checkpoints/search": f"{ACCOUNT}::test_checkpoints_are_searched_and_counted",
    "POST external_weights_upload_start": UPLOADED,
    "POST external_weights_upload_finish": UPLOADED,
}
# What the client was measured to do where a server does this, and how ours is known not to.
FAILURES = {
    "client/config is missing: nothing is constructed": FIRST,
    "client/dynamic_config, telemetry or heartbeat is missing: it goes on with less": VANISHES,
    "a key that does not begin as its own must is never sent": CLIENT,
    "create_session says 401: the client ends at once": f"{API}::test_without_a_good_key_nothing_is_said",
    "forward_backward says 5xx: the same number comes again": f"{LEDGER}::"
    "test_a_retry_gets_the_same_promise_and_another_body_is_refused",
    "forward_backward says 400: the number is a hole": f"{LEDGER}::"
    "test_a_mistake_comes_back_through_the_future_and_uses_its_number_up",
    "a number that never comes": f"{LEDGER}::test_a_number_that_never_comes_is_used_up",
    "chunks come before the first": f"{LEDGER}::test_chunks_that_come_early_wait_for_their_number",
    "a future without a long poll keeps the client busy": f"{LEDGER}::test_what_waits_says_so_with_408_and_why",
    "410 of a training operation ends the program": f"{LEDGER}::"
    "test_what_a_kill_interrupted_resolves_after_it_as_if_there_had_been_none",
    "429 or 402 while there is no runtime": f"{API}::"
    "test_while_there_is_no_runtime_each_kind_of_request_gets_what_its_client_waits_on",
    "409 for a name that is taken is tried again for minutes": NAMES,
    "a promise of a sample without sample_sequence_ids": f"{SAMPLING}::"
    "test_samples_come_with_log_probabilities_and_names",
    "a result as JSON, a metric without a colon, no loss:sum": CLIENT,
    "a size that is told twice": f"{SAMPLING}::test_a_large_result_tells_its_size_before_it_comes",
    "a field that a newer client sends": f"{API}::test_what_a_newer_client_says_more_does_not_end_it",
}


def test_every_call_has_a_test_that_shows_it() -> None:
    assert {f"{route.method} {route.path[1:]}" for route in wire} == set(CALLS)
    assert len(FAILURES) == 16
    for named in {*CALLS.values(), *FAILURES.values()}:
        module, _, name = named.partition("::")
        assert f"def {name}(" in (TESTS / module).read_text(), named


@pytest.mark.django_db(transaction=True)
async def test_every_call_needs_the_scopes_of_its_row(project: Project, alice: User) -> None:
    reader = Client(await sync_to_async(key_make)(project, alice, [Scope.SESSIONS_READ]))
    member = Client(await sync_to_async(key_make)(project, alice))
    for route in wire:
        path = re.sub(r"{\w+}", "x", route.path[1:])
        status, answer = await reader.send(route.method, path)
        assert status == 403 and "episodes" in answer["detail"], route.path
        if route.access.scope is Scope.ADMIN:
            status, answer = await member.send(route.method, path)
            assert status == 403 and "admin" in answer["detail"], route.path
    assert [route.path for route in wire if route.access.scope is not None] == ["/audit"]


@pytest.mark.django_db(transaction=True)
async def test_the_document_has_each_row_and_the_types_of_its_body(alices: Client) -> None:
    document = await alices.get("openapi.json")
    described = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert described == {f"{route.method} /api/v1{route.path}" for route in wire}
    names = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))
    assert names == document["components"]["schemas"].keys()
    assert document["components"]["schemas"]["ModelCreateBody"]["properties"]["lora_config"]


@pytest.mark.django_db(transaction=True)
async def test_clients_compute_losses_of_their_own(alices: Client) -> None:
    """Where the flag is off ``create_custom_loss`` of the client stays there, and a loss takes two
    passes.
    """
    assert (await alices.post("client/config", {"sdk_version": "0.38.0"}))[
        "custom_loss_server_side"
    ] is False
    assert await alices.post("create_custom_loss", {}, 404)


@pytest.mark.django_db(transaction=True)
async def test_what_a_client_reads_before_anything_else(alices: Client) -> None:
    flags = await alices.post("client/config", {"sdk_version": "0.38.0"})
    assert {name for name, is_on in flags.items() if is_on} == {
        "pjwt_auth_enabled", "proto_compress_fwdbwd", "parallel_fwdbwd_chunks", "sample_join_sampling_session",
    }  # fmt: skip
    assert await alices.post("client/dynamic_config", {"sdk_version": "0.38.0"}) == {
        "refresh_interval_sec": 300, "sample_cancel_enabled": True, "sample_cancel_max_batch_size": 64,
    }  # fmt: skip
    assert await alices.get("healthz") == {"status": "ok"}
    (model,) = (await alices.get("get_server_capabilities"))["supported_models"]
    assert (model["model_name"], model["trainable"], model["sampleable"]) == (
        BASE_MODEL,
        True,
        True,
    )
    assert model["max_context_length"] == 8192, "the model's own"
