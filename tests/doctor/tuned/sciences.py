"""Faults of networks in the sciences: a heated rod, molecules, several tasks at once, a forecast with a state."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "heat in a rod",
        "PINN",
        setup="""
import torch
import torch.nn as nn
from torch.autograd import grad

torch.manual_seed(59)
class FCN(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(a, b) for a, b in zip(layers[:-1], layers[1:])])
        self.activation = nn.Tanh()
        for lin in self.linears:
            nn.init.xavier_normal_(lin.weight)
            nn.init.zeros_(lin.bias)
    def forward(self, x, t):
        a = torch.cat([x, t], 1)
        for lin in self.linears[:-1]:
            a = self.activation(lin(a))
        return self.linears[-1](a)

pinn = FCN([2, 24, 24, 1])
KAPPA = 0.1
x_f, t_f = torch.rand(200, 1), torch.rand(200, 1)
x_0 = torch.rand(60, 1)
u_0 = torch.sin(torch.pi * x_0)
t_b = torch.rand(30, 1)
optimizer = torch.optim.Adam(pinn.parameters(), lr=5e-3)
log = []

def residual(x, t):
    x, t = x.clone().requires_grad_(True), t.clone().requires_grad_(True)
    u = pinn(x, t)
    u_t = grad(u, t, torch.ones_like(u), create_graph=True)[0]
    u_x = grad(u, x, torch.ones_like(u), create_graph=True)[0]
    u_xx = grad(u_x, x, torch.ones_like(u_x), create_graph=True)[0]
    return u_t - KAPPA * u_xx

def loss_terms():
    f = residual(x_f, t_f).pow(2).mean()
    start = (pinn(x_0, torch.zeros_like(x_0)) - u_0).pow(2).mean()
    ends = pinn(torch.zeros_like(t_b), t_b).pow(2).mean() + pinn(torch.ones_like(t_b), t_b).pow(2).mean()
    return f, start, ends
""",
        forward="""
f, start, ends = loss_terms()
loss = f + 5 * start + ends
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
log.append([v.item() for v in (f, start, ends)])
""",
        steps=120,
        faults=(
            Fault(
                "bends of a relu",
                "cut",
                (("self.activation = nn.Tanh()", "self.activation = nn.ReLU()"),),
                where=("relu", "second", "u_xx", "linears"),
                source="PINN literature, a ReLU has no second derivative; Stack Overflow, PINN with ReLU",
            ),
            Fault(
                "derivatives without a graph",
                "cut",
                (
                    (
                        "u_t = grad(u, t, torch.ones_like(u), create_graph=True)[0]",
                        "u_t = grad(u, t, torch.ones_like(u), retain_graph=True)[0]",
                    ),
                    (
                        "u_xx = grad(u_x, x, torch.ones_like(u_x), create_graph=True)[0]",
                        "u_xx = grad(u_x, x, torch.ones_like(u_x), retain_graph=True)[0]",
                    ),
                ),
                where=("create_graph", "grad", "residual", "u_t", "u_xx"),
                source="PyTorch forum, autograd.grad without create_graph=True in a loss; PINN issues",
            ),
            Fault(
                "the beginning is measured and not in the loss",
                "unused",
                (("loss = f + 5 * start + ends", "loss = f + ends"),),
                where=("start",),
                source="Humbatova 2020, Wrong loss function calculation: a forgotten term",
            ),
            Fault(
                "no activation of the hidden layers",
                "no activation",
                (("a = self.activation(lin(a))", "a = lin(a)"),),
                where=("linear",),
                source="DeepFD, missing activation; Humbatova 2020, Missing activation function",
            ),
            Fault(
                "layers of one value",
                "initialization",
                (("nn.init.xavier_normal_(lin.weight)", "nn.init.constant_(lin.weight, 0.2)"),),
                where=("linear", "weight", "constant_"),
                source="DeepFD, improper weight initialization; Humbatova 2020, Wrong weights initialisation",
            ),
        ),
    ),
    Program(
        "messages in molecules",
        "graph network",
        setup="""
import torch
import torch.nn as nn

