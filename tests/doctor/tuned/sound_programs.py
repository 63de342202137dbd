"""Sound programs of kinds that look like faults: they must have no finding."""

from tests.doctor.program import Program

PROGRAMS = (
    Program(
        "wasserstein gan with a gradient penalty",
        "GAN",
        setup="""
import torch
from torch import autograd, nn, optim

torch.manual_seed(30)
netG = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 2))
netD = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
optD = optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.9))
optG = optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.9))

def gradient_penalty(real, fake):
    alpha = torch.rand(len(real), 1)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = netD(mixed)
    grads, = autograd.grad(scores.sum(), mixed, create_graph=True)
    return ((grads.norm(2, dim=1) - 1) ** 2).mean()
""",
        forward="""
for _ in range(2):
    real = torch.randn(32, 2) * 0.3 + torch.tensor([1.0, -0.5])
    with torch.no_grad():
        fake = netG(torch.randn(32, 3))
    loss_D = netD(fake).mean() - netD(real).mean() + 10 * gradient_penalty(real, fake)
    optD.zero_grad()
    loss_D.backward()
    optD.step()
for p in netD.parameters():
    p.requires_grad_(False)
loss = -netD(netG(torch.randn(32, 3))).mean()
""",
        update="""
optG.zero_grad()
loss.backward()
optG.step()
for p in netD.parameters():
    p.requires_grad_(True)
""",
    ),
    Program(
        "reinforce with a baseline",
        "RL",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

torch.manual_seed(31)

class Policy(nn.Module):
    def __init__(self):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(6, 24)
        self.affine2 = nn.Linear(24, 2)
    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.affine1(x))), dim=-1)

policy = Policy()
optimizer = optim.Adam(policy.parameters(), lr=2e-2)

def episode():
    place, log_probs, rewards = 2, [], []
    for _ in range(8):
        m = Categorical(policy(torch.eye(6)[place]))
        action = m.sample()
        log_probs.append(m.log_prob(action))
        place = max(0, min(5, place + 2 * int(action) - 1))
        rewards.append(float(place == 5))
    return log_probs, rewards

def returns(rewards, gamma=0.95):
    R, out = 0.0, []
    for r in reversed(rewards):
        R = r + gamma * R
        out.insert(0, R)
    return out

baseline = 0.0
""",
        forward="""
policy_loss, total = [], 0.0
for _ in range(3):
    log_probs, rewards = episode()
    total += sum(rewards)
    for log_prob, R in zip(log_probs, returns(rewards)):
        policy_loss.append(-log_prob * (R - baseline))
loss = torch.stack(policy_loss).sum() / 3
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
baseline = 0.9 * baseline + 0.1 * total / 12
""",
        steps=15,
    ),
    Program(
        "beta vae with a warm-up of the divergence",
        "VAE",
        setup="""
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

torch.manual_seed(32)
t = torch.linspace(0, 1, 24)
curves = torch.sin(6.28 * (t[None] + torch.rand(64, 1))) * (0.5 + torch.rand(64, 1))
encoder = nn.Sequential(nn.Linear(24, 48), nn.ELU(), nn.Linear(48, 8))
decoder = nn.Sequential(nn.Linear(4, 48), nn.ELU(), nn.Linear(48, 24))
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=5e-3)
""",
        forward="""
mean, log_std = encoder(curves).chunk(2, dim=-1)
q = Normal(mean, log_std.exp())
z = q.rsample()
reconstruction_error = (decoder(z) - curves).pow(2).sum(-1).mean()
kl = kl_divergence(q, Normal(0.0, 1.0)).sum(-1).mean()
beta = min(1.0, (step + 1) / 30)
loss = reconstruction_error + 0.05 * beta * kl
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    ),
    Program(
        "distillation from a frozen teacher",
        "distillation",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(33)
x = torch.randn(90, 6)
y = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 0).long()

def mlp(width):
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))

teacher, student = mlp(64), mlp(16)
warm = torch.optim.Adam(teacher.parameters(), lr=2e-2)
for _ in range(60):
    warm.zero_grad()
    F.cross_entropy(teacher(x), y).backward()
    warm.step()
teacher.eval()
for p in teacher.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(student.parameters(), lr=2e-2)
T = 3.0
""",
        forward="""
