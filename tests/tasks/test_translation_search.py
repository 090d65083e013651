"""What a user can ask of the search for translations: phrases, glossaries, samples, ensembles."""

import json

import pytest
import torch

from headway.base.errors import DataError, UsageError
from headway.tasks import registry
from headway.tasks.translation.config import TranslationScoring
from headway.tasks.translation.glossary import Glossary, required_phrases
from headway.tasks.translation.options import TranslateInput, TranslateOptions
from headway.tasks.translation.task import score_lines
from tests.fixtures.command_line import headway as run_headway
from tests.fixtures.translators import make

TEXTS = ["the fox eats the lemon", "two dogs play", "bread"]


def predicted(bundle, **options):
    inputs = [TranslateInput(text=text) for text in TEXTS]
    outputs = bundle.predict(inputs, TranslateOptions(**options))
    return [output.translations[0].text for output in outputs]


def test_translations_contain_what_they_must_and_nothing_they_must_not():
    bundle = make()
    contain = ("zitrone", "im garten")
    for text in predicted(bundle, contain=contain, beam=4):
        assert all(phrase in text for phrase in contain)
    every = [["zitrone"]] * 3
    tokens = tuple(bundle.tokenizer.target.encode("die zitrone"))
    for (best, *_), plain in zip(
        bundle.search(TEXTS, beam=3, contain=every, avoid=["die zitrone"]),
        bundle.search(TEXTS, beam=3, contain=[["die zitrone"]] * 3),
        strict=True,
    ):
        assert "zitrone" in best.text and "die zitrone" in plain[0].text
        assert all(best.tokens[i : i + len(tokens)] != tokens for i in range(len(best.tokens)))
    with pytest.raises(UsageError, match="no output for input 1"):
        bundle.search(TEXTS, beam=3, contain=[["die zitrone"]] * 3, avoid=["zitrone"])
    assert bundle.search(TEXTS, beam=3, contain=[[], [], []]) == bundle.search(TEXTS, beam=3)


def test_a_translation_is_streamed_as_it_becomes_certain():
    bundle = make()
    for text in [*TEXTS, ""]:
        for beam in (1, 4):
            parts = list(bundle.stream(text, beam=beam, length_penalty=0.6))
            assert "".join(parts) == bundle.search([text], beam=beam, length_penalty=0.6)[0][0].text
            assert all(parts)


def test_the_coverage_penalty_changes_scores_and_needs_a_beam():
    bundle = make()
    plain, covering = (bundle.search(TEXTS, beam=4, coverage=weight) for weight in (0.0, 2.0))
    assert all(a[0].score > b[0].score for a, b in zip(plain, covering, strict=True))
    assert predicted(bundle, coverage=2.0) == [best[0].text for best in covering]
    with pytest.raises(UsageError, match="at least 2"):
        predicted(bundle, coverage=2.0, beam=1)


def test_a_glossary_requires_the_translations_of_the_terms_of_a_text(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("fox\tfuchs\n\nred garden\troter garten\ngarden\tgarten\nC++\tC++\n")
    glossary = Glossary.read(path)
    assert glossary.required("The FOX in the red garden") == ["fuchs", "roter garten"]
    assert glossary.required("a firefox gardener") == []
    assert glossary.required("learn C++ now") == ["C++"]
    assert required_phrases(["a fox", "a dog"], ["x"], glossary) == [["x", "fuchs"], ["x"]]
    texts = predicted(make(), glossary=path)
    assert "fuchs" in texts[0]
    assert texts[1:] == predicted(make())[1:]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("fox\n", "expected a source term, a tab and a target term"),
        ("a\tb\tc\n", "expected a source term"),
        ("fox\tfuchs\nfox\tFuchs\n", "has two translations"),
        ("\n", "has no terms"),
    ],
)
def test_a_wrong_glossary_is_refused_with_its_line(tmp_path, content, reason):
    path = tmp_path / "terms.tsv"
    path.write_text(content)
    with pytest.raises(DataError, match=reason):
        Glossary.read(path)
    with pytest.raises(UsageError, match="no such file"):
        Glossary.read(tmp_path / "none.tsv")


def test_the_probability_of_a_sample_contains_that_of_its_end():
    bundle = make()
    source, target = bundle.tokenizer.source, bundle.tokenizer.target
    samples = [sample for sample in bundle.sample(TEXTS[:1], 24)[0] if sample.finished]
    assert samples
    inputs = torch.tensor([[*source.encode(TEXTS[0]), source.eos]])
    for sample in samples:
        outputs = torch.tensor([[target.bos, *sample.tokens, target.eos]])
        with torch.inference_mode():
            log_p = bundle.model(inputs, outputs[:, :-1]).log_softmax(-1)
        expected = log_p.gather(2, outputs[:, 1:, None]).sum().item()
        assert sample.log_probability == pytest.approx(expected, rel=1e-4)


