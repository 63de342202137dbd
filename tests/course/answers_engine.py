"""Files for the student's own engine, as modules: the reference parts, other right ways, and the usual wrong ones."""

from importlib import import_module
from types import ModuleType
from typing import Any

from nbgrad.lab.engine import reference

REFERENCE = "nbgrad.lab.mygrad"


def variant(part: str, *changes: tuple[str, str]) -> ModuleType:
    """The reference part with some of its text replaced."""
    text = reference(part)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return module_of(part, text)


def module_of(part: str, text: str) -> ModuleType:
    """A part of the engine with this text, as a module of the reference package."""
    module = ModuleType(f"{REFERENCE}.{part}")
    module.__dict__["__package__"] = REFERENCE
    ops = import_module(f"{REFERENCE}.ops")
    exec(compile(text, f"my_{part}.py", "exec"), vars(module))
    ops.Tensor.__matmul__ = ops.matmul  # a variant of ops.py has put its own there
    return module


_CUT = "    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))"
_ONES = "    return gradient.sum(ones, keepdims=True)"
_MUL = "(self, other), lambda g: (g * other.data, g * self.data)"
_SWAPPED = "(self, other), lambda g: (g * self.data, g * other.data)"
_ALONG = "g - g.mean(dim, keepdims=True) - along"
_OTHER = """    def parameters(self):
        found = {}
        for one in vars(self).values():
            for inner in one if isinstance(one, (list, tuple)) else [one]:
                if isinstance(inner, Tensor):
                    found[id(inner)] = inner
                elif isinstance(inner, Module):
                    found |= {id(each): each for each in inner.parameters()}
        return list(found.values())

    def old"""
_SHALLOW = """    def parameters(self):
        return [one for one in vars(self).values() if isinstance(one, Tensor)]

    def old"""
_TWICE = "if isinstance(one, Tensor) and not any(one is other for other in found)"
_ADDED = "np.add.at(back, index, g)"
_H = "h = tanh(self.memory(h) + self.letter(codes[:, step]))"
_RECURSION = "[found := [root]] and (found.extend(value.parents) or value for value in found)"
_BACK = "back[:, :, i : i + rows, j : j + columns] +="