student_logits = student(x)
with torch.no_grad():
    teacher_logits = teacher(x)
soft = F.kl_div(F.log_softmax(student_logits / T, dim=1), F.softmax(teacher_logits / T, dim=1), reduction="batchmean")
loss = 0.5 * T * T * soft + 0.5 * F.cross_entropy(student_logits, y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    ),
    Program(
        "fine-tuning with a frozen body in eval mode",
        "fine-tuning",
        setup="""
import torch
from torch import nn

torch.manual_seed(34)
body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten())
body.eval()
for p in body.parameters():
    p.requires_grad = False
head = nn.Sequential(nn.Dropout(0.1), nn.Linear(72, 2))
model = nn.Sequential(body, head)
images = torch.randn(50, 1, 9, 9)
labels = torch.arange(50) % 2
images[labels == 1, :, 3:6, 3:6] += 1.5
learning = filter(lambda p: p.requires_grad, model.parameters())
optimizer = torch.optim.SGD(learning, lr=0.1, momentum=0.9, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=15, gamma=0.3)
""",
        forward="""
loss = nn.functional.cross_entropy(model(images), labels)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
scheduler.step()
""",
    ),
    Program(
        "low rank adapters of a frozen net",
        "LoRA",
        setup="""
import torch
from torch import nn

torch.manual_seed(35)
x = torch.randn(80, 16)
y = torch.sin(x @ torch.randn(16, 1) / 2)

class Adapter(nn.Module):
    def __init__(self, linear, rank=2):
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
    def forward(self, x):
        return self.linear(x) + 2.0 * self.up(self.down(x))

sizes = [(16, 32), (32, 32), (32, 1)]
model = nn.Sequential()
for number, (n_in, n_out) in enumerate(sizes):
    model.append(Adapter(nn.Linear(n_in, n_out)))
    if number < 2:
        model.append(nn.Tanh())
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
""",
        forward="""
loss = nn.functional.mse_loss(model(x), y)
""",
        update="""
loss.backward()
optimizer.step()
optimizer.zero_grad()
""",
    ),
    Program(
        "truncated backpropagation with a detached state",
        "truncated BPTT",
        setup="""
import torch
from torch import nn

torch.manual_seed(36)
signal = torch.sin(torch.arange(0, 400) * 0.3)[:, None, None] + 0.02 * torch.randn(400, 1, 1)
cell = nn.GRUCell(1, 20)
readout = nn.Linear(20, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *readout.parameters()], lr=1e-2)
hidden = torch.zeros(1, 20)

def repackage(h):
    return h.detach()
""",
        forward="""
hidden = repackage(hidden)
loss = 0
for k in range(8):
    t = (step * 8 + k) % 399
    hidden = cell(signal[t], hidden)
    loss = loss + (readout(hidden) - signal[t + 1]).pow(2).mean()
loss = loss / 8
""",
        update="""
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(cell.parameters(), 1.0)
optimizer.step()
""",
        steps=45,
    ),
    Program(
        "accumulation that is divided",
        "accumulation",
        setup="""
import torch
from torch import nn

torch.manual_seed(37)
inputs, targets = torch.randn(64, 7), torch.randint(0, 3, (64,))
targets = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0.3).long()
net = nn.Sequential(nn.Linear(7, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-2)
parts = 4
""",
        forward="""
optimizer.zero_grad()
seen = 0.0
for xb, yb in zip(inputs.chunk(parts), targets.chunk(parts)):
    loss = nn.functional.cross_entropy(net(xb), yb) / parts
    loss.backward()
    seen += loss.item()
""",
        update="""
torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
optimizer.step()
""",
        steps=30,
    ),
    Program(
        "contrastive learning with an averaged network",
        "contrastive",
        setup="""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(38)
centers = torch.randn(40, 10)
online = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
predictor = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
target = copy.deepcopy(online).requires_grad_(False)
optimizer = torch.optim.Adam([*online.parameters(), *predictor.parameters()], lr=5e-3)

def view():
    return centers + 0.2 * torch.randn_like(centers)

def info_nce(a, b, temperature=0.2):
    logits = F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T / temperature
    return F.cross_entropy(logits, torch.arange(len(a)))
""",
        forward="""
one, two = view(), view()
with torch.no_grad():
    key_one, key_two = target(one), target(two)
loss = info_nce(predictor(online(one)), key_two) + info_nce(predictor(online(two)), key_one)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
with torch.no_grad():
    for old, new in zip(target.parameters(), online.parameters()):
        old.lerp_(new, 0.05)
""",
    ),
    Program(
        "deep equilibrium",
        "DEQ",
        setup="""
import torch
from torch import nn

torch.manual_seed(39)
x = torch.randn(60, 5)
y = torch.tanh(x[:, :1] * 2) - 0.5 * x[:, 1:2] ** 2

class DEQ(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.inject = nn.Linear(5, width)
        self.weight = nn.Linear(width, width, bias=False)
        nn.init.orthogonal_(self.weight.weight, gain=0.5)
        self.out = nn.Linear(width, 1)

    def f(self, z, x):
        return torch.tanh(self.weight(z) + self.inject(x))

    def forward(self, x):
        with torch.no_grad():
            z = torch.zeros(len(x), self.weight.in_features)
            for _ in range(15):
                z = self.f(z, x)
        for _ in range(2):
            z = self.f(z, x)
        return self.out(z)

deq = DEQ()
optimizer = torch.optim.Adam(deq.parameters(), lr=1e-2)
""",
        forward="""
loss = nn.functional.mse_loss(deq(x), y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=50,
    ),
    Program(
        "physics-informed oscillator",
        "physics-informed",
        setup="""
import torch
from torch import nn

torch.manual_seed(40)
u = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(u.parameters(), lr=5e-3)
t = torch.linspace(0, 2, 40).unsqueeze(1).requires_grad_(True)
t0 = torch.zeros(1, 1, requires_grad=True)

def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]
""",
        forward="""
