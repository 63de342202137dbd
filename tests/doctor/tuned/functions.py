"""Faults of functions with their own backward, and of rounding."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "own linear function",
        "functions",
        setup="""
import torch
from torch.autograd import Function

torch.manual_seed(20)

class LinearFunction(Function):
    @staticmethod
    def forward(ctx, input, weight, bias):
        ctx.save_for_backward(input, weight)
        return input @ weight.t() + bias

    @staticmethod
    def backward(ctx, grad_output):
        input, weight = ctx.saved_tensors
        grad_input = grad_output @ weight
        grad_weight = grad_output.t() @ input
        grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias

class Linear(torch.nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(n_out, n_in) / n_in ** 0.5)
        self.bias = torch.nn.Parameter(torch.zeros(n_out))
    def forward(self, x):
        return LinearFunction.apply(x, self.weight, self.bias)

x = torch.randn(16, 16)
y = torch.tanh(x @ torch.randn(16, 16) / 4)
net = torch.nn.Sequential(Linear(16, 16), torch.nn.ReLU(), Linear(16, 16))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
""",
        forward="""
loss = torch.nn.functional.mse_loss(net(x), y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "backward returns None for the weight",
                "custom function",
                (("return grad_input, grad_weight, grad_bias", "return grad_input, None, grad_bias"),),
                where=("LinearFunction", "weight"),
                source="pytorch 45405, a Function that returns None",
            ),
            Fault(
                "swapped gradients",
                "custom function",
                (("return grad_input, grad_weight, grad_bias", "return grad_weight, grad_input, grad_bias"),),
                where=("LinearFunction",),
                source="PyTorch documentation, Extending torch.autograd: gradients in the order of the inputs; Islam "
                "2019, Coding bug",
            ),
            Fault(
                "the chain rule is forgotten",
                "custom function",
                (("grad_weight = grad_output.t() @ input", "grad_weight = torch.ones_like(grad_output).t() @ input"),),
                where=("LinearFunction", "weight"),
                source="PyTorch documentation, gradcheck; Islam 2019, Logic bug",
            ),
            Fault(
                "backward returns zeros for the input",
                "custom function",
                (("grad_input = grad_output @ weight\n", "grad_input = torch.zeros_like(input)\n"),),
                where=("LinearFunction", "input", r"\b0\b"),
                source="PyTorch forum, custom Function gives zero gradients",
            ),
        ),
    ),
    Program(
        "quantized weights with a straight-through estimator",
        "functions",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(21)

class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.round(x * 8) / 8
        ctx.shape = x.shape
        return y

    @staticmethod
    def backward(ctx, g):
        return g

class QuantLinear(nn.Linear):
    def forward(self, x):
        return nn.functional.linear(x, RoundSTE.apply(self.weight), self.bias)

x = torch.randn(64, 6)
y = (x[:, 0] * x[:, 1] > 0).float()
model = nn.Sequential(QuantLinear(6, 48), nn.ReLU(), QuantLinear(48, 1), nn.Flatten(0))
loss_fn = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
outputs = []
""",
        forward="""
out = model(x)
loss = loss_fn(out, y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
outputs.append(out.detach())
""",
        faults=(
            Fault(
                "rounded without a straight-through estimator",
                "cut",
                (("RoundSTE.apply(self.weight)", "torch.round(self.weight * 8) / 8"),),
                where=("round", "weight"),
                source="Bengio 2013, why the straight-through estimator is needed; PyTorch forum, gradient of round "
                "is 0",
            ),
            Fault(
                "the function returns no gradient",
                "custom function",
                (("        return g\n", "        return None\n"),),
                where=("RoundSTE", "weight"),
                source="pytorch 45405, a Function that returns None",
            ),
            Fault(
                "the result is kept in ctx",
                "kept graphs",
                (("        ctx.shape = x.shape\n", "        ctx.y = y\n"),),
                where=("ctx", "RoundSTE"),
                source="pytorch 25340: what keeps graphs alive; PyTorch documentation, save_for_backward",
                hosts=LOOPS,
            ),
            Fault(
                "minus in the own backward",
                "custom function",
                (("        return g\n", "        return -g\n"),),
                where=("RoundSTE",),
                source="Islam 2019, Logic bug",
            ),
        ),
    ),
)
