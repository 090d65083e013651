"""Programs of ten lines that run AOTInductor packages without Headway, in Python and in C++."""

from collections.abc import Mapping, Sequence

from headway.exporting.graphs import Argument, Graph

PYTHON_FILE, CPP_FILE = "run.py", "run.cpp"
PACKAGE = ".pt2"
PAST = "past_key_values"


def python_loader(graphs: Sequence[Graph], start: int) -> str:
    """Return a program that prints the largest of the first outputs. start: the first token of a
    target."""
    ids = "torch.tensor([[int(word) for word in sys.argv[1:]]])"
    lines = [
        f'"""Runs this folder without Headway: python {PYTHON_FILE}{_usage(graphs)}"""',
        "",
        "import sys",
        "",
        "import torch",
        "from torch._inductor import aoti_load_package as load",
        "",
        f"given = {_given(graphs, ids, 'torch.zeros(1, {})')}",
    ]
    for graph in graphs:
        values = _values(graph, _PYTHON, start)
        if past := _past(graph):
            values.append(
                f"[torch.zeros(1, {past[0].axes[1]}, 0, {past[0].axes[3]})] * {len(past)}"
            )
        call = f"load({graph.name + PACKAGE!r})({', '.join(values)})"
        lines.append(f"{_VARIABLES[graph.name]} = {call}")
    return "\n".join([*lines, "print(outputs[0].argmax(-1).tolist())"]) + "\n"


def cpp_loader(graphs: Sequence[Graph], start: int) -> str:
    """Return the same program in C++, which is linked with libtorch."""
    ids = "torch::tensor(ids).unsqueeze(0)"
    lines = [
        f"// Runs this folder without Headway: ./run{_usage(graphs)}",
        "#include <iostream>",
        "#include <torch/csrc/inductor/aoti_package/model_package_loader.h>",
        "#include <torch/torch.h>",
        "",
        "int main(int count, char** words) {",
        "  std::vector<int64_t> ids;",
        "  for (int i = 1; i < count; ++i) ids.push_back(std::stoll(words[i]));",
        f"  auto given = {_given(graphs, ids, 'torch::zeros({{1, {}}})')};",
    ]
    for graph in graphs:
        name, values = _VARIABLES[graph.name], ", ".join(_values(graph, _CPP, start))
        lines.append(f"  std::vector<at::Tensor> {name}_inputs = {{{values}}};")
        if past := _past(graph):
            empty = f"torch::zeros({{1, {past[0].axes[1]}, 0, {past[0].axes[3]}}})"
            lines.append(f"  {name}_inputs.insert({name}_inputs.end(), {len(past)}, {empty});")
        loader = f'torch::inductor::AOTIModelPackageLoader("{graph.name}{PACKAGE}")'
        lines.append(f"  auto {name} = {loader}.run({name}_inputs);")
    return "\n".join([*lines, "  std::cout << outputs[0].argmax(-1) << std::endl;", "}"]) + "\n"


_VARIABLES = {"model": "outputs", "encoder_model": "hidden", "decoder_model_merged": "outputs"}
"""Name of a graph -> the variable with its outputs."""

_PYTHON = {
    "given": "given",
    "mask": "torch.ones_like(given)",
    "types": "torch.zeros_like(given)",
    "positions": "torch.arange(given.shape[1])[None]",
    "target": "torch.tensor([[{start}]])",
    "source": "hidden[0]",
    "source mask": "torch.ones(hidden[0].shape[:2], dtype=torch.long)",
}
_CPP = {
    "given": "given",
    "mask": "torch::ones_like(given)",
    "types": "torch::zeros_like(given)",
    "positions": "torch::arange(given.size(1)).unsqueeze(0)",
    "target": "torch::full({{1, 1}}, {start}, torch::kLong)",
    "source": "hidden[0]",
    "source mask": "torch::ones({{1, hidden[0].size(1)}}, torch::kLong)",
}
"""What an input is -> the expression that makes it."""


_ROLES = {
    "attention_mask": "mask",
    "token_type_ids": "types",
    "position_ids": "positions",
    "encoder_hidden_states": "source",
    "encoder_attention_mask": "source mask",
}
"""Name of an input -> what it is; all others are given, or the target of a decoder."""


def _values(graph: Graph, expressions: Mapping[str, str], start: int) -> list[str]:
    """Return the expressions of all inputs but the keys and values of earlier tokens."""
    has_source = any(one.name == "encoder_hidden_states" for one in graph.inputs)
    roles = {"input_ids": "target"} if has_source else {}
    return [
        expressions[(_ROLES | roles).get(one.name, "given")].format(start=start)
        for one in graph.inputs
        if not one.name.startswith(PAST)
    ]


def _past(graph: Graph) -> list[Argument]:
    """Return the inputs with keys and values of earlier tokens, which have one shape."""
    return [one for one in graph.inputs if one.name.startswith(PAST)]


def _given(graphs: Sequence[Graph], ids: str, pixels: str) -> str:
    """Return the expression of the input: ids of tokens from the command line, or pixels."""
    first = graphs[0].inputs[0]
    return ids if first.kind == "token" else pixels.format(", ".join(map(str, first.axes[1:])))


def _usage(graphs: Sequence[Graph]) -> str:
    return " 5 6 7 (ids of tokens)" if graphs[0].inputs[0].kind == "token" else " (black pixels)"
