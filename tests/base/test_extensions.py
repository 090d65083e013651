"""Entry points of other packages that are broken: the error names the package, not Headway."""

import textwrap

import pytest

from headway.base.errors import HeadwayWarning, UsageError
from headway.base.settings import COMMAND_LINE, override
from headway.models import GPTConfig, TranslatorConfig
from headway.models.gpt import GPT
from headway.models.kernels_and_positions import KERNELS, POSITIONS
from headway.models.registry import MODELS
from headway.models.translator import Translator
from headway.tasks.registry import TASKS, forget, task, tasks

MODULE = """
from headway.attention import ScaledDot
from headway.tasks.registry import Entry


def without_arguments():
    return ScaledDot()


def number(num_heads, head_dim, **options):
    return 3


def refusing(num_heads, head_dim, **options):
    raise ValueError("head_dim must be 7")


constant = 5
entry = Entry(path="broken_module:constant", kind="oracle")
missing = Entry(path="no_such_module:TASK", kind="oracle")
silent = Entry(path="headway.tasks.word_vectors.task:WORD_VECTORS", kind="oracle", verb="see")
incomplete = Entry(path="incomplete_module:TASK", kind="oracle")
"""


@pytest.fixture
def provide(tmp_path, monkeypatch):
    """Installs a package broken-package with one entry point, for the duration of a test."""
    registries = (KERNELS, POSITIONS, MODELS)

    def install(group, name, value):
        information = tmp_path / "broken_package-1.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: broken-package\nVersion: 1\n"
        )
        (information / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
        (tmp_path / "broken_module.py").write_text(textwrap.dedent(MODULE))
        (tmp_path / "incomplete_module.py").write_text(
            "from headway.tasks.task import Task\n\nTASK = Task(name='oracle')\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        refresh()

    def refresh():
        for registry in registries:
            registry.forget()
        forget()

    with monkeypatch.context():
        yield install
    monkeypatch.undo()
    refresh()


def assert_names_the_package(error, value):
    assert "broken-package" in error.where and value in error.where


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module:kernel", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("broken_module:absent", "AttributeError: module 'broken_module' has no attribute"),
        ("broken_module:constant", "must be a function, found one of int"),
    ],
)
@pytest.mark.parametrize(
    ("group", "config", "setting"),
    [
        ("headway.kernels", GPTConfig(), "attention"),
        ("headway.kernels", TranslatorConfig(), "attention"),
        ("headway.positions", GPTConfig(), "positions"),
    ],
)
def test_a_setting_with_a_broken_entry_point_is_refused_for_its_reason(
    provide, group, config, setting, value, reason
):
    provide(group, "broken", value)
    with pytest.raises(UsageError, match=f"{setting}=broken: {group} 'broken'") as caught:
        override(config, {setting: "broken"}, COMMAND_LINE)
    assert reason in caught.value.what and "must be one of" not in caught.value.what
    assert_names_the_package(caught.value, value)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("without_arguments", r"TypeError: without_arguments\(\) takes 0 positional arguments"),
        ("number", "must return an object of Kernel, found one of int"),
        ("refusing", "ValueError: head_dim must be 7"),
    ],
)
def test_a_factory_that_fails_names_its_package(provide, function, reason):
    provide("headway.kernels", "broken", f"broken_module:{function}")
    for make, config in ((GPT, GPTConfig), (Translator, TranslatorConfig)):
        with pytest.raises(UsageError, match=reason) as caught:
            make(override(config(), {"attention": "broken"}, COMMAND_LINE))
        assert_names_the_package(caught.value, f"broken_module:{function}")


@pytest.mark.parametrize("function", ["without_arguments", "number", "refusing"])
def test_positions_of_a_package_that_fail_name_it(provide, function):
    provide("headway.positions", "broken", f"broken_module:{function}")
    with pytest.raises(
        UsageError, match=r"headway.positions 'broken' (failed|must return)"
    ) as caught:
        GPT(override(GPTConfig(), {"positions": "broken"}, COMMAND_LINE))
    assert_names_the_package(caught.value, function)


def test_a_family_of_the_wrong_class_names_its_package(provide):
    provide("headway.models", "broken", "broken_module:number")
    with pytest.raises(
        UsageError, match="must be an object of ModelSpec, found one of function"
    ) as caught:
        MODELS["broken"]
    assert_names_the_package(caught.value, "broken_module:number")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("broken_module:constant", "must be an object of Entry, found one of int"),
        ("no_such_module:entry", "cannot be imported"),
    ],
)
def test_a_broken_task_is_left_out_with_a_warning(provide, value, reason):
    provide("headway.tasks", "broken", value)
    with pytest.warns(HeadwayWarning, match=reason):
        assert "broken" not in tasks() and "translation" in tasks()


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("entry", "must name a Task, found an object of int"),
        ("missing", "no_such_module"),
        ("silent", "must have both a verb and the part predicts"),
        ("incomplete", "cannot be imported: TypeError: .*'config'"),
    ],
)
def test_a_task_whose_path_is_wrong_is_left_out_with_a_warning(provide, entry, reason):
    provide("headway.tasks", "broken", f"broken_module:{entry}")
    with pytest.warns(HeadwayWarning, match=reason):
        assert "broken" not in tasks() and "translation" in tasks()
    with pytest.raises(UsageError, match=reason) as caught:
        task("broken")
    assert_names_the_package(caught.value, f"broken_module:{entry}")
    assert "broken" in TASKS
