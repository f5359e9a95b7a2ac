"""Figures that a page promises are those of the code: a limit, a time or a default is changed in
both places, or in none.

Files are read, not imported, so that this takes a second and needs no engine.
"""

import ast
import re
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
TOOLS = {"timedelta": timedelta, "frozenset": frozenset, "GIB": GIB}

# Words of a page, the file and the names there, their values.
FIGURES: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "docs/reference/requests.md": [
        ("below 0.1 it is eval", "gpu_runtime/generation/sampling.py", {"MIN_TEMPERATURE": 0.1}),
        ("a list of up to 128 of them", "gpu_runtime/generation/requests.py", {"MAX_PROMPTS": 128}),
        (
            "have 1 to 128 letters, digits",
            "gpu_runtime/generation/requests.py",
            {"NAME_LETTERS": 128},
        ),
        (
            "more than 10 s of a core to be made and followed for 64 tokens is refused",
            "gpu_runtime/engine/grammars/trial.py",
            {"COMPILE_CPU_S": 10.0, "TOKENS_TRIED": 64},
        ),
        (
            "more than 10 s of a core and 5 ms a token ends",
            "gpu_runtime/engine/grammars/budget.py",
            {"FOLLOW_CPU_S": 10.0, "TOKEN_CPU_S": 0.005},
        ),
        (
            "at most 8 blanks stand in a row, and a number has at most 18 digits before its point, "
            "17 behind it",
            "gpu_runtime/engine/grammars/bounds.py",
            {"MAX_BLANKS": 8, "MAX_DIGITS": 17},
        ),
        (
            "begins after 10 s at the latest, and has a `ping` every 10 s",
            "gpu_runtime/gateway/completion_handler.py",
            {"PING_S": 10.0},
        ),
    ],
    "docs/reference/tinker.md": [
        (
            "10 minutes after its last heartbeat",
            "console/tinker/services.py",
            {"VANISHED_S": 600.0},
        ),
        (
            "has been silent for a minute gives its place up",
            "console/scheduling/absent_clients.py",
            {"ABSENT_S": 60.0},
        ),
        (
            "of at most 8 KiB of request each (about 300 tokens) and 16 KiB together",
            "gpu_runtime/gateway/tinker/model_queue.py",
            {"SHORT_BYTES": 8 * KIB, "JOINED_BYTES": 16 * KIB},
        ),
        ("a datum beyond 512 tokens", "gpu_runtime/training/models/joined.py", {"LONGEST": 512}),
        (
            "does not come within five and a half minutes, for five of which the client tries to "
            "send it, counts as "
            "used up. One that is more than 4096 after the last is refused",
            "gpu_runtime/gateway/tinker/model_queue.py",
            {"GAP_S": 330.0, "MAX_GAP": 4096},
        ),
        (
            "the session waits for it for ten minutes",
            "gpu_runtime/gateway/tinker/operation_runner.py",
            {"STORE_S": 600.0},
        ),
        (
            "kept up to 20 000 or 256 MiB of a session",
            "gpu_runtime/gateway/tinker/samples/sampling.py",
            {"RESULTS_KEPT": 20_000, "RESULT_BYTES_KEPT": 256 * MIB},
        ),
        (
            "Their bodies have at most 64 KiB",
            "console/server/request_limits.py",
            {"MAX_BODY_BYTES": 64 * KIB},
        ),
        ("telemetry 1 MiB", "api/tinker/routes.py", {"TOLD_BYTES": MIB}),
        (
            "a quarter of the volume's room, which the clients share alike, at most 1024 and at least 2",
            "gpu_runtime/gateway/tinker/checkpoints/snapshots.py",
            {"SNAPSHOTS_PART": 0.25, "MOST_KEPT": 1024, "LEAST_KEPT": 2},
        ),
        (
            "ranks above 256 | refused",
            "sdk/tinkerscript/wire/tinker/messages.py",
            {"MAX_RANK": 256},
        ),
        ("a runtime is started for rank 32", "console/tinker/runtimes.py", {"LEAST_RANK": 32}),
        (
            "`topk_prompt_logprobs` | at most 20",
            "gpu_runtime/gateway/tinker/requests.py",
            {"MAX_TOP": 20},
        ),
        (
            "at most 128 tokens at a place",
            "gpu_runtime/gateway/tinker/requests.py",
            {"MAX_ROW": 128},
        ),
        (
            "the most at one 262 144",
            "gpu_runtime/gateway/tinker/samples/prompt_targets.py",
            {"MAX_CELLS": 262_144},
        ),
        (
            "fit a thirty-second of the memory, 2 to 32 in a batch of the engine and up to 1024",
            "gpu_runtime/engine/served/adapter_folders.py",
            {"MOST_AT_ONCE": 32, "MOST_LOADED": 1024},
        ),
        (
            "too long for a quarter of the memory",
            "gpu_runtime/training/models/trainer.py",
            {"ROW_PART": 0.25},
        ),
        (
            "stand for at most 16,777,216 numbers",
            "gpu_runtime/gateway/tinker/data.py",
            {"MAX_ELEMENTS": 16_777_216},
        ),
        ("works: a token for an hour", "console/tinker/tokens.py", {"LIFETIME_S": 3600}),
        (
            "of more than 2000 on a record the newest; an event is cut to 16 KiB",
            "console/tinker/telemetry.py",
            {"ON_RECORD": 2000, "EVENT_BYTES": 16 * KIB},
        ),
        (
            "up to 16 keys of age or SSH",
            "gpu_runtime/gateway/tinker/checkpoints/encryption.py",
            {"MAX_RECIPIENTS": 16},
        ),
        (
            "held for 25 s, then 408",
            "gpu_runtime/gateway/tinker/routes.py",
            {"POLL_S": 25.0},
        ),
        (
            "of a result above 64 KiB the size comes first",
            "gpu_runtime/gateway/tinker/routes.py",
            {"METADATA_BYTES": 64 * KIB},
        ),
        ("the newest 2000 reports are kept", "console/tinker/work.py", {"REPORTS_KEPT": 2000}),
        (
            "the newest 1000 entries, of a day if one is named, found among the newest 100,000",
            "api/tinker/account.py",
            {"MAX_ENTRIES": 1000, "AUDIT_PAGE": 1000, "MAX_AUDIT_PAGES": 100},
        ),
        ("4 unfinished uploads at once", "console/tinker/external_uploads.py", {"MAX_OPEN": 4}),
    ],
    "docs/howto/another-machine.md": [
        (
            "ends after 15 minutes (of the Tinker wire after six hours)",
            "console/settings.py",
            {"PRESIGNED_URL_S": 900, "TRANSFER_URL_S": 6 * 3600},
        ),
        (
            "may have 128 transfers under way in one web process, and all sessions together 512",
            "api/store_links.py",
            {"MAX_TRANSFERS_PER_SESSION": 128, "MAX_TRANSFERS": 512},
        ),
    ],
    "docs/howto/evaluation.md": [
        (
            "of more than 200 the first by name",
            "sdk/tinkerscript/wire/events.py",
            {"MAX_TASKS": 200},
        ),
        (
            "or hangs for 30 s at the end",
            "sdk/tinkerscript/rollouts/step_log.py",
            {"END_WAIT_S": 30.0},
        ),
    ],
    "docs/howto/export.md": [
        ("20 saved states at most", "console/tinker/lineage.py", {"MAX_ANCESTORS": 20}),
    ],
    "docs/howto/many-runners.md": [
        (
            "A row has at most 16 KiB",
            "sdk/tinkerscript/wire/tasks.py",
            {"MAX_ROW_BYTES": 16 * KIB},
        ),
        (
            "a session 100,000 attempts in all and 64 MiB of rows",
            "console/sessions/tasks/room.py",
            {"MAX_ATTEMPTS": 100_000, "MAX_BYTES": 64 * MIB},
        ),
        ("may have 1 MiB", "sdk/tinkerscript/wire/tasks.py", {"MAX_OUTPUTS_BYTES": MIB}),
        (
            "is tried once more in place",
            "sdk/tinkerscript/wire/tasks.py",
            {"TRIES_OF_ATTEMPT": 2},
        ),
    ],
    "docs/howto/runs.md": [
        (
            "Of the last ten runtimes the end is kept (5000 lines or 1 MiB each)",
            "console/scheduling/logs.py",
            {"MAX_CHUNKS": 10, "MAX_LINES": 5000, "MAX_CHARACTERS": MIB},
        ),
        ("A session has at most 20", "console/sessions/sharing/services.py", {"MAX_LINKS": 20}),
    ],
    "docs/operations/alerts.md": [
        (
            "fell by more than half of the best such mean, three times the mean difference of "
            "neighbouring steps, and "
            "a quarter of the spread",
            "console/sessions/alerts/rules.py",
            {"MEAN_OF": 5, "LOST_REWARD": 0.5, "REWARD_NOISE": 3.0, "REWARD_STD": 0.25},
        ),
        ("compared with its last fifty", "console/sessions/alerts/rules.py", {"WINDOW": 50}),
        ("at most once in fifty steps", "console/sessions/alerts/services.py", {"AGAIN_AFTER": 50}),
        (
            "is below a fifth of the highest",
            "console/sessions/alerts/rules.py",
            {"LEFT_ENTROPY": 0.2},
        ),
        ("is more than twice the shortest", "console/sessions/alerts/rules.py", {"LONGER": 2.0}),
        (
            "(`kl_before`) is above 0.1 in the mean",
            "console/sessions/alerts/rules.py",
            {"MAX_KL": 0.1},
        ),
        (
            "(`kl_engine`) is above 0.1 in the mean of five steps, where more than single tokens "
            "make it "
            "(`engine_gap_p90` above 0.1)",
            "console/sessions/alerts/rules.py",
            {"MAX_ENGINE_GAP": 0.1, "USUAL_GAP": 0.1},
        ),
        (
            "more than half of the answers of five steps",
            "console/sessions/alerts/rules.py",
            {"MOSTLY_CUT": 0.5},
        ),
        (
            "three quarters of the groups of five steps",
            "console/sessions/alerts/rules.py",
            {"MOSTLY_LEVEL": 0.75},
        ),
        ("is below four fifths of the bound", "console/sessions/alerts/rules.py", {"OVER": 0.8}),
        (
            "once an hour",
            "console/sessions/alerts/services.py",
            {"DROPPED_AGAIN": timedelta(hours=1)},
        ),
        (
            "also after three runtimes that ended",
            "console/scheduling/recovery.py",
            {"SAME_FAULTS": 3},
        ),
        (
            "less than 3 % of the disk",
            "console/sessions/runtime/machine_samples.py",
            {"SHORT_SHARE": 0.03},
        ),
        (
            "50, 80 and 100 % of a limit",
            "console/sessions/budgets.py",
            {"ALERT_SHARES": (0.5, 0.8, 1.0)},
        ),
        ("50 at most): a measure", "console/sessions/alerts/metric_rules.py", {"MAX_RULES": 50}),
        ("last 1 to 50 steps", "sdk/tinkerscript/wire/reading/alerts.py", {"MAX_STEPS": 50}),
        ("twenty a day at most", "console/sessions/alerts/mail.py", {"MAX_A_DAY": 20}),
        ("a relay carries up to 8,192", "api/relay/limits.py", {"MAX_CALLS": 8192}),
    ],
    "docs/operations/disk.md": [
        (
            "A journal of more than 16 MiB is pruned",
            "gpu_runtime/trajectories/stored_calls.py",
            {"SMALL_BYTES": 16 * MIB},
        ),
        (
            "that one 30 days after",
            "console/sessions/checkpoints/leftovers.py",
            {"LAST_STATE_KEPT": timedelta(days=30)},
        ),
        ("every ten minutes", "console/sessions/checkpoints/leftovers.py", {"SWEEP_EVERY_S": 600}),
        (
            "4 GB of weights, 64 MiB of each other file",
            "console/tinker/uploaded_files.py",
            {"MAX_WEIGHTS_BYTES": 4 * 10**9, "MAX_SMALL_BYTES": 64 * MIB},
        ),
        (
            "in statements of 1,000 rows, for at most ten seconds",
            "console/sessions/runtime/episode_expiry.py",
            {"AT_ONCE": 1000, "ROUND_S": 10.0},
        ),
        (
            "less than 1 % of its disk is free",
            "console/object_store/free_space.py",
            {"FLOOR_SHARE": 0.01},
        ),
        ("a GiB of space where runtimes keep", "console/settings.py", {"DISK_FLOOR_BYTES": GIB}),
        ("up to half an hour for space", "console/settings.py", {"STOP_DEADLINE_S": 1800.0}),
        ("`GOMEMLIMIT=400MiB`", "console/object_store/seaweedfs.py", {"MEMORY_BYTES": 400 * MIB}),
    ],
    "docs/operations/identity-provider.md": [
        (
            "ends 12 hours after it began",
            "console/users/providers/sign_in.py",
            {"SIGN_IN": timedelta(hours=12)},
        ),
    ],
    "docs/operations/launchers.md": [
        (
            "`process` at 16 MiB",
            "console/scheduling/launchers/log_file.py",
            {"LIMIT_BYTES": 16 * MIB},
        ),
        (
            "less than 6 GiB available, and it ends below 2 GiB",
            "console/scheduling/launchers/warm.py",
            {"TO_START_BYTES": 6 * GIB, "TO_KEEP_BYTES": 2 * GIB},
        ),
        (
            "started again after 10 s, then 20 s, up to 10 minutes",
            "console/scheduling/launchers/warm.py",
            {"BACK_OFF_S": 10.0, "BACK_OFF_MAX_S": 600.0},
        ),
        ("else after ten seconds", "console/scheduling/leader.py", {"LEASE_S": 10.0}),
    ],
    "docs/operations/settings.md": [
        (
            "the keys of one person together have five times as many",
            "api/rest/rate_limit.py",
            {"KEYS_OF_ONE": 5},
        ),
    ],
    "docs/security.md": [
        (
            "300 refused keys, leases, sign-ins or links of one address in 10 s",
            "console/server/address_limit.py",
            {"LIMIT": 300, "WINDOW_S": 10},
        ),
        (
            "was right in the last hour passes",
            "console/server/address_limit.py",
            {"KNOWN_S": 3600.0},
        ),
        (
            "120 s, 4 MiB of answer, 8 calls of a project at once",
            "console/operations/outside_calls.py",
            {"TIMEOUT_S": 120.0, "MAX_ANSWER_BYTES": 4 * MIB, "AT_ONCE_PER_PROJECT": 8},
        ),
        ("a head has 10 s", "sdk/tinkerscript/processes/bounded_http.py", {"HEAD_S": 10.0}),
        (
            "a text of 64 tokens, with 10 s of a core and 2 GiB",
            "gpu_runtime/engine/grammars/trial.py",
            {"TOKENS_TRIED": 64, "COMPILE_CPU_S": 10.0, "MAX_BYTES": 2 * GIB},
        ),
        (
            "two deliveries of a project at once",
            "console/webhooks/sending.py",
            {"MAX_PER_PROJECT": 2},
        ),
    ],
}


@cache
def constants(path: str) -> dict[str, Any]:
    """The constants of a module that stand for themselves, or follow from those above them."""
    found: dict[str, Any] = {}
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            try:
                names = ast.unparse(node.targets[0]).strip("()").split(", ")
                value = eval(ast.unparse(node.value), {"__builtins__": {}}, TOOLS | found)
            except (AttributeError, NameError, TypeError):  # it calls what is not known here
                continue
            found |= dict(zip(names, value, strict=True)) if len(names) > 1 else {names[0]: value}
    return found


@pytest.mark.parametrize("page", FIGURES)
def test_a_figure_of_a_page_is_that_of_the_code(page: str) -> None:
    text = re.sub(r"\s+", " ", (ROOT / page).read_text())
    for words, path, values in FIGURES[page]:
        assert words in text, f"{page} has not the words {words!r}"
        found = {name: constants(path).get(name) for name in values}
        assert found == values, f"{page}: {words!r}, but {path} has {found}"
