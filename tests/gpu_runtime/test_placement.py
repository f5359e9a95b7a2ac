"""Engine and trainer get their devices by what the session asks for and the machine has; what
cannot be is refused.
"""

import pytest

from gpu_runtime import placement as placement_module
from gpu_runtime.errors import PlacementImpossible
from gpu_runtime.placement import Placement, gpus_given, placement_choose
from tinkerscript.wire.config import SessionConfig

FOUR = ["0", "1", "2", "3"]


def choose(placement: str, gpus: list[str], ranks: int = 1) -> Placement:
    return placement_choose(SessionConfig(placement=placement, trainer_ranks=ranks), gpus)


def test_a_machine_without_a_gpu_places_nothing() -> None:
    assert choose("auto", []) == Placement("cpu")


@pytest.mark.parametrize("placement", ["shared", "split"])
def test_a_placement_that_means_nothing_here_is_refused(placement: str) -> None:
    with pytest.raises(PlacementImpossible, match=f"placement={placement}.*has none"):
        choose(placement, [])


def test_auto_gives_each_its_own_where_there_are_enough() -> None:
    assert choose("auto", ["0", "1"]) == choose("split", ["0", "1"])
    assert choose("auto", ["0"]) == choose("shared", ["0"])
    assert choose("auto", FOUR, ranks=3).shared is False
    assert choose("auto", FOUR, ranks=4).shared is True


def test_split_parts_have_devices_of_their_own_first_and_see_each_others() -> None:
    place = choose("split", FOUR, ranks=3)
    assert (place.engines(), place.trainer_gpus) == ([("0", "1", "2", "3")], ("1", "2", "3", "0"))


def test_shared_parts_are_on_the_same_devices() -> None:
    place = choose("shared", FOUR, ranks=2)
    assert place.shared and place.engine_gpus == place.trainer_gpus == ("0", "1")
    assert place.engines() == place.engines(2) == [("0", "1")], (
        "one: each that sleeps keeps its weights on the host"
    )


def test_a_session_takes_no_more_gpus_than_its_launcher_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement_module, "gpus_visible", lambda: FOUR)
    assert gpus_given(SessionConfig(), 3) == ["0", "1", "2"]
    assert gpus_given(SessionConfig(trainer_ranks=2), 0) == ["0", "1", "2"], (
        "one engine, where no number is known"
    )


def test_what_the_ranks_leave_are_engines_of_their_own() -> None:
    place = choose("auto", FOUR)
    assert (place.engine_gpus, place.trainer_gpus) == (("0", "1", "2"), ("3", "0", "1", "2"))
    assert [seen[0] for seen in place.engines()] == ["0", "1", "2"]
    assert all(sorted(seen) == FOUR for seen in place.engines()), (
        "weights are read from the trainer's device"
    )
    assert choose("auto", []).engines() == [()], "one engine on a CPU"


def test_an_engine_that_spreads_over_several_devices_has_them_first() -> None:
    six = [str(number) for number in range(6)]
    place = choose("split", six, ranks=2)
    assert [seen[:2] for seen in place.engines(2)] == [("0", "1"), ("2", "3")]
    assert [seen[:2] for seen in choose("split", six, ranks=1).engines(2)] == [
        ("0", "1"),
        ("2", "3"),
    ], "one is left"
    assert len(place.engines(4)) == 1


@pytest.mark.parametrize(
    ("placement", "ranks", "needed"), [("split", 4, 5), ("shared", 5, 5), ("auto", 5, 5)]
)
def test_more_than_the_machine_has_is_refused_by_number(
    placement: str, ranks: int, needed: int
) -> None:
    with pytest.raises(PlacementImpossible, match=f"needs {needed} GPUs; this machine has 4"):
        choose(placement, FOUR, ranks=ranks)


def test_a_further_machine_places_its_own_devices_alike() -> None:
    """Over several machines with GPUs nothing has been run yet; where each part would be, is
    told.
    """
    config = SessionConfig(trainer_ranks=4, nodes=2)
    own = placement_choose(config, ["0", "1", "2"])
    assert (own.engine_gpus, own.trainer_gpus) == (("0",), ("1", "2", "0"))
    there = own.on_other(["4", "5", "6"])
    assert (there.engine_gpus, there.trainer_gpus) == (("4",), ("5", "6", "4"))
    shared = placement_choose(config, ["0", "1"])
    assert shared.shared and shared.on_other(["2", "3"]).trainer_gpus == ("2", "3")
    assert placement_choose(config, []).on_other([]).engines() == [()]
