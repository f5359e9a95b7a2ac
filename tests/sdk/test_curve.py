"""The curve in the terminal: its axis, its shape, and what cannot be drawn."""

import math

from tinkerscript.curve import curve


def test_rise_is_a_staircase_between_its_lowest_and_highest_value():
    assert curve([0.0, 0.5, 1.0], title="reward", height=2).splitlines() == [
        "reward",
        "   1.000  ▁█",
        "   0.000 ▁██",
        "         1 3",
    ]


def test_many_values_are_means_of_neighbours():
    text = curve(list(range(1000)), width=10, height=3)
    assert max(len(line) for line in text.splitlines()) == 9 + 10
    assert text.splitlines()[0].startswith(" 949.500")


def test_equal_values_and_none_are_drawn_or_said():
    assert "nothing to draw" in curve([])
    assert "nothing to draw" in curve([math.nan])
    assert curve([1.0, 1.0]).splitlines()[-2].strip().startswith("1.000")
