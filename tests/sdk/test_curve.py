"""The curve in the terminal: its axis, its shape, and what cannot be drawn."""

import math
from xml.etree import ElementTree

import pytest
from IPython.core.formatters import DisplayFormatter

from tinkerscript import InvalidRequest
from tinkerscript.curve import Line, Plot, curve


def test_rise_is_a_staircase_between_its_lowest_and_highest_value():
    assert curve([0.0, 0.5, 1.0], title="reward", height=2).splitlines() == [
        "reward",
        "   1.000  ▁█",
        "   0.000 ▁██",
        "         1 3",
    ]


def test_the_axis_has_the_steps_that_were_drawn():
    assert curve([0.5, 0.7], steps=[0, 12]).splitlines()[-1] == "         0 12"
    assert curve([0.5], steps=[5]).splitlines()[-1] == "         5"
    some = curve([0.5, 0.7, math.nan], steps=[4, 5, 6])
    assert some.splitlines()[-1] == "         4 5", "what is left out has no place on the axis"
    plot = Plot("run", [Line("evaluation held-out", [0, 5], [0.1, 0.2])])
    assert str(plot).splitlines()[-1].split() == ["0", "5"]


def test_many_values_are_means_of_neighbours():
    text = curve(list(range(1000)), width=10, height=3)
    assert max(len(line) for line in text.splitlines()) == 9 + 10
    assert text.splitlines()[0].startswith(" 949.500")


def test_equal_values_and_none_are_drawn_or_said():
    assert "nothing to draw" in curve([])
    assert "nothing to draw" in curve([math.nan])
    assert curve([1.0, 1.0]).splitlines()[-2].strip().startswith("1.000")


def drawn(server, connect):
    for step in (1, 2):
        server.add_event(
            "metric", {"step": step, "reward_mean": step / 4, "reward_std": 0.1, "loss": -step}
        )
    server.add_event(
        "evaluation", {"name": "held <out>", "step": 0, "reward_mean": 0.1, "episodes": 2}
    )
    return connect(name="a & b")


def test_a_plot_has_the_steps_and_the_evaluations_and_is_a_picture_in_a_notebook(server, connect):
    plot = drawn(server, connect).plot()
    assert [(line.name, line.steps, line.values) for line in plot.lines] == [
        ("reward_mean", [1, 2], [0.25, 0.5]), ("evaluation held <out>", [0], [0.1]),
    ]  # fmt: skip
    shown, _ = DisplayFormatter().format(plot)
    root = ElementTree.fromstring(shown["image/svg+xml"])
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "a & b: reward_mean by step" and "evaluation held <out>" in texts
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 3
    assert (
        str(plot).startswith("a & b: reward_mean by step\n\nreward_mean\n")
        and str(plot) == shown["text/plain"]
    )


def test_a_plot_of_another_measure_is_written_where_it_is_asked_for(server, connect, tmp_path):
    session = drawn(server, connect)
    plot = session.plot(tmp_path / "loss.svg", measure="loss")
    assert [line.values for line in plot.lines] == [[-1.0, -2.0]]
    assert (tmp_path / "loss.svg").read_text() == plot.svg()
    for options, words in (
        ({"measure": "step"}, "measure must be"),
        ({"path": "a.gif"}, "svg or .png"),
    ):
        with pytest.raises(InvalidRequest, match=words):
            session.plot(**options)


def test_a_plot_before_the_first_step_is_empty_and_drawn(connect):
    plot = connect().plot()
    assert "no step yet" in str(plot)
    ElementTree.fromstring(plot.svg())
