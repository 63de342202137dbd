"""``Model``: an ONNX model that is being written."""

from typing import Any

import torch
from torch import fx

from nbgrad.core.symbolic.exports.core_operators import Untranslated

OPSET = 18
"""The version of ONNX's operators."""

_TYPES = {
    torch.float32: "FLOAT",
    torch.float64: "DOUBLE",
    torch.float16: "FLOAT16",
    torch.int64: "INT64",
    torch.int32: "INT32",
    torch.int16: "INT16",
    torch.int8: "INT8",
    torch.uint8: "UINT8",
    torch.bool: "BOOL",
}


def _type(dtype: torch.dtype) -> int:
    import onnx

    name = _TYPES.get(dtype)
    if name is None:
        raise Untranslated(f"{dtype} cannot be written to an ONNX model")
    number: int = getattr(onnx.TensorProto, name)
    return number


class Model:
    """An ONNX model that is being written.

    Attributes:
        result: the example of the result of the operator that is translated; a tuple of them if it has several.
    """

    def __init__(self) -> None:
        self.result: Any = None
        self._names: dict[Any, Any] = {}
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._initializers: list[Any] = []
        self._count = 0

    def begin(self, node: fx.Node, names: dict[Any, Any]) -> None:
        """Go to the next operator."""
        self.result, self._names = node.meta["val"], names

    def input(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        """Append an input."""
        from onnx import helper

        self._inputs.append(helper.make_tensor_value_info(name, _type(dtype), shape))

    def initializer(self, name: str, data: torch.Tensor) -> str:
        """Append a tensor that the model holds."""
        from onnx import numpy_helper

        _type(data.dtype)
        self._initializers.append(numpy_helper.from_array(data.detach().cpu().contiguous().numpy(), name))
        return name

    def output(self, name: str, held: str, example: torch.Tensor) -> None:
        """Append an output, which has the value ``held``."""
        from onnx import helper

        self._nodes.append(helper.make_node("Identity", [held], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, _type(example.dtype), tuple(example.shape)))

    def proto(self, name: str) -> Any:
        """The whole model.

        Raises:
            onnx.checker.ValidationError: the model is not valid.
        """
        import onnx
        from onnx import helper

        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, self._initializers)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="nbgrad", ir_version=9
        )
        onnx.checker.check_model(model)
        return model

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Append an operator, and return the name of its result, or a list of names."""
        from onnx import helper

        made = []
        for _ in range(outputs):
            self._count += 1
            made.append(f"value.{self._count}")  # names of the program have no dot
        self._nodes.append(helper.make_node(kind, list(inputs), made, **attributes))
        return made[0] if outputs == 1 else made

    def constant(self, data: torch.Tensor) -> str:
        """A tensor that no input changes."""
        self._count += 1
        return self.initializer(f"constant.{self._count}", data)

    def shape(self, sizes: Any) -> str:
        """A list of numbers, as a shape or axes."""
        return self.constant(torch.tensor([int(one) for one in sizes], dtype=torch.int64))

    def number(self, value: Any, dtype: torch.dtype) -> str:
        """A number as a tensor without dimensions."""
        return self.constant(torch.tensor(value, dtype=dtype))

    def name(self, given: fx.Node) -> str:
        """The name of a tensor."""
        name: str = self._names[given]
        return name

    def of(self, given: Any, dtype: torch.dtype) -> str:
        """The name of a tensor or number of a type."""
        if not isinstance(given, fx.Node):
            return self.number(given, dtype)
        return self.cast(self.name(given), given.meta["val"].dtype, dtype)

    def cast(self, name: str, before: torch.dtype, after: torch.dtype) -> str:
        """The same in another type."""
        return name if before is after else self.op("Cast", name, to=_type(after))
