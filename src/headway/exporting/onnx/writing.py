"""Writes the graphs of a model as ONNX files, and converts their numbers."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from headway.base.errors import HeadwayError
from headway.exporting.graphs import BATCH, LENGTH, PAST, PAST_SOURCE, SOURCE, TOTAL, Axes, Graph
from headway.exporting.onnx.running import missing

OPSET = 18
TRACED = {BATCH: 2, LENGTH: 3, PAST: 4, TOTAL: 7, SOURCE: 5, PAST_SOURCE: 2}
"""Sizes of the axes while a graph is traced. They differ and are at least 2: sizes 0 and 1 would be
taken for constants."""

SUFFIXES = {"float32": "", "float16": "_fp16", "int8": "_quantized", "int4": "_q4"}
"""Numbers of the matrices -> the end of a file's name, as transformers.js has it."""
BLOCK = 32
"""Weights that share a scale in int8 and int4."""
BITS = {"int8": 8, "int4": 4}


def write_graph(graph: Graph, path: Path) -> None:
    """Trace a graph and write it in float32, with axes of the names in `graph`.

    Raises UsageError if the package is not installed, HeadwayError if torch cannot trace it.
    """
    onnx = _package("onnx")
    _package("onnxscript")
    inputs, free = traced_inputs(graph)
    with quietly():
        try:
            program = torch.onnx.export(
                graph.module,
                inputs,
                dynamo=True,
                dynamic_shapes=free,
                input_names=[one.name for one in graph.inputs],
                output_names=list(graph.outputs),
                opset_version=OPSET,
                external_data=False,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            reason = " ".join(str(error.__cause__ or error).split())[:300]
            raise HeadwayError(
                f"torch cannot trace the model: {reason}", str(path), "keep it as a Headway model"
            ) from error
    assert program is not None
    model = program.model_proto
    del model.graph.value_info[:]  # they have other names of the axes
    _name_axes(model.graph.input, {one.name: one.axes for one in graph.inputs})
    _name_axes(model.graph.output, graph.outputs)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def traced_inputs(graph: Graph) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the inputs by which a graph is traced, and which of their axes have any size."""
    values = graph.example(TRACED, torch.Generator().manual_seed(0))
    return graph.arguments(values), graph.arguments([_dynamic(one.axes) for one in graph.inputs])


def _dynamic(axes: Axes) -> dict[int, Any]:
    return {i: torch.export.Dim.DYNAMIC for i, axis in enumerate(axes) if isinstance(axis, str)}


def _name_axes(values: Any, axes: dict[str, Axes]) -> None:
    """Give the axes of inputs or outputs our names."""
    for value in values:
        for axis, dimension in zip(axes[value.name], value.type.tensor_type.shape.dim, strict=True):
            if isinstance(axis, str):
                dimension.dim_param = axis
            else:
                dimension.dim_value = axis


def convert(path: Path, dtype: str, to: Path) -> None:
    """Write a float32 file with other numbers; its inputs and outputs stay float32.

    float16: all numbers. int8, int4: matrices of products, in blocks of `BLOCK` weights with a
    scale, in int4 also a zero point; the products are those of float32, so no result depends on the
    batch (MatMulNBits).
    """
    onnx = _package("onnx")
    with quietly():
        if dtype == "float16":
            float16 = import_module("onnxruntime.transformers.float16")
            model = float16.convert_float_to_float16(
                onnx.load(str(path)), keep_io_types=True, disable_shape_infer=True
            )
            onnx.save(model, str(to))
            return
        quantizer = import_module("onnxruntime.quantization.matmul_nbits_quantizer")
        chosen = quantizer.MatMulNBitsQuantizer(
            _with_constant_matrices(onnx, onnx.load(str(path))),
            bits=BITS[dtype],
            block_size=BLOCK,
            is_symmetric=dtype == "int8",
        )
        chosen.process()
        chosen.model.save_model_to_file(str(to), use_external_data_format=False)


def _with_constant_matrices(onnx: Any, model: Any) -> Any:
    """Replace each transposed weight by a weight, since only constant matrices are quantised."""
    weights = {one.name: one for one in model.graph.initializer}
    for node in [node for node in model.graph.node if node.op_type == "Transpose"]:
        if (weight := weights.get(node.input[0])) is not None:
            order = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
            values = onnx.numpy_helper.to_array(weight).transpose(order)
            model.graph.initializer.append(
                onnx.numpy_helper.from_array(values.copy(), node.output[0])
            )
            model.graph.node.remove(node)
    used = {name for node in model.graph.node for name in node.input}
    for one in [one for one in model.graph.initializer if one.name not in used]:
        model.graph.initializer.remove(one)
    return model


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise missing(name) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Exporters and converters neither print their progress nor change the logging of others."""
    root = logging.getLogger()
    handlers, level, disabled = [*root.handlers], root.level, root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        root.handlers[:] = handlers
        root.setLevel(level)
