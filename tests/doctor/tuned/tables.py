"""Faults of networks for tables: embeddings of categories, quantiles, survival times, ratings."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "rents with embeddings of categories",
        "regression",
        setup="""
from dataclasses import dataclass
import numpy as np
import torch
import torch.nn as nn

@dataclass
class Config:
    lr: float = 5e-3
    batch_size: int = 64
    hidden: int = 48
    p_drop: float = 0.1

cfg = Config()
rng = np.random.default_rng(7)
torch.manual_seed(7)
district = rng.integers(0, 12, 600)
kind = rng.integers(0, 4, 600)
area = rng.gamma(4.0, 18.0, 600)
year = rng.integers(1900, 2020, 600)
rent = area * (7 + 0.5 * district) + 90 * kind + 0.8 * (year - 1900) + rng.normal(0, 20, 600)

codes = torch.tensor(np.stack([district, kind], 1))
numbers = torch.tensor(np.stack([area, year], 1), dtype=torch.float32)
numbers = (numbers - numbers.mean(0)) / numbers.std(0)
price = torch.tensor(rent, dtype=torch.float32)
price = (price - price.mean()) / price.std()

class TabularNet(nn.Module):
    def __init__(self, sizes, n_cont):
        super().__init__()
        self.embeds = nn.ModuleList(nn.Embedding(n, min(6, n // 2 + 1)) for n in sizes)
        width = sum(e.embedding_dim for e in self.embeds) + n_cont
        self.lin1 = nn.Linear(width, cfg.hidden)
        self.drop1 = nn.Dropout(cfg.p_drop)
        self.lin2 = nn.Linear(cfg.hidden, cfg.hidden)
        self.drop2 = nn.Dropout(cfg.p_drop)
        self.out = nn.Linear(cfg.hidden, 1)

    def forward(self, cat, cont):
        parts = [embed(cat[:, i]) for i, embed in enumerate(self.embeds)]
        h = torch.cat([*parts, cont], 1)
        h = self.drop1(torch.relu(self.lin1(h)))
        h = self.drop2(torch.relu(self.lin2(h)))
        return self.out(h)

net = TabularNet([12, 4], 2)
criterion = nn.MSELoss()
opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
history = {"train": [], "valid": []}
""",
        forward="""
net.train()
rows = torch.from_numpy(rng.integers(0, 500, cfg.batch_size))
pred = net(codes[rows], numbers[rows]).squeeze(1)
loss = criterion(pred, price[rows])
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
history["train"].append(loss.item())
if step % 15 == 14:
    net.eval()
    with torch.no_grad():
        valid = criterion(net(codes[500:], numbers[500:]).squeeze(1), price[500:])
    history["valid"].append(valid.item())
""",
        steps=90,
        faults=(
            Fault(
                "training mode is not entered again after the validation",
                "eval mode",
                (("net.train()\n", ""),),
                where=("eval", "drop1", "drop2", "TabularNet"),
                source="PyTorch forum, model.eval() in the validation and no model.train() after it; TrainCheck",
                hosts=LOOPS,
            ),
            Fault(
                "rents of one dimension against a column",
                "broadcast",
                (("numbers[rows]).squeeze(1)\nloss", "numbers[rows])\nloss"),),
                where=("criterion", "mse", "pred"),
                source="Stack Overflow, using a target size that is different to the input size; NeuraLint",
            ),
            Fault(
                "raw square metres and years",
                "input scale",
                (("numbers = (numbers - numbers.mean(0)) / numbers.std(0)\n", ""),),
                where=("numbers", "input", "lin1", "cat"),
                source="Humbatova 2020, Missing preprocessing: normalization; DeepFD, data not normalized",
            ),
            Fault(
                "nine tenths dropped after the second layer",
                "dropout",
                (("self.drop2 = nn.Dropout(cfg.p_drop)", "self.drop2 = nn.Dropout(1 - cfg.p_drop)"),),
                where=("drop2",),
                source="Humbatova 2020, Wrong layer arguments; Stack Overflow, dropout's p is what is dropped",
            ),
            Fault(
                "a rate of one half with adam",
                "rate too large",
                (("lr: float = 5e-3", "lr: float = 0.5"),),
                where=(r"\blr\b", "rate", "Adam"),
                source="DeepFD, learning rate too high; Humbatova 2020, Suboptimal learning rate",
                hosts=LOOPS,
            ),
            Fault(
                "the rents are in another order than their rows",
                "data",
                (
                    (
                        "price = (price - price.mean()) / price.std()\n",
                        "price = (price - price.mean()) / price.std()\nprice = price[torch.randperm(len(price))]\n",
                    ),
                ),
                where=("price", "target", "label"),
                source="Humbatova 2020, Wrong labels for training data; DEFault, shuffled labels",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "waiting times by quantiles",
        "quantile regression",
        setup="""
import math
import torch
from torch import nn, optim

torch.manual_seed(3)
hour = torch.rand(400) * 24
load = torch.rand(400)
wait = 1.0 + torch.sin(hour / 24 * 2 * math.pi) + (0.3 + load) * torch.randn(400).abs()
X = torch.stack([torch.sin(hour / 24 * 2 * math.pi), torch.cos(hour / 24 * 2 * math.pi), 2 * load - 1], dim=1)
QUANTILES = (0.1, 0.5, 0.9)

def make_model(n_in, n_out, width=32):
    return nn.Sequential(nn.Linear(n_in, width), nn.ELU(), nn.Linear(width, width), nn.ELU(), nn.Linear(width, n_out))

def pinball(pred, target):
    losses = []
    for i, q in enumerate(QUANTILES):
        error = target - pred[:, i]
        losses.append(torch.max(q * error, (q - 1) * error))
    return torch.stack(losses).mean()

f = make_model(3, len(QUANTILES))
sgd = optim.SGD(f.parameters(), lr=0.3, momentum=0.9)
decay = optim.lr_scheduler.ExponentialLR(sgd, gamma=0.98)
""",
        forward="""
def closure():
    sgd.zero_grad()
    value = pinball(f(X), wait)
    value.backward()
    return value
""",
        update="""
loss = sgd.step(closure)
decay.step()
""",
        steps=80,
        faults=(
            Fault(
                "each time against all quantiles of all rows",
                "broadcast",
                (("value = pinball(f(X), wait)", "value = pinball(f(X), wait.unsqueeze(1))"),),
                where=("error", "target", "pinball", "sub"),
                source="Stack Overflow, quantile loss broadcasts (n, 1) against (n,); NeuraLint",
            ),
            Fault(
                "the smaller branch of the pinball",
                "sign",
                (("losses.append(torch.max(", "losses.append(torch.min("),),
                where=("min", "pinball", "loss"),
                source="Humbatova 2020, Wrong loss function calculation; Stack Overflow, negative quantile loss",
                hosts=LOOPS,
            ),
            Fault(
                "all weights are zero",
                "initialization",
                (
                    (
                        "f = make_model(3, len(QUANTILES))\n",
                        "f = make_model(3, len(QUANTILES))\nfor w in f.parameters():\n    nn.init.zeros_(w)\n",
                    ),
                ),
                where=("weight", r"\b[024]\b", "zeros_"),
                source="DeepFD, improper weight initialization; Humbatova 2020, Wrong weights initialisation",
            ),
            Fault(
                "the rate falls to a tenth in each step",
                "rate too small",
                (("gamma=0.98", "gamma=0.1"),),
                where=(r"\blr\b", "rate", "schedule"),
                source="PyTorch forum, scheduler.step() in each batch and not in each epoch; Humbatova 2020",
                hosts=LOOPS,
            ),
            Fault(
                "the sum over all rows",
                "rate too large",
                (("return torch.stack(losses).mean()", "return torch.stack(losses).sum()"),),
                where=("sum", "pinball", r"\blr\b", "rate"),
                source="Stack Overflow, reduction='sum' needs a smaller learning rate; Humbatova 2020",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "failures of turbines by the partial likelihood",
        "survival",
        setup="""
import torch
from torch import nn

torch.manual_seed(12)
n = 240
raw = torch.randn(n, 6) * torch.tensor([40.0, 3.0, 1.0, 2000.0, 5.0, 1.0]) + 100.0
true_risk = (raw[:, 0] - 100) / 40 - 0.7 * ((raw[:, 4] - 100) / 5) ** 2
lifetime = torch.distributions.Exponential(torch.exp(true_risk)).sample()
censored = torch.distributions.Exponential(torch.full((n,), 0.3)).sample()
event = (lifetime <= censored).float()
time = torch.minimum(lifetime, censored)
order = torch.argsort(time, descending=True)
features = (raw - raw.mean(0)) / raw.std(0)
features, event = features[order], event[order]

class DeepSurv(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.SELU(), nn.Linear(32, 32), nn.SELU())
        self.head = nn.Linear(32, 1, bias=False)
    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)

def cox_loss(risk, event):
    log_cum = torch.logcumsumexp(risk, 0)
    return -((risk - log_cum) * event).sum() / event.sum()

class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    def compute_loss(self, x, event):
        return cox_loss(self.model(x), event)
    def optimize(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()

trainer = Trainer(DeepSurv(), lr=0.05)
""",
        forward="""
loss = trainer.compute_loss(features, event)
""",
        update="""
trainer.optimize(loss)
""",
        steps=80,
        faults=(
            Fault(
                "the likelihood of failures is minimised",
                "sign",
                (("return -((risk - log_cum)", "return ((risk - log_cum)"),),
                where=("loss", "cox_loss", "div"),
                source="Humbatova 2020, Wrong loss function calculation; pycox issues, sign of the partial likelihood",
                hosts=LOOPS,
            ),
            Fault(
                "the risk set without its gradient",
                "cut",
                (("torch.logcumsumexp(risk, 0)", "torch.logcumsumexp(risk.detach(), 0)"),),
                where=("detach", "log_cum", "risk"),
                source="PyTorch forum, part of the loss is detached; TrainCheck, silent loss of a gradient",
            ),
            Fault(
                "exponentials of raw measurements",
                "nan",
                (
                    ("torch.logcumsumexp(risk, 0)", "torch.log(torch.cumsum(torch.exp(risk), 0))"),
                    ("features = (raw - raw.mean(0)) / raw.std(0)", "features = raw"),
                ),
                where=("exp", "cumsum", "log", "features"),
                source="DeepLocalize, numerical error; Humbatova 2020, Missing preprocessing",
            ),
            Fault(
                "gradients of all steps add up in the trainer",
                "accumulated gradients",
                (("        self.optimizer.zero_grad()\n", ""),),
                where=("zero_grad", "head", "body", "optimizer"),
                source="PyTorch forum, forgotten zero_grad(); TrainCheck",
                hosts=LOOPS,
            ),
            Fault(
                "gradients are clipped to a millionth",
                "rate too small",
                (("self.model.parameters(), 5.0)", "self.model.parameters(), 1e-6)"),),
                where=("clip", "rate", r"\blr\b", "norm"),
                source="PyTorch forum, clip_grad_norm_ with a tiny norm; Humbatova 2020, Wrong gradient clipping",
                hosts=LOOPS,
            ),
            Fault(
                "only the body has an optimizer",
                "no optimizer",
                (("torch.optim.SGD(model.parameters()", "torch.optim.SGD(model.body.parameters()"),),
                where=("head",),
                source="PyTorch forum, a part's parameters are not passed to the optimizer; torchtest",
            ),
        ),
    ),
    Program(
        "film ratings by factors",
        "matrix factorisation",
        setup="""
import argparse
import torch

args = argparse.Namespace(users=60, films=40, rank=8, lr=20.0, reg=1e-4, batch=256)
g = torch.Generator().manual_seed(5)
true_u = torch.randn(args.users, 3, generator=g)
true_v = torch.randn(args.films, 3, generator=g)
pairs = torch.cartesian_prod(torch.arange(args.users), torch.arange(args.films))
pairs = pairs[torch.randperm(len(pairs), generator=g)][:1500]
stars = (3 + (true_u[pairs[:, 0]] * true_v[pairs[:, 1]]).sum(1) / 1.7).clamp(1, 5)

U = (0.3 * torch.randn(args.users, args.rank, generator=g)).requires_grad_()
V = (0.3 * torch.randn(args.films, args.rank, generator=g)).requires_grad_()
bias = torch.tensor(3.0, requires_grad=True)
rates = {"U": args.lr, "V": args.lr, "bias": 0.05}
curve = []
""",
        forward="""
pick = torch.randint(0, len(pairs), (args.batch,), generator=g)
u, v = pairs[pick].unbind(1)
guess = (U[u] * V[v]).sum(dim=1) + bias
loss = ((guess - stars[pick]) ** 2).mean() + args.reg * (U.pow(2).mean() + V.pow(2).mean())
""",
        update="""
loss.backward()
with torch.no_grad():
    for name, p in (("U", U), ("V", V), ("bias", bias)):
        p -= rates[name] * p.grad
        p.grad.zero_()
curve.append(float(loss))
""",
        steps=120,
        faults=(
            Fault(
                "factors climb",
                "sign",
                (("        p -= rates[name] * p.grad", "        p += rates[name] * p.grad"),),
                where=("add_", r"\bU\b", r"\bV\b", "p"),
                source="Stack Overflow, gradient descent by hand with the wrong sign; Humbatova 2020",
                hosts=LOOPS,
            ),
            Fault(
                "old gradients stay in the factors",
                "accumulated gradients",
                (("        p.grad.zero_()\n", ""),),
                where=(r"\bU\b", r"\bV\b", "grad", "bias"),
                source="Stack Overflow, gradients are not cleared in an update by hand; PyTorch tutorial",
                hosts=LOOPS,
            ),
            Fault(
                "factors of zeros",
                "initialization",
                (
                    ("U = (0.3 * torch.randn(", "U = (0.0 * torch.randn("),
                    ("V = (0.3 * torch.randn(", "V = (0.0 * torch.randn("),
                ),
                where=(r"\bU\b", r"\bV\b", "guess", "mul"),
                source="Humbatova 2020, Wrong weights initialisation; Stack Overflow, factors of zero do not learn",
            ),
            Fault(
                "the update is bound to a new name",
                "no step",
                (
                    ("        p -= rates[name] * p.grad", "        p = p - rates[name] * p.grad"),
                    ("p.grad.zero_()", "pass"),
                ),
                where=(r"\bU\b", r"\bV\b", "bias", "p"),
                source="Stack Overflow, w = w - lr * w.grad makes a new tensor",
                hosts=LOOPS,
            ),
            Fault(
                "a rate for each star",
                "rate too small",
                (("lr=20.0", "lr=1e-4"), ('"bias": 0.05', '"bias": 1e-5')),
                where=(r"\bU\b", r"\bV\b", "rate"),
                source="Humbatova 2020, Suboptimal learning rate; DeepFD, learning rate too low",
                hosts=LOOPS,
            ),
        ),
    ),
)