y = u(t)
dy = derivative(y, t)
ddy = derivative(dy, t)
physics = (ddy + 0.5 * dy + 4 * y).pow(2).mean()
start = u(t0)
initial = (start - 1).pow(2).sum() + derivative(start, t0).pow(2).sum()
loss = 0.05 * physics + initial
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=50,
    ),
    Program(
        "normalizing flow with coupling layers",
        "flow",
        setup="""
import math
import torch
import torch.nn as nn

torch.manual_seed(41)
a = torch.randn(128) * 0.7
points = torch.stack([a, a ** 2 + 0.2 * torch.randn(128)], dim=1)

class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 2))
    def forward(self, x):
        keep, change = (x[:, 1:], x[:, :1]) if self.flip else (x[:, :1], x[:, 1:])
        s, t = self.net(keep).chunk(2, dim=1)
        s = torch.tanh(s)
        change = change * s.exp() + t
        x = torch.cat([change, keep] if self.flip else [keep, change], dim=1)
        return x, s.squeeze(1)

flows = nn.ModuleList([Coupling(i % 2 == 1) for i in range(4)])
optimizer = torch.optim.Adam(flows.parameters(), lr=1e-2)
""",
        forward="""
z, log_det = points, torch.zeros(len(points))
for flow in flows:
    z, ld = flow(z)
    log_det = log_det + ld
log_prob = -0.5 * z.pow(2).sum(1) - math.log(2 * math.pi) + log_det
loss = -log_prob.mean()
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    ),
    Program(
        "counts with a poisson loss, a warm-up and a validation",
        "regression",
        setup="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(42)
features = torch.randn(120, 3)
counts = torch.poisson(torch.exp(0.8 * features[:, 0] - 0.5 * features[:, 1] + 1))
train = DataLoader(TensorDataset(features[:96], counts[:96]), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.BatchNorm1d(24), nn.Dropout(0.1), nn.Linear(24, 1))
criterion = nn.PoissonNLLLoss()
optimizer = torch.optim.RAdam(model.parameters(), lr=2e-2)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=4)
best = float("inf")
""",
        forward="""
model.train()
losses = []
for xb, yb in train:
    optimizer.zero_grad()
    loss = criterion(model(xb).squeeze(-1), yb)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
scheduler.step()
""",
        update="""
model.eval()
with torch.no_grad():
    val = criterion(model(features[96:]).squeeze(-1), counts[96:]).item()
if val < best:
    best, best_state = val, {k: v.clone() for k, v in model.state_dict().items()}
""",
        steps=15,
    ),
)
