"""What a session's view has that its row has not."""

from api.presenters import session_list_view, session_view
from console.catalogue import base_models
from support import factories
from support.safetensors_bytes import safetensors_bytes
from tinkerscript.wire.config import SessionConfig

OF_LOSS = ["clip_low", "clip_high", "normalize_advantage"]


def test_a_session_names_the_rate_that_its_model_decided_while_the_model_is_there(project) -> None:
    config = SessionConfig(loss="dapo", epochs=2)
    run = factories.session_make(project, config=config)
    assert session_view(run).decided == ["learning_rate", *OF_LOSS]
    gone = factories.session_make(project, config=config, base_model="gone")
    page = session_list_view([run, gone], None).items
    assert [view.decided for view in page] == [["learning_rate", *OF_LOSS], OF_LOSS]


def test_the_size_of_a_folder_of_ones_own_is_read_from_its_files(
    project, settings, tmp_path
) -> None:
    settings.EXTRA_MODELS = {"mine": str(tmp_path)}
    run = factories.session_make(project, base_model="mine")
    assert "learning_rate" not in session_view(run).decided, "no weights are there"
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes({"w": [4, 4]}))
    assert "learning_rate" in session_view(run).decided


def test_a_page_of_sessions_of_many_models_reads_the_catalogue_once(project, monkeypatch) -> None:
    runs = [factories.session_make(project, base_model=f"model-{n}") for n in range(3)]
    read, models = [], base_models.added_models
    monkeypatch.setattr(base_models, "added_models", lambda: read.append(1) or models())
    assert len(session_list_view(runs, None).items) == 3
    assert len(read) == 1