g = torch.Generator().manual_seed(61)
torch.manual_seed(61)

def molecule():
    n = int(torch.randint(5, 9, (1,), generator=g))
    kinds = torch.randint(0, 3, (n,), generator=g)
    i, j = torch.triu_indices(n, n, 1)
    keep = torch.rand(len(i), generator=g) < 0.35
    keep[:1] = True
    i, j = i[keep], j[keep]
    energy = ((kinds[i] == kinds[j]).float().sum() - 0.5 * (kinds[i] != kinds[j]).float().sum())
    return kinds, torch.stack([torch.cat([i, j]), torch.cat([j, i])]), energy

def merge(graphs):
    kinds, edges, owner, energy, start = [], [], [], [], 0
    for k, (z, e, y) in enumerate(graphs):
        kinds.append(z); edges.append(e + start); energy.append(y)
        owner.append(torch.full((len(z),), k)); start += len(z)
    return torch.cat(kinds), torch.cat(edges, 1), torch.cat(owner), torch.stack(energy)

class MessagePassing(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * d, d), nn.SiLU())
        self.update = nn.GRUCell(d, d)
    def forward(self, h, edges):
        src, dst = edges
        m = self.message(torch.cat([h[src], h[dst]], 1))
        total = torch.zeros_like(h).index_add(0, dst, m)
        return self.update(total, h)

class MoleculeNet(nn.Module):
    def __init__(self, d=24, rounds=2):
        super().__init__()
        self.embed = nn.Embedding(3, d)
        self.rounds = nn.ModuleList(MessagePassing(d) for _ in range(rounds))
        self.readout = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 1))
    def forward(self, kinds, edges, owner, n_graphs):
        h = self.embed(kinds)
        for layer in self.rounds:
            h = layer(h, edges)
        per_atom = self.readout(h)
        return torch.zeros(n_graphs, 1).index_add(0, owner, per_atom).squeeze(1)

data = [molecule() for _ in range(160)]
gnn = MoleculeNet()
opt = torch.optim.Adam(gnn.parameters(), lr=5e-3)
""",
        forward="""
chosen = torch.randperm(len(data), generator=g)[:32]
kinds, edges, owner, energy = merge([data[k] for k in chosen.tolist()])
loss = nn.functional.mse_loss(gnn(kinds, edges, owner, 32), energy)
""",
        update="""
opt.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(gnn.parameters(), 2.0)
opt.step()
""",
        steps=90,
        faults=(
            Fault(
                "messages are added in numpy",
                "cut",
                (
                    (
                        "torch.zeros_like(h).index_add(0, dst, m)",
                        "torch.from_numpy(torch.zeros_like(h).index_add(0, dst, m).detach().numpy())",
                    ),
                ),
                where=("message", "numpy"),
                source="Stack Overflow, numpy() breaks the graph; PyTorch forum",
            ),
            Fault(
                "mean of messages divided by no neighbours",
                "nan",
                (
                    (
                        "return self.update(total, h)",
                        "degree = torch.zeros(len(h)).index_add(0, dst, torch.ones(len(dst)))\n"
                        "        return self.update(total / degree.unsqueeze(1), h)",
                    ),
                ),
                where=("div", "degree", "total"),
                source="DeepLocalize, division by zero; PyTorch Geometric issues, isolated nodes",
            ),
            Fault(
                "the squares of all molecules against all energies",
                "broadcast",
                (("index_add(0, owner, per_atom).squeeze(1)", "index_add(0, owner, per_atom)"),),
                where=("mse_loss", "energy"),
                source="Stack Overflow, using a target size that is different to the input size; NeuraLint",
            ),
            Fault(
                "rounds in a tuple",
                "unregistered",
                (
                    (
                        "nn.ModuleList(MessagePassing(d) for _ in range(rounds))",
                        "tuple(MessagePassing(d) for _ in range(rounds))",
                    ),
                ),
                where=("rounds", "message", "update", "MessagePassing"),
                source="PyTorch forum, modules in a Python list are not registered",
            ),
            Fault(
                "squares of kilojoules",
                "input scale",
                (
                    (
                        "owner, energy = merge([data[k] for k in chosen.tolist()])",
                        "owner, energy = merge([data[k] for k in chosen.tolist()])\nenergy = 4184.0 * energy",
                    ),
                ),
                where=("energy", "target", "mse"),
                source="Humbatova 2020, Missing preprocessing: targets of QM9 are not normalized",
            ),
        ),
    ),
    Program(
        "age and mood from one body",
        "multi-task",
        setup="""