RIGHT: dict[str, list[Any]] = {
    "3.4": [
        variant("scalars"),
        variant("scalars", ("slope = float(self.data > 0)", "slope = 1 if self.data > 0 else 0")),
        variant("scalars", ("(self, other), lambda", "[self, other], lambda")),
    ],
    "4.4": [
        variant("tensor"),
        variant("tensor", (_CUT, "    while gradient.ndim > len(shape):\n        gradient = gradient.sum(0)")),
        variant("tensor", ("slope = power * self.data ** (power - 1)", "slope = power * self.data**power / self.data")),
    ],
    "5.4": [
        variant("ops"),
        variant("ops", ("np.maximum(x.data, 0)", "np.where(x.data > 0, x.data, 0)")),
        variant("ops", ("a.data @ b.data", "np.matmul(a.data, b.data)")),
    ],
    "6.4": [
        variant("losses"),
        variant("losses", ("np.exp(logs) - right", "softmax_of(scores.data) - right")),
    ],
    "7.4": [variant("modules"), variant("modules", ("    def parameters(self):\n", f"{_OTHER}(self):\n"))],
    "8.4": [
        variant("norm"),
        variant("norm", ("(centred**2).mean(dim, keepdims=True)", "x.data.var(dim, keepdims=True)")),
    ],
    "9.5": [
        variant("optim"),
        variant("optim", ("self.v[at] = self.momentum * self.v[at] + parameter.grad",
                          "self.v[at] *= self.momentum\n                self.v[at] += parameter.grad")),
    ],
    "10.4": [
        variant("conv"),
        variant("conv", ('"ncijhw,nkij->kchw", patches, g', '"nkij,ncijhw->kchw", g, patches')),
    ],
    "11.4": [variant("sequence"), variant("sequence", ("self.memory(h) + self.letter(codes[:, step])",
                                                       "self.letter(codes[:, step]) + self.memory(h)"))],
    "12.6": [
        variant("attention"),
        variant("attention", ("* width**-0.5", "/ width**0.5")),
    ],
}  # fmt: skip

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "3.4": [
        (variant("scalars", ("slope = float(self.data > 0)", "slope = 1.0")), "numbers", "a.relu(): the data"),
        (variant("scalars", ("(g * slope,), ", "(g,), ")), "numbers", "its rule hands g on for a negative value"),
        (variant("scalars", ("(g * slope,), ", "(g * (1 - slope),), ")), "zero", "its rule gives 0 for a positive"),
        (variant("scalars", ("(g * slope,), ", "(slope,), ")), "factor", "a.relu(): its rule forgets the incoming"),
        (variant("scalars", ('"relu"', '""')), "type", 'a.relu(): its op is ""'),
        (variant("scalars", (_MUL, _SWAPPED)), "order", "a * b: the two gradients of its rule have changed places"),
        (variant("scalars", ("parent.grad += gradient", "parent.grad = gradient")), "factor",
         "Of several paths to a value only the last is kept: paths add"),
        (variant("scalars", ("reversed(order)", "order")), "factor",
         "Only the inputs of the result got a gradient: the walk begins at the result"),
        (variant("scalars", ("reversed(order)", "order[-2::-1]")), "zero", "No gradient leaves the result"),
        (variant("scalars", ("reversed(order)", _RECURSION)), "factor",
         "a value hands its gradient on before all of it has arrived"),
        (variant("scalars", ("value.rule(value.grad)", "value.rule(1.0)")), "factor", "Each rule is called with 1"),
        (variant("scalars", ("parent.grad += gradient", "parent.grad -= gradient")), "sign", "are subtracted"),
        (variant("scalars", ("root.grad = 1.0", "root.grad = 2.0")), "factor", "a backward begins with 1 there"),
        ("mygrad/nothing.py", "type", 'there is no file "mygrad/nothing.py"'),
        (3, "type", 'the path of your file is expected: "mygrad/scalars.py"'),
    ],
    "4.4": [
        (variant("tensor", (_CUT, "    pass")), "shape", "unbroadcast of a gradient of shape (3, 4) to (4,): a sum"),
        (variant("tensor", (_ONES, "    return gradient")), "shape", "of a gradient of shape (3, 4) to (3, 1)"),
        (variant("tensor", (_ONES, "    return gradient.sum(ones)")), "shape", "the numbers are right, but it has"),
        (variant("tensor", (".sum(ones, keepdims=True)", ".mean(ones, keepdims=True)")), "factor", "it is a mean"),
        (variant("tensor", (_ONES, "    return gradient.sum()")), "shape", "all numbers are added up: sum over the"),
        (variant("tensor", (_MUL, _SWAPPED)), "order", "x * y"),
        (variant("tensor", ("power * self.data ** (power - 1)", "self.data ** (power - 1)")), "factor", "x ** 5"),
        (variant("tensor", ("parent.grad + share", "share")), "factor", "x * x with shape (2, 3): the gradient"),
        (variant("tensor", ("lambda g: (g, -g)", "lambda g: (g, g)")), "sign", "x - y"),
        (None, "type", 'the path of your file is expected: "mygrad/tensor.py"'),
    ],
    "5.4": [
        (variant("ops", ("g @ turned_b, turned_a @ g", "g @ b.data, a.data @ g")), "raised", "matmul with shapes"),
        (variant("ops", ("g @ turned_b, turned_a @ g", "g @ turned_b, g @ turned_a")), "raised", "matmul"),
        (variant("ops", (".swapaxes(-1, -2)", ".T")), "raised", "matmul with shapes (5, 2, 3) and (3, 4)"),
        (variant("ops", ("g * (x.data > 0)", "g")), "row",
         "The rule of `relu` passes the gradient of the result on as it is"),
        (variant("ops", ("g * (1 - y * y)", "g * (1 + y * y)")), "numbers",
         "The rule of `tanh` multiplies by 1 + y², where 1 - y² is right"),
        (variant("ops", ("return Tensor(y, (x,), lambda g: (g * (1", "Tensor(y, (x,), lambda g: (g * (1")), "type",
         "tanh with shape (3, 4) gives None: it has to end with return"),
    ],
    "6.4": [
        (variant("losses", (" / labels.size", "")), "factor", "cross_entropy with shape (4, 3): the gradient"),
        (variant("losses", ("np.exp(logs) - right", "right - np.exp(logs)")), "sign", "the gradient"),
        (variant("losses", ("-logs[right].mean()", "logs[right].mean()")), "sign", "the value"),
        (variant("losses", ("-logs[right].mean()", "-logs[right].sum()")), "factor", "the value"),
        (variant("losses", ("lowered = scores.data - scores.data.max(-1, keepdims=True)", "lowered = scores.data"),
                 ("loss = -", "np.seterr(all='ignore'); loss = -")), "not finite", "of scores of size 1000"),
    ],
    "7.4": [
        (variant("modules", ("    def parameters(self):\n", f"{_SHALLOW}(self):\n")), "shape",
         "of a Sequential, parameters() gives a list of 0, and 4 tensors are in it"),
        (variant("modules", (_TWICE, "if isinstance(one, Tensor)")), "shape", "a network that uses a layer twice"),
        (variant("modules", ("x @ self.weight + self.bias", "x @ self.weight")), "offset", "Linear(3, 2) of shape"),
        (variant("modules", ("        return found\n", "")), "type", "parameters() of a Linear gives None"),
        (variant("modules", ("x @ self.weight + self.bias", "self.weight @ x")), "raised", "Linear(3, 2) of shape"),
    ],
    "8.4": [
        (variant("norm", (_ALONG, "g - g.mean(dim, keepdims=True)")), "numbers", "normalize along -1"),
        (variant("norm", ("((g - g.mean(dim, keepdims=True) - along) / deviation,)",
                          "(g - g.mean(dim, keepdims=True) - along,)")), "factor", "normalize along -1"),
        (variant("norm", (" + eps", "")), "rounding", "the value"),
        (variant("norm", ("x + self.body(x)", "self.body(x)")), "offset", "Residual of y * y"),
        (variant("norm", ("y * (g * y).mean(dim, keepdims=True)", "y * (g * y).mean(dim)")), "raised", "normalize"),
    ],
    "9.5": [
        (variant("optim", ("- self.lr * self.v[at]", "+ self.lr * self.v[at]")), "numbers",
         "SGD(lr=0.1): a parameter of shape (2, 3) after step 1"),
        (variant("optim", ("self.momentum * self.v[at] +", "self.v[at] +")), "numbers", "SGD(lr=0.1)"),
        (variant("optim", ("            if parameter.grad is not None:\n", "            if 1:\n")), "raised", "step 3"),
        (variant("optim", ("(1 - first ** self.steps[at])", "1")), "numbers", "Adam(lr=0.1)"),
        (variant("optim", ("(1 - first ** self.steps[at])", "1"), ("(1 - second ** self.steps[at])", "1")), "factor",
         "Adam(lr=0.1): a parameter of shape (2, 3) after step 1: the correction of the first steps is missing"),
        (variant("optim", ("self.momentum * self.v[at] +", "0 +")), "numbers", "that is plain SGD"),
        (variant("optim", ("            if parameter.grad is not None:\n                self.steps[at] += 1\n",
                           "            self.steps[at] += 1\n            if parameter.grad is not None:\n")), "element",
         "it is right while each parameter has a gradient. One without stays as it is"),
        ("mygrad/optim", "type", 'there is no file "mygrad/optim": write the cell into "mygrad/optim.py", and run it'),
        (variant("optim", ("class Adam", "class Eve")), "raised", "has no attribute 'Adam'"),
    ],
    "10.4": [
        (variant("conv", (_BACK, _BACK.replace("+=", "="))), "element",
         "gets the sum of their gradients: += and not ="),
        (variant("conv", ("slice(padding, back.shape[2] - padding), slice(padding, back.shape[3] - padding)",
                          "slice(None), slice(None)")), "shape", "conv2d with padding=1"),
        (variant("conv", ("weight.data[:, :, i, j]", "weight.data[:, :, h - 1 - i, w - 1 - j]")), "order",
         "the kernel is turned round"),
        (variant("conv", (".reshape(cut.shape).swapaxes(3, 4)", ".reshape(cut.shape)")), "order", "max_pool2d by 2"),
        (variant("conv", ("* first)", "* (first & False))")), "zero", "max_pool2d by 2"),
    ],
    "11.4": [
        (variant("sequence", (_ADDED, "back[index] += g")), "row", "a row that comes several times gets the sum"),
        (variant("sequence", (_ADDED, "back[index] = 1")), "factor", "its rule forgets the incoming gradient g"),
        (variant("sequence", (_H, "h = tanh(self.memory(Tensor(h.data)) + self.letter(codes[:, step]))")), "numbers",
         "the gradients go through the last step only"),
        (variant("sequence", (_H, "h = tanh(self.letter(codes[:, step]))")), "order", "code 1 was changed"),
        (variant("sequence", ("        return scores\n", "")), "type", "an RNN gives None"),
    ],
    "12.6": [
        (variant("attention", (" * width**-0.5", "")), "factor", "not divided by the root of the width"),
        (variant("attention", ("softmax(scores + future)", "softmax(scores)")), "element", "nothing is masked"),
        (variant("attention", ("self.head(self.last(x))", "self.head(x)")), "element", "the last normalization is"),
        (variant("attention", ("-1e9), 1)", "-1e9), 0)")), "element", "the diagonal is masked, too"),
        (variant("attention", ("self.letter(codes) + self.place(np.arange(codes.shape[1]))", "self.letter(codes)")),
         "zero", "the vectors of the places are missing"),
        (variant("attention", ("np.arange(codes.shape[1])", "np.arange(len(codes))")), "zero", "or all of one place"),
        (variant("attention", ("self.head(self.last(x))", "softmax(self.head(self.last(x)))")), "numbers",
         "these are probabilities: the scores are what head gives"),
        (variant("attention", ("softmax(scores + future) @ v", "softmax(scores) * (future == 0) @ v")), "factor",
         "it masks after softmax"),
        (variant("attention", ("q @ transpose(k)", "q @ k")), "raised", "attention"),
    ],
}  # fmt: skip
