"""A chat model learns from rewards: the gradient is that of the formula, for answer tokens only."""

import json
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from importlib.util import find_spec

import pytest
import torch

import headway.tasks.reward.objective as objective_module
from headway.base.errors import DataError, UsageError
from headway.base.ranks import ALONE, Ranks
from headway.base.settings import override
from headway.bundle import TextBundle
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.dialogues import Problem, Turn, has_problems, read_problems
from headway.interop import ChatTemplate
from headway.tasks.dialogue_store import with_vocabulary
from headway.tasks.reward.config import RewardConfig, RewardDataConfig, RewardScoring, reward
from headway.tasks.reward.data import HeldOutProblems, check_rewards, encoded
from headway.tasks.reward.objective import RewardObjective, advantages, policy_loss, seed_of
from headway.tasks.reward.problems import problem_set
from headway.tasks.reward.task import REWARD, score_lines, with_whole_models
from headway.tasks.rewards import REWARDS, named_reward, rewards_of
from headway.tasks.sampled_answers import SampledAnswer, log_probabilities, padded_answers
from headway.tasks.target_mask import TEMPLATE, with_role_tokens
from headway.transforms import fast
from tests.fixtures.dialogues import language_model


def problem(question, answer="", kind=""):
    return Problem((Turn("user", question),), answer, kind)


PROBLEMS = [problem("the dog?", "a small dog", "a"), problem("a fox", "the red", "b")]


@pytest.fixture
def chat():
    start = language_model()
    tokenizer = with_role_tokens(start.tokenizer)
    settings = replace(start.settings, template=ChatTemplate(by_name={"default": TEMPLATE}))
    return TextBundle(with_vocabulary(start.model, tokenizer.size), tokenizer, settings)


def answer(prompt, tokens, is_complete=True):
    return SampledAnswer(prompt, tokens, "", is_complete)


GROUPS = [
    [answer([1, 5, 9], [7, 3]), answer([1, 5, 9], [8, 8, 6]), answer([1, 5, 9], [4])],
    [answer([2, 4], [6]), answer([2, 4], [3, 1]), answer([2, 4], [9, 9, 9, 9])],
]
REWARDS_OF_GROUPS = torch.tensor([[1.0, 0.0, 0.5], [0.0, 0.0, 1.0]])


def gradient(model, loss):
    model.zero_grad()
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def by_the_formula(model, config, reference=None):
    """The gradient of -1/N sum_i A_i sum_t log p(y_it | x, y_i<t), one token after the other."""
    total, count = torch.zeros((), dtype=torch.double), 0
    for group, given in zip(GROUPS, REWARDS_OF_GROUPS.double(), strict=True):
        log_p = []
        for one in group:
            terms = []
            for position, token in enumerate(one.tokens):
                before = torch.tensor([[*one.prompt, *one.tokens[:position]]])
                terms.append(model(before)[0, -1].log_softmax(-1)[token])
            log_p.append(sum(terms))
            count += len(one.tokens)
        returns = given.clone()
        if reference is not None:
            for i, one in enumerate(group):
                (start,) = log_probabilities(reference, [one.sequence], "cpu")
                returns[i] -= config.kl * (log_p[i].item() - start)
        mean = sum(returns) / len(group)
        deviation = (sum((r - mean) ** 2 for r in returns) / (len(group) - 1)) ** 0.5
        for r, log in zip(returns, log_p, strict=True):
            total = total - (r - mean) / (deviation + 1e-4 if config.scale else 1) * log
    return gradient(model, total / count)


CONFIGS = [RewardConfig(), RewardConfig(scale=True), RewardConfig(kl=0.3)]


def of_the_objective(model, config, reference=None):
    loss = policy_loss(model, GROUPS, REWARDS_OF_GROUPS.double(), config, reference)
    return gradient(model, loss.total / loss.count)


@pytest.mark.parametrize("config", CONFIGS)
def test_the_gradient_is_that_of_the_formula_token_by_token(config):
    model = language_model().model.double()
    reference = None
    if config.kl:
        reference = with_vocabulary(model, model.config.vocabulary).double()
        with torch.no_grad():
            for parameter in reference.parameters():
                parameter.mul_(0.9)
    expected = by_the_formula(model, config, reference)
    torch.testing.assert_close(
        of_the_objective(model, config, reference), expected, rtol=1e-9, atol=1e-12
    )


def wrong_sign(rewards, scale=False):
    return -advantages(rewards, scale)