def test_samples_are_ranked_by_their_likeness_to_all_and_do_not_depend_on_the_batch():
    bundle = make()
    together = bundle.sample([*TEXTS, ""], 8, seed=3)
    for text, translations in zip(TEXTS, together, strict=False):
        (alone,) = bundle.sample([text], 8, seed=3)
        assert [t.text for t in alone] == [t.text for t in translations]
        for one, other in zip(alone, translations, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, rel=1e-4)
        scores = [translation.score for translation in translations]
        assert scores == sorted(scores, reverse=True)
        assert len({t.text for t in translations}) == len(translations) > 1
    assert [t.text for t in together[-1]] == [""]
    assert bundle.sample(TEXTS, 8, seed=99) != together[:3]
    assert predicted(bundle, mbr=8, seed=3) == [t[0].text for t in together[:3]]
    (only,) = bundle.sample(["bread"], 1)[0]
    assert only.score == pytest.approx(100)
    with pytest.raises(UsageError, match="--mbr"):
        predicted(bundle, mbr=4, contain=("brot",))


def test_an_ensemble_of_one_model_translates_as_it_and_others_need_its_tokenizer():
    bundle = make()
    assert bundle.ensemble([make()]).translate(TEXTS) == bundle.translate(TEXTS)
    other = make(joint=False)
    with pytest.raises(DataError, match="another tokenizer"):
        bundle.ensemble([other])


def test_an_ensemble_and_minimum_bayes_risk_are_measured_as_they_translate(tmp_path):
    bundle, other = make(), make(num_heads=2)
    other.save(tmp_path / "other")
    (tmp_path / "test.tsv").write_text(
        "".join(f"{text}\tdie zitrone und hunde\n" for text in TEXTS)
    )
    task = registry.task("translation")

    def evaluated(**options):
        chosen = TranslationScoring(beam=2, **options)
        examples = task.read(bundle, [tmp_path / "test.tsv"], None, chosen)
        return task.evaluate(bundle, examples, chosen)

    def outputs(**options):
        samples = evaluated(samples=len(TEXTS), **options).samples
        return [sample["output"] for sample in samples]

    both = (tmp_path / "other",)
    joint = bundle.ensemble([other])
    assert outputs() == bundle.translate(TEXTS, beam=2)
    assert outputs(ensemble=both) == joint.translate(TEXTS, beam=2) != outputs()
    assert outputs(mbr=6, seed=3) == predicted(bundle, mbr=6, seed=3)
    assert outputs(mbr=6, ensemble=both) == [t[0].text for t in joint.sample(TEXTS, 6)]
    assert "nats" in evaluated() and "nats" not in evaluated(ensemble=both)
    assert "beam 2, length penalty 1, ensemble of 2" in score_lines(evaluated(ensemble=both))[0]
    assert "minimum Bayes risk of 6 samples" in score_lines(evaluated(mbr=6))[0]


def test_a_text_that_is_too_long_is_split_at_sentences_and_never_cut(monkeypatch):
    bundle = make()
    monkeypatch.setattr("headway.tasks.translation.batches.TOKENS", 20)
    sentences = ["The fox eats the lemon.", "Two dogs play!", "Bread?"]
    inputs = [TranslateInput(text=text) for text in ("bread", " ".join(sentences), "two dogs")]
    outputs = bundle.predict(inputs, TranslateOptions(beam=2, nbest=2, align=True))
    assert [output.line for output in outputs] == [1, 2, 3]
    (joined,) = outputs[1].translations
    assert joined.text == " ".join(bundle.translate(sentences, beam=2))
    assert outputs[1].alignment is None and outputs[2].alignment is not None
    assert len(outputs[2].translations) == 2
    with pytest.raises(UsageError, match=r"text 1, sentence 2, has .* maximum length"):
        long = "Bread. The fox and the dogs and the fox and the lemon and the garden play."
        bundle.predict([TranslateInput(text=long)])


def test_the_command_line_has_them_all(tmp_path):
    make().save(tmp_path / "model")
    make(num_heads=2).save(tmp_path / "other")
    (tmp_path / "terms.tsv").write_text("bread\tbrot\n")

    def translations(*words):
        lines = run_headway("translate", "model", *words, "--json", cwd=tmp_path).stdout
        return [json.loads(line)["translations"] for line in lines.splitlines()]

    ((best, *_),) = translations("bread", "--contain", "die zitrone", "--contain", "hunde")
    assert "die zitrone" in best["text"] and "hunde" in best["text"]
    ((best, *_),) = translations("bread", "--glossary", "terms.tsv", "--normalisation", "average")
    assert "brot" in best["text"]
    assert translations("bread", "--ensemble", "other") != translations("bread")
    (ranked,) = translations("bread", "--mbr", "6", "--nbest", "2")
    assert len(ranked) == 2 and ranked[0]["score"] >= ranked[1]["score"]
    for words, code, reason in [
        (("--contain", " "), 2, "a phrase is empty"),
        (("--glossary", "none.tsv"), 2, "no such file"),
        (("--ensemble", "nowhere"), 2, "nowhere"),
        (("--mbr", "4", "--avoid", "x"), 2, "--mbr samples translations"),
        (("--contain", "zitrone " * 40), 2, "no output for input 1"),
    ]:
        result = run_headway("translate", "model", "bread", *words, cwd=tmp_path, check=code)
        assert reason in result.stderr and "Traceback" not in result.stderr
