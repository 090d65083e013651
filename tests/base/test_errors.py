"""Errors have three parts and an exit code."""

from __future__ import annotations

from headway.base.errors import DataError, HeadwayError, OutOfMemory, UsageError, closest


def test_an_error_has_three_parts_on_three_lines_and_an_exit_code():
    error = HeadwayError("what", "where", "do this")
    assert str(error).split("\n") == ["what", "  at   where", "  try  do this"]
    assert (error.what, error.where, error.hint) == ("what", "where", "do this")
    assert str(DataError("what")) == "what"
    kinds = (HeadwayError, UsageError, DataError, OutOfMemory)
    assert [kind.exit_code for kind in kinds] == [1, 2, 3, 4]
    assert isinstance(error, ValueError)


def test_a_misspelt_name_is_recognised():
    assert closest("lrr", ["lr", "steps"]) == "lr"
    assert closest("zebra", ["lr", "steps"]) is None