import torch
from torch import nn

torch.manual_seed(67)
N = 320
faces = torch.randn(N, 20)
age = (faces[:, :5].sum(1) + torch.sin(2 * faces[:, 5]) + 3) / 3
mood = (faces[:, 6] * faces[:, 7] > 0).long() + (faces[:, 8] > 0.5).long()

class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.Mish(), nn.Linear(64, 64), nn.Mish())
        self.heads = nn.ModuleDict({"age": nn.Linear(64, 1), "mood": nn.Linear(64, 3)})
        self.log_var = nn.ParameterDict({k: nn.Parameter(torch.zeros(())) for k in ("age", "mood")})
    def forward(self, x):
        h = self.body(x)
        return {"age": self.heads["age"](h).squeeze(1), "mood": self.heads["mood"](h)}

class LitModel:
    accumulate = 2
    def __init__(self):
        self.net = MultiTask()
        self.losses = {"age": nn.MSELoss(), "mood": nn.CrossEntropyLoss()}
    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=6e-3)
    def training_step(self, batch):
        x, targets = batch
        out = self.net(x)
        total = 0
        for task, criterion in self.losses.items():
            s = self.net.log_var[task]
            total = total + torch.exp(-s) * criterion(out[task], targets[task]) + 0.5 * s
        return total

lit = LitModel()
opt = lit.configure_optimizers()

def train_dataloader():
    while True:
        for part in torch.randperm(N).split(64):
            yield faces[part], {"age": age[part], "mood": mood[part]}
loader = train_dataloader()
""",
        forward="""
loss = lit.training_step(next(loader))
""",
        update="""
(loss / lit.accumulate).backward()
if step % lit.accumulate == 1:
    opt.step()
    opt.zero_grad()
""",
        steps=120,
        faults=(
            Fault(
                "gradients of all tasks are never cleared",
                "accumulated gradients",
                (("    opt.step()\n    opt.zero_grad()", "    opt.step()"),),
                where=("zero_grad", "body", "heads", "opt"),
                source="PyTorch forum, gradient accumulation without zero_grad(); TrainCheck",
                hosts=LOOPS,
            ),
            Fault(
                "weights of the tasks without a price",
                "sign",
                (("* criterion(out[task], targets[task]) + 0.5 * s", "* criterion(out[task], targets[task])"),),
                where=("log_var", "exp"),
                source="Kendall 2018, uncertainty weights need the log term; Humbatova 2020, Wrong loss function",
                hosts=LOOPS,
            ),
            Fault(
                "the last task replaces the others",
                "unused",
                (("total = total + torch.exp(-s)", "total = torch.exp(-s)"),),
                where=("age", "mood", "heads", "log_var"),
                source="Humbatova 2020, Wrong loss function calculation; Stack Overflow, a loss is overwritten",
            ),
            Fault(
                "weights of the tasks in a plain dict",
                "unregistered",
                (
                    (
                        'nn.ParameterDict({k: nn.Parameter(torch.zeros(())) for k in ("age", "mood")})',
                        '{k: nn.Parameter(torch.zeros(())) for k in ("age", "mood")}',
                    ),
                ),
                where=("log_var",),
                source="PyTorch forum, parameters in a Python dict are not registered",
            ),
            Fault(
                "body in eval mode beside heads that train",
                "eval mode",
                (
                    (
                        "        self.net = MultiTask()\n",
                        "        self.net = MultiTask()\n        self.net.body.eval()\n",
                    ),
                ),
                where=("body", "eval", r"\b1\b"),
                source="PyTorch forum, a submodule in eval mode is trained; TrainCheck",
            ),
            Fault(
                "the loss of the mood is a number",
                "cut",
                (
                    (
                        "total = total + torch.exp(-s) * criterion(out[task], targets[task]) + 0.5 * s",
                        "total = total + torch.exp(-s) * criterion(out[task], targets[task]).item() + 0.5 * s",
                    ),
                ),
                where=("item", "heads", "body"),
                source="Stack Overflow, .item() in the loss; TrainCheck",
            ),
        ),
    ),
    Program(
        "demand with a state from day to day",
        "recurrent",
        setup="""
