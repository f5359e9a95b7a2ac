"""Whose episode keys a gateway takes."""

import time

import pytest

from gpu_runtime.episodes.keys import EpisodeKeys
from gpu_runtime.refusals import BadKey
from support.gateway_harness import make_assignment
from tinkerscript.wire.episode_key import EpisodeClaim, sign

PRESENT, PREVIOUS, STRANGE = "ab" * 32, "cd" * 32, "ef" * 32


def test_a_key_from_before_a_rotation_of_the_servers_secret_is_taken_and_a_strangers_is_not() -> (
    None
):
    assignment = make_assignment(signing_key=PRESENT).model_copy(
        update={"previous_episode_signing_keys": [PREVIOUS]}
    )
    keys = EpisodeKeys(assignment, now=time.time)
    claim = EpisodeClaim(assignment.session_id, "ep_1", int(time.time()) + 60)
    for known in (PRESENT, PREVIOUS):
        assert keys.episode_of(sign(bytes.fromhex(known), claim)) == "ep_1"
    with pytest.raises(BadKey):
        keys.episode_of(sign(bytes.fromhex(STRANGE), claim))