def off_by_one(answers):
    tokens, targets = padded_answers(answers)
    return tokens, targets.roll(1, 1)


def with_prompt(answers):
    return padded_answers([(tokens, is_answer | True) for tokens, is_answer in answers])


@pytest.mark.parametrize(
    ("name", "fault"),
    [("advantages", wrong_sign), ("padded_answers", off_by_one), ("padded_answers", with_prompt)],
)
def test_a_planted_fault_changes_the_gradient(monkeypatch, name, fault):
    model = language_model().model.double()
    expected = by_the_formula(model, CONFIGS[0])
    monkeypatch.setattr(objective_module, name, fault)
    assert not torch.allclose(of_the_objective(model, CONFIGS[0]), expected, rtol=1e-3)


def test_a_group_with_equal_rewards_has_no_gradient():
    model = language_model().model
    loss = policy_loss(model, GROUPS, torch.ones(2, 3), RewardConfig(scale=True))
    assert gradient(model, loss.total).abs().max() == 0


def test_answers_come_from_the_present_weights_and_from_the_seeds(chat):
    """After an update the engine must not decode with weights that it arranged before."""
    model = fast(chat.model).train()
    objective = RewardObjective(RewardConfig(samples=3, tokens=5), chat.tokenizer, REWARDS["exact"])
    batch = encoded(PROBLEMS, chat, NONE_LEFT_OUT).batch([0, 1], 0, 42)
    first = objective.answers(model, batch)
    assert objective.answers(model, batch) == first and model.training
    assert len({tuple(one.tokens) for group in first for one in group}) > 1
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-1.5)
    moved = objective.answers(model, batch)
    anew = with_vocabulary(model.eval(), chat.config.vocabulary)
    assert moved != first and moved == objective.answers(anew, batch)
    assert seed_of(42, 0, 1) != seed_of(42, 1, 1) != seed_of(42, 1, 0)


def are_even(reward, problems, answers):
    """A reward of the first token of an answer, in place of `rewards_of`."""
    return torch.tensor([float(one.tokens[0] % 2 == 0) for one in answers])


@pytest.fixture
def rewarded(chat, monkeypatch):
    """Trains for some steps, and returns the mean reward of answers after them."""
    monkeypatch.setattr(objective_module, "rewards_of", are_even)
    model = chat.model.train()
    side = encoded(PROBLEMS, chat, NONE_LEFT_OUT)
    config = RewardConfig(samples=16, tokens=2)
    objective = RewardObjective(config, chat.tokenizer, REWARDS["exact"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)

    def after(steps):
        for epoch in range(steps):
            loss = objective(model, side.batch([0, 1], epoch, 42))
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()
        groups = objective.answers(model, side.batch([0, 1], 99, 1))
        return are_even(None, None, [one for group in groups for one in group]).mean().item()

    return after


def test_a_policy_that_is_rewarded_for_its_first_token_gets_every_reward(rewarded):
    """Samples, their log-probabilities, advantages and targets fit together: a bandit is solved."""
    assert rewarded(0) < 0.75
    assert rewarded(25) == 1


def test_a_wrong_sign_keeps_the_policy_from_the_rewards(rewarded, monkeypatch):
    monkeypatch.setattr(objective_module, "advantages", wrong_sign)
    assert rewarded(25) < 0.9


def test_an_answer_that_was_cut_gets_no_reward():
    right = SampledAnswer([1], [2], "yes", True)
    answers = [right, replace(right, is_complete=False)]
    problems = [problem("?", "yes"), problem("?", "yes")]
    assert rewards_of(REWARDS["exact"], problems, answers).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "right", "text", "expected"),
    [
        ("exact", "12", " 12 ", 1),
        ("exact", "12", "12.", 0),
        ("number", "12", "3 + 9 = 12.0", 1),
        ("number", "12", "12 or 13", 0),
        ("number", "12", "twelve", 0),
        ("contains", "dog", "a dog", 1),
        ("words", "a b c d", "a x c", 0.5),
        ("short", "one two", "a b c d", 0.5),
        ("short", "one two", "a", 1),
    ],
)
def test_rewards(name, right, text, expected):
    assert named_reward(name)(problem("?", right), text) == expected


@pytest.mark.parametrize(
    ("function", "fault"),
    [("slice", "must return an object of Real, found one of slice"), ("repr", "failed, called")],
)
def test_a_reward_of_another_package_must_return_a_number(monkeypatch, function, fault):
    entry = EntryPoint("theirs", f"builtins:{function}", REWARDS.group)
    monkeypatch.setitem(vars(REWARDS), "_entries", {"theirs": [entry]})
    with pytest.raises(UsageError, match=f"headway.rewards 'theirs' {fault}") as refused:
        named_reward("theirs")(problem("?"), "x")
    assert f"builtins:{function}" in refused.value.where


