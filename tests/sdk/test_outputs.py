"""A workflow output is checked where it is made, and is on the wire what was given."""

import math
import pickle

import numpy
import pytest
from sdk.http_parts import Answer

from tinkerscript import InvalidRequest, InvalidReward, WorkflowOutput
from tinkerscript.wire import episodes as wire


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "1.0", 10**400])
@pytest.mark.parametrize(
    "field", ["reward", "rewards_by_agent", "rewards_by_call", "reward_parts", "metrics"]
)
def test_an_output_is_refused_where_it_is_made(field, value):
    fields = {"reward": 1.0} | {field: value if field == "reward" else {"a": value}}
    with pytest.raises(InvalidReward, match=field):
        WorkflowOutput(**fields)


@pytest.mark.parametrize(
    "value", [numpy.array([0.5]), numpy.array([[0.5]]), numpy.array(0.5), numpy.float16(0.5)]
)
def test_an_array_of_one_element_is_its_number(value):
    assert WorkflowOutput(reward=value).reward == 0.5, "and NumPy warns of nothing"


@pytest.mark.parametrize(
    "value", [numpy.array("0.5"), numpy.complex64(1), numpy.array([0.5, 1]), numpy.array([])]
)
def test_an_array_that_is_no_number_is_refused(value):
    with pytest.raises(InvalidReward, match="reward must be"):
        WorkflowOutput(reward=value)


@pytest.mark.parametrize("value", ["no", "False", math.nan, 2, [], numpy.array([True, False])])
def test_a_success_that_is_neither_true_nor_false_is_refused(value):
    with pytest.raises(InvalidRequest, match="is_success must be True or False"):
        WorkflowOutput(reward=1.0, is_success=value)


@pytest.mark.parametrize(("value", "truth"), [(numpy.True_, True), (1, True), (0.0, False)])
def test_a_success_is_a_bool_or_0_or_1(value, truth):
    assert WorkflowOutput(reward=1.0, is_success=value).is_success is truth


def test_an_output_with_an_unknown_field_is_refused_where_it_is_made():
    with pytest.raises(InvalidRequest, match="metric"):
        WorkflowOutput(reward=1.0, metric={})


def test_an_output_is_sent_with_what_was_given_alone_and_equals_the_wires():
    output = WorkflowOutput(reward=numpy.float32(0.5))
    assert output == wire.WorkflowOutput(reward=0.5) and wire.WorkflowOutput(reward=0.5) == output
    assert output.model_fields_set == {"reward"} and pickle.loads(pickle.dumps(output)) == output
    assert (
        wire.EpisodeEnd(output=output).model_dump_json(exclude_unset=True)
        == '{"output":{"reward":0.5}}'
    )


def test_an_end_whose_request_came_too_slowly_keeps_its_reward(server, session):
    session.begin_episode()
    server.fail("POST .*/end", times=2, answer=Answer(408))
    assert session.end_episode(1.0).reward == 1.0
    assert (
        len(server.ended) == 1 and len({request.key for request in server.seen("POST .*/end")}) == 1
    )
