"""Every command that writes a new file or folder names it by `--output`, in short `-o`."""

from tests.fixtures.user_texts import commands

WRITING = {
    *("align", "data.fetch", "embed", "export", "figures", "lecture", "look", "quantize"),
    *("report", "translate", "words.scatter"),
}


def test_output_has_a_short_name_in_every_command_that_has_it():
    names = {
        name.removeprefix("headway ").replace(" ", "."): argument.names
        for name, command in commands()
        if command.default_command is not None
        for argument in command.assemble_argument_collection()
        if argument.names[0] in {"--output", "--out"}
    }
    assert names.keys() >= WRITING
    assert set(names.values()) == {("--output", "-o")}
