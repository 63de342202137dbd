"""Truncated backpropagation, accumulation, equilibria and differential equations."""

from tests.doctor.program import Program

CHARACTERS = Program(
    "letters by chunks of a text",
    "truncated BPTT",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(400)
text = "the quick brown fox jumps over the lazy dog and the dog sleeps " * 12
alphabet = sorted(set(text))
ids = torch.tensor([alphabet.index(c) for c in text])
ids = ids[: len(ids) // 4 * 4].view(4, -1)

class CharRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(alphabet), 16)
        self.gru = nn.GRU(16, 32, batch_first=True)
        self.out = nn.Linear(32, len(alphabet))

    def forward(self, x, h):
        y, h = self.gru(self.embed(x), h)
        return self.out(y), h

model = CharRNN()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
hidden = torch.zeros(1, 4, 32)
""",
    """
at = (step * 12) % (ids.shape[1] - 13)
hidden = hidden.detach()
logits, hidden = model(ids[:, at : at + 12], hidden)
loss = F.cross_entropy(logits.transpose(1, 2), ids[:, at + 1 : at + 13])
""",
    """
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
""",
)

LONG_WAVES = Program(
    "two cells of an LSTM, cut every ten values",
    "truncated BPTT",
    """
import torch
import torch.nn as nn

torch.manual_seed(401)
t = torch.arange(600.0)
wave = torch.sin(0.2 * t) * torch.cos(0.031 * t)
cell1, cell2, readout = nn.LSTMCell(1, 16), nn.LSTMCell(16, 16), nn.Linear(16, 1)
network = nn.ModuleList([cell1, cell2, readout])
optimizer = torch.optim.RMSprop(network.parameters(), lr=3e-3)
h1 = c1 = h2 = c2 = torch.zeros(1, 16)
""",
    """
begin = (step * 10) % 580
h1, c1, h2, c2 = (s.detach() for s in (h1, c1, h2, c2))
errors = []
for i in range(begin, begin + 10):
    h1, c1 = cell1(wave[i].view(1, 1), (h1, c1))
    h2, c2 = cell2(h1, (h2, c2))
    errors.append((readout(h2)[0, 0] - wave[i + 1]) ** 2)
loss = torch.stack(errors).mean()
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

OVERLAP = Program(
    "memory handed on inside a function",
    "truncated BPTT",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(402)

class Memory(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.inp = nn.Linear(2, width)
        self.rec = nn.Linear(width, width, bias=False)
        nn.init.orthogonal_(self.rec.weight)
        self.out = nn.Linear(width, 1)

    def forward(self, xs, state):
        outs = []
        for x in xs:
            state = torch.tanh(self.inp(x) + self.rec(state))
            outs.append(self.out(state))
        return torch.stack(outs), state

def train_chunk(xs, ys, state):
    prediction, state = memory(xs, state)
    return F.binary_cross_entropy_with_logits(prediction, ys), state.data

memory = Memory()
optimizer = torch.optim.AdamW(memory.parameters(), lr=1e-2)
state = torch.zeros(16, 24)
""",
    """
bits = torch.randint(0, 2, (8, 16, 1)).float()
xs = torch.cat([bits, 1 - bits], 2)
loss, state = train_chunk(xs, bits.roll(1, 0) if step else bits, state)
""",
    """
optimizer.zero_grad(set_to_none=True)
loss.backward()
optimizer.step()
""",
)

MICRO = Program(
    "four micro batches a step",
    "accumulation",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(410)
inputs = torch.randn(256, 6)
labels = (inputs.norm(dim=1) > 2.3).long()
loader = DataLoader(TensorDataset(inputs, labels), batch_size=16, shuffle=True, drop_last=True)
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
history = []
optimizer = torch.optim.Adam(net.parameters(), lr=3e-2)
criterion = nn.CrossEntropyLoss()
accumulation_steps = 4
""",
    """
epoch_loss = 0.0
for i, (x, y) in enumerate(loader):
    loss = criterion(net(x), y) / accumulation_steps
    loss.backward()
    epoch_loss += loss.item()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    """
history.append(epoch_loss)
""",
    steps=10,
)

ACROSS_STEPS = Program(
    "a step every third iteration",
    "accumulation",
    """
import torch
import torch.nn as nn

torch.manual_seed(411)
weights = torch.randn(12, 1)
model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
EVERY = 3
""",
    """
x = torch.randn(20, 12)
loss = nn.functional.mse_loss(model(x), torch.sin(x @ weights / 3))
""",
    """
(loss / EVERY).backward()
if (step + 1) % EVERY == 0:
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
""",
    steps=60,
)

TOKENS = Program(
    "pieces weighted by their number of tokens",
    "accumulation",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(412)
V = 12
lm = nn.Sequential(nn.Embedding(V, 24), nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, V))
optimizer = torch.optim.AdamW(lm.parameters(), lr=1e-2)
""",
    """
optimizer.zero_grad()
pieces = [torch.randint(0, V, (4, int(n))) for n in torch.randint(3, 9, (3,))]
n_tokens = sum(piece.numel() for piece in pieces)
total = 0.0
for piece in pieces:
    following = (piece * 5 + 1) % V
    loss = F.cross_entropy(lm(piece).flatten(0, 1), following.flatten(), reduction="sum") / n_tokens
    loss.backward()
    total += loss.item()
""",
    """
nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
optimizer.step()
""",
)

EQUILIBRIUM = Program(
    "fixed point with one step of gradient",
    "DEQ",
    """
import torch
from torch import nn

torch.manual_seed(420)

class DEQ(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.W = nn.Linear(width, width, bias=False)
        self.U = nn.Linear(4, width)
        self.read = nn.Linear(width, 1)
        with torch.no_grad():
            self.W.weight.mul_(0.5)

    def f(self, z, x):
        return torch.tanh(self.W(z) + self.U(x))

    def forward(self, x):
        with torch.no_grad():
            z = torch.zeros(len(x), 16)
            for _ in range(12):
                z = self.f(z, x)
        return self.read(self.f(z, x))

deq = DEQ()
optimizer = torch.optim.Adam(deq.parameters(), lr=1e-2)
""",
    """
x = torch.randn(64, 4)
loss = ((deq(x) - torch.sin(x.sum(1, keepdim=True))) ** 2).mean()
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

IMPLICIT = Program(
    "fixed point with the implicit gradient by a hook",
    "DEQ",
    """
import torch
import torch.nn as nn
from torch import autograd

torch.manual_seed(421)

def solve(f, z, n=15):
    for _ in range(n):
        z = f(z)
    return z

class Implicit(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(12, 12)
        self.inject = nn.Linear(3, 12)
        self.inner.weight.data *= 0.6

    def forward(self, x):
        step_of = lambda z: torch.relu(0.8 * self.inner(z) + self.inject(x))
        with torch.no_grad():
            z = solve(step_of, torch.zeros(len(x), 12))
        z = step_of(z)
        z0 = z.clone().detach().requires_grad_()
        f0 = step_of(z0)
        if z.requires_grad:
            z.register_hook(lambda g: solve(lambda y: autograd.grad(f0, z0, y, retain_graph=True)[0] + g, g, 10))
        return z

model = nn.Sequential(Implicit(), nn.Linear(12, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
""",
    """
x = torch.randn(48, 3)
y = (x[:, 0] > x[:, 1]).long()
loss = nn.functional.cross_entropy(model(x), y)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    steps=25,
)

UNROLLED = Program(
    "equilibrium by unrolled damped iterations",
    "DEQ",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(422)
A = nn.Parameter(0.2 * torch.randn(10, 10))
B = nn.Parameter(torch.randn(5, 10) / 5**0.5)
C = nn.Parameter(torch.randn(10, 1) / 10**0.5)
optimizer = torch.optim.SGD([A, B, C], lr=0.2, momentum=0.8)

def settle(u, iterations=10, damping=0.5):
    z = torch.zeros(len(u), 10)
    for _ in range(iterations):
        z = (1 - damping) * z + damping * torch.tanh(z @ A + u @ B)
    return z
""",
    """
u = torch.randn(40, 5)
loss = F.mse_loss(settle(u) @ C, torch.tanh(u[:, :1] - u[:, 1:2]))
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

OSCILLATOR = Program(
    "damped oscillator by its equation",
    "physics-informed",
    """
import torch
from torch import nn

torch.manual_seed(430)
net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
""",
    """
t = (3 * torch.rand(48, 1)).requires_grad_(True)
u = net(t)
du, = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)
d2u, = torch.autograd.grad(du, t, torch.ones_like(du), create_graph=True)
residual = d2u + 0.4 * du + 2.0 * u
t0 = torch.zeros(1, 1, requires_grad=True)
u0 = net(t0)
du0, = torch.autograd.grad(u0, t0, create_graph=True)
loss = residual.pow(2).mean() + 10 * (u0 - 1).pow(2).sum() + 10 * du0.pow(2).sum()
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

HEAT = Program(
    "heat along a rod, with an unknown conductivity",
    "physics-informed",
    """
import math
import torch
import torch.nn as nn

torch.manual_seed(431)

class Rod(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 20), nn.SiLU(), nn.Linear(20, 20), nn.SiLU(), nn.Linear(20, 1))
        self.log_kappa = nn.Parameter(torch.tensor(-1.0))

    def forward(self, x, t):
        return self.net(torch.stack([x, t], 1)).squeeze(1) * x * (1 - x) * 4

def d(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]

rod = Rod()
optimizer = torch.optim.Adam([{"params": rod.net.parameters()}, {"params": [rod.log_kappa], "lr": 5e-2}], lr=1e-2)
""",
    """
x, t = torch.rand(2, 40)
x.requires_grad_()
t.requires_grad_()
u = rod(x, t)
physics = (d(u, t) - rod.log_kappa.exp() * d(d(u, x), x)).pow(2).mean()
xs, ts = torch.rand(2, 40)
measured = torch.sin(math.pi * xs) * torch.exp(-0.1 * math.pi**2 * ts)
loss = 0.01 * physics + (rod(xs, ts) - measured).pow(2).mean()
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    steps=30,
)

POISSON_EQUATION = Program(
    "Poisson's equation by LBFGS",
    "physics-informed",
    """
import math
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(432)
u = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(u.parameters(), lr=0.5, max_iter=4, history_size=10)
x = torch.linspace(0, 1, 30)[:, None].requires_grad_()
force = math.pi**2 * torch.sin(math.pi * x.detach())

def residual_loss():
    y = u(x)
    slope = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
    bend = torch.autograd.grad(slope.sum(), x, create_graph=True)[0]
    edges = u(torch.tensor([[0.0], [1.0]]))
    return ((bend + force) ** 2).mean() + 20 * (edges**2).mean()

def closure():
    optimizer.zero_grad()
    value = residual_loss()
    value.backward()
    return value
""",
    """
loss = optimizer.step(closure)
""",
    """
latest = loss.item()
""",
    steps=15,
)

PROGRAMS = [
    CHARACTERS,
    LONG_WAVES,
    OVERLAP,
    MICRO,
    ACROSS_STEPS,
    TOKENS,
    EQUILIBRIUM,
    IMPLICIT,
    UNROLLED,
    OSCILLATOR,
    HEAT,
    POISSON_EQUATION,
]
