"""The setting early_stopping reaches the search from Python, the command line and a server."""

import pytest

from headway.cli.main import main
from headway.decoding.input_search import InputSearch
from headway.tasks import registry
from headway.tasks.captioning.model import CaptionInput, CaptionOptions
from headway.tasks.translation.config import TranslationScoring
from headway.tasks.translation.options import TranslateInput, TranslateOptions
from headway.tasks.translation.task import score_lines
from tests.fixtures import bundles
from tests.fixtures.captioners import PIXELS
from tests.fixtures.images import png
from tests.fixtures.model_server import running

TEXT = "the fox eats"
TRANSLATOR, CAPTIONER, WRITER = bundles.translator(), bundles.captioner(), bundles.gpt()
BEAM = {"beam": 3, "early_stopping": True}


@pytest.fixture
def asked(monkeypatch):
    """Whether `InputSearch.stops_early` was called since the last question."""
    calls = []
    stops_early = InputSearch.stops_early

    def recorded(self, *arguments):
        calls.append(arguments)
        return stops_early(self, *arguments)

    monkeypatch.setattr(InputSearch, "stops_early", recorded)

    def was_asked():
        was_called = bool(calls)
        calls.clear()
        return was_called

    return was_asked


def test_python_methods_have_it(asked, tmp_path):
    (tmp_path / "image.png").write_bytes(png(PIXELS[0]))
    image = CaptionInput(image=tmp_path / "image.png")
    for call in (
        lambda **search: TRANSLATOR.translate([TEXT], **search),
        lambda **search: TRANSLATOR.search([TEXT], **search),
        lambda **search: list(TRANSLATOR.stream(TEXT, **search)),
        lambda **search: TRANSLATOR.predict(
            [TranslateInput(text=TEXT)], TranslateOptions(**search)
        ),
        lambda **search: CAPTIONER.caption(PIXELS, **search),
        lambda **search: CAPTIONER.search(PIXELS, **search),
        lambda **search: CAPTIONER.predict([image], CaptionOptions(**search)),
        lambda **search: WRITER.generate([TEXT], max_tokens=9, **search),
        lambda **search: list(WRITER.stream(TEXT, max_tokens=9, **search)),
    ):
        call(beam=3)
        assert not asked()
        call(**BEAM)
        assert asked()


def test_an_evaluation_has_it_and_says_so(asked, tmp_path):
    (tmp_path / "test.tsv").write_text(f"{TEXT}\tder fuchs\n")
    task = registry.task("translation")
    for stops in (False, True):
        options = TranslationScoring(beam=3, early_stopping=stops)
        examples = task.read(TRANSLATOR, [tmp_path / "test.tsv"], None, options)
        scores = task.evaluate(TRANSLATOR, examples, options)
        assert asked() is stops
        assert scores.details.get("early_stopping", False) is stops
        assert ("early stopping" in score_lines(scores)[0]) is stops


def test_the_command_line_has_it(asked, tmp_path, capsys):
    (tmp_path / "image.png").write_bytes(png(PIXELS[0]))
    (tmp_path / "test.tsv").write_text(f"{TEXT}\tder fuchs\n")
    bundles_by_verb = {"translate": TRANSLATOR, "caption": CAPTIONER, "generate": WRITER}
    for name, bundle in bundles_by_verb.items():
        bundle.save(tmp_path / name)
    for verb, model, value in (
        ("translate", "translate", TEXT),
        ("caption", "caption", str(tmp_path / "image.png")),
        ("eval", "translate", str(tmp_path / "test.tsv")),
        ("generate", "generate", TEXT),
    ):
        words = [verb, str(tmp_path / model), value, "--beam", "3"]
        for option, code, stops in (
            ([], 0, False),
            (["--early-stopping"], 0, True),
            (["--early-stopping=maybe"], 2, False),
        ):
            with pytest.raises(SystemExit) as leaving:
                main([*words, *option])
            error = capsys.readouterr().err.replace("_", "-")
            assert (leaving.value.code, asked()) == (code, stops), (words, option, error)
            assert not code or ("early-stopping" in error and "maybe" in error)


def test_requests_have_it(asked):
    prompt = {"prompt": TEXT, "max_tokens": 9, "use_beam_search": True}
    with running({"translator": TRANSLATOR, "writer": WRITER}) as client:
        for value, status in ((None, 200), (False, 200), (True, 200), ("maybe", 400), (3, 400)):
            parameters = {"beam": 3, "early_stopping": value}
            for path, body in (
                ("/v1/completions", {**prompt, "early_stopping": value}),
                ("/translate", {"inputs": TEXT, "parameters": parameters}),
            ):
                reply = client.post(path, body)
                assert (reply.status, asked()) == (status, value is True), (path, reply.body)
                assert status == 200 or b"early_stopping" in reply.body