def test_the_evaluation_reports_rewards_groups_and_divergence(chat):
    side = encoded(PROBLEMS, chat, NONE_LEFT_OUT)
    config = RewardConfig(samples=4, tokens=4)
    held_out = HeldOutProblems(side, lambda p, t: float(p.kind == "a"), config, chat)
    always = replace(held_out, reward=lambda p, t: 1.0)
    scores = REWARD.evaluate(chat, held_out, RewardScoring(sample=1))
    assert scores["kl"] == 0 and scores.counts == {"prompts": 2, "groups": 2}
    assert set(scores.details["by_kind"]) == {"a", "b"}
    assert scores.details["by_kind"]["b"] == {"count": 1, "mean": 0.0}
    assert (
        scores["no_signal"]
        <= REWARD.evaluate(chat, replace(always), RewardScoring())["no_signal"]
        <= 1
    )
    assert "b  " in "\n".join(score_lines(scores)) and len(scores.samples) == 1


def test_prompts_with_answers_are_read_in_all_layouts(tmp_path):
    rows = [
        {"prompt": "2 + 2 =", "answer": 4, "kind": "add"},
        {"messages": [{"role": "user", "content": "Hi"}], "answer": "Hello"},
        {"messages": [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]},
    ]
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = list(read_problems([path]))
    assert [(p.question, p.answer, p.kind) for p in read] == [
        ("2 + 2 =", "4", "add"),
        ("Hi", "Hello", ""),
        ("A", "B", ""),
    ]
    assert has_problems(path) and read[0].values["answer"] == 4
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "A"}]}))
    assert not has_problems(path)
    with pytest.raises(DataError, match="expected a prompt with its answer"):
        list(read_problems([path]))


def test_a_task_generates_the_same_prompts_and_none_is_in_both_splits():
    data = RewardDataConfig(train=("sort",), problems=60)
    first, second = (problem_set(data, BadRows.of("stop")) for _ in range(2))
    assert (first.train, first.held_out) == (second.train, second.held_out)
    assert (len(first.train), len(first.held_out)) == (54, 6)
    answers = {one.answer for one in first.train}
    assert first.reward(first.train[0], first.train[0].answer) == 1 and len(answers) > 20


def configured(*names, **data):
    config = reward()
    return replace(
        config,
        data=replace(config.data, train=names, **data),
        training=replace(config.training, start="runs/chat"),
    )


def test_an_unknown_task_is_refused_by_name():
    with pytest.raises(UsageError, match="no file and no task 'sorting'"):
        check_rewards(configured("sorting"))
    with pytest.raises(UsageError, match="from a chat model, and none is named"):
        check_rewards(reward())


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(UsageError, match="not installed") as refused:
        check_rewards(configured("reasoning-gym:chain_sum"))
    assert "headway[reasoning]" in refused.value.hint


@pytest.mark.skipif(find_spec("reasoning_gym") is None, reason="needs reasoning-gym")
def test_problems_of_reasoning_gym_are_verified_by_its_own_function():
    options = ("min_terms=2", "max_terms=2", "max_digits=1")
    data = RewardDataConfig(train=("reasoning-gym:chain_sum",), problems=20, options=options)
    problems = problem_set(data, BadRows.of("stop"))
    one = problems.train[0]
    assert problems.reward(one, one.answer) == 1 and problems.reward(one, "wrong") < 0.5
    with pytest.raises(UsageError, match="has no task 'nothing'"):
        check_rewards(configured("reasoning-gym:nothing"))
    with pytest.raises(UsageError, match=r"data\.options=legs=2: reasoning-gym refuses"):
        check_rewards(configured("reasoning-gym:chain_sum", options=("legs=2",)))


def test_processes_that_sample_answers_hold_the_whole_model():
    """Their answers have different lengths, so they call it a different number of times."""
    config, two = configured("words"), Ranks(0, 2, 0, 2)
    assert with_whole_models(config, two).machine.shard == "replicate"
    assert with_whole_models(config, ALONE) is config
    in_parts = override(config, {"machine.shard": "shard"}, "the test")
    assert with_whole_models(in_parts, ALONE) is in_parts
    with pytest.raises(UsageError, match="answers of different lengths"):
        with_whole_models(in_parts, two)