import numpy as np
import torch
import torch.nn as nn

np.random.seed(71); torch.manual_seed(71)
days = np.arange(600)
demand = 50 + 20 * np.sin(2 * np.pi * days / 7) + 10 * np.sin(2 * np.pi * days / 30) + np.random.randn(600)
mean, std = demand[:500].mean(), demand[:500].std()
series = torch.tensor((demand - mean) / std, dtype=torch.float32).view(4, 150)
WINDOW = 15

class Forecaster(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, num_layers=1, batch_first=True)
        self.regressor = nn.Linear(hidden, 1)
    def forward(self, window, h=None):
        out, h = self.rnn(window.unsqueeze(-1), h)
        return self.regressor(out).squeeze(-1), h

forecaster = Forecaster()
loss_fn = nn.HuberLoss()
opt = torch.optim.Adam(forecaster.parameters(), lr=0.02)
h = None
""",
        forward="""
at = (step * WINDOW) % (150 - WINDOW)
if at == 0:
    h = None
inputs, targets = series[:, at:at + WINDOW], series[:, at + 1:at + WINDOW + 1]
outputs, h = forecaster(inputs, h)
loss = loss_fn(outputs, targets)
""",
        update="""
opt.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(forecaster.parameters(), 1.0)
opt.step()
h = h.detach()
""",
        steps=90,
        faults=(
            Fault(
                "the forecast goes through numpy to be scaled back",
                "no gradient",
                (
                    (
                        "loss = loss_fn(outputs, targets)",
                        "outputs = torch.tensor(outputs.detach().numpy() * float(std), requires_grad=True)\n"
                        "loss = loss_fn(outputs, targets * float(std))",
                    ),
                ),
                where=("numpy", "rnn", "regressor", "outputs"),
                source="Stack Overflow, numpy() breaks the graph; Stack Overflow, inverse_transform before the loss",
            ),
            Fault(
                "the state of yesterday has its graph",
                "second backward",
                (("\nh = h.detach()\n", "\n"),),
                where=("h", "rnn"),
                source="PyTorch forum, Trying to backward through the graph a second time: hidden state",
                hosts=LOOPS,
            ),
            Fault(
                "inputs are forecast and not the next day",
                "target",
                (("series[:, at + 1:at + WINDOW + 1]", "series[:, at:at + WINDOW]"),),
                where=("targets", "inputs", "target"),
                source="Stack Overflow, targets of a language model are not shifted; Humbatova 2020, Wrong labels",
                hosts=LOOPS,
            ),
            Fault(
                "days are the batch",
                "wrong dimension",
                (("num_layers=1, batch_first=True)", "num_layers=1)"),),
                where=("rnn", "batch_first", "GRU"),
                source="Stack Overflow, batch_first is forgotten; NeuraLint",
            ),
            Fault(
                "demand by the piece",
                "input scale",
                (
                    ("torch.tensor((demand - mean) / std, dtype", "torch.tensor(100 * demand, dtype"),
                    ("nn.HuberLoss()", "nn.MSELoss()"),
                ),
                where=("series", "inputs", "targets", "rnn"),
                source="Humbatova 2020, Missing preprocessing: normalization; DeepFD, data not normalized",
            ),
            Fault(
                "the losses of all days are kept",
                "kept graphs",
                (
                    (
                        "opt.step()\nh = h.detach()",
                        "opt.step()\nepoch_loss = loss if step == 0 else epoch_loss + loss\nh = h.detach()",
                    ),
                ),
                where=("loss",),
                source="PyTorch FAQ, total_loss += loss",
                hosts=LOOPS,
            ),
        ),
    ),
)
