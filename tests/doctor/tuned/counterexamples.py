"""Programs that do on purpose what is a fault elsewhere: ascent, softmax over the rows, detached weights, a log."""

from tests.doctor.program import Fault, Program

PROGRAMS = (
    Program(
        "digits against an adversary",
        "adversarial training",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(301)
means = 1.5 * torch.randn(4, 10)
def digits(n):
    y = torch.randint(0, 4, (n,))
    return means[y] + 0.5 * torch.randn(n, 10), y

net = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
EPS, ALPHA = 0.3, 0.15
""",
        forward="""
x, y = digits(48)
delta = torch.zeros_like(x, requires_grad=True)
for _ in range(3):
    F.cross_entropy(net(x + delta), y).backward()
    delta.data += ALPHA * delta.grad.sign()
    delta.data.clamp_(-EPS, EPS)
    delta.grad.zero_()
loss = F.cross_entropy(net(x + delta.detach()), y)
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
""",
        steps=40,
    ),
    Program(
        "profit under a limit with a multiplier that ascends",
        "constrained",
        setup="""
import torch
from torch import nn

torch.manual_seed(307)
prices = torch.rand(200, 5) + 0.5
policy = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1), nn.Softplus())
multiplier = nn.Parameter(torch.zeros(1))
primal = torch.optim.Adam(policy.parameters(), lr=1e-2)
dual = torch.optim.SGD([multiplier], lr=0.2, maximize=True)
LIMIT = 0.8
""",
        forward="""
spent = policy(prices).squeeze(1)
profit = (prices.sum(1) * torch.log1p(spent)).mean()
violation = spent.mean() - LIMIT
loss = -profit + multiplier.squeeze() * violation
""",
        update="""
primal.zero_grad()
dual.zero_grad()
loss.backward()
primal.step()
dual.step()
with torch.no_grad():
    multiplier.clamp_(min=0)
""",
        steps=120,
    ),
    Program(
        "slides as bags of patches",
        "multiple instances",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(311)
def slide():
    n = int(torch.randint(6, 14, ()))
    bag = torch.randn(n, 6)
    y = torch.randint(0, 2, ()).float()
    if y:
        bag[: 3, :2] += 3.0
    return bag[torch.randperm(n)], y

class AttentionMIL(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(6, 32), nn.ReLU())
        self.attention = nn.Sequential(nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 1))
        self.classify = nn.Linear(32, 1)
    def forward(self, bag):
        h = self.embed(bag)
        a = torch.softmax(self.attention(h), dim=0)
        return self.classify((a * h).sum(0)).squeeze(0)

mil = AttentionMIL()
opt = torch.optim.Adam(mil.parameters(), lr=5e-3)
""",
        forward="""
losses = []
for bag, y in (slide() for _ in range(8)):
    losses.append(nn.functional.binary_cross_entropy_with_logits(mil(bag), y))
loss = torch.stack(losses).mean()
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
""",
        steps=70,
    ),
    Program(
        "returns as quantiles of all pairs",
        "distributional RL",
        setup="""
import copy
import torch
from torch import nn

torch.manual_seed(313)
N = 11
tau = (torch.arange(N) + 0.5) / N
net = nn.Sequential(nn.Linear(3, 40), nn.ReLU(), nn.Linear(40, 2 * N))
lagged = copy.deepcopy(net).requires_grad_(False)
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
S, S2 = torch.rand(400, 3), torch.rand(400, 3)
A = torch.randint(0, 2, (400,))
R = S[:, 0] * A + 0.3 * torch.randn(400)
""",
        forward="""
k = torch.randint(0, 400, (32,))
theta = net(S[k]).view(32, 2, N)[torch.arange(32), A[k]]
with torch.no_grad():
    z = lagged(S2[k]).view(32, 2, N)
    best = z.mean(2).argmax(1)
    target = R[k, None] + 0.8 * z[torch.arange(32), best]
u = target[:, None, :] - theta[:, :, None]
huber = torch.where(u.abs() < 1, 0.5 * u ** 2, u.abs() - 0.5)
loss = ((tau[None, :, None] - (u.detach() < 0).float()).abs() * huber).mean(2).sum(1).mean()
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
if step % 20 == 19:
    lagged.load_state_dict(net.state_dict())
""",
        steps=100,
    ),
    Program(
        "rare birds with a focal loss",
        "classifier",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(317)
calls = torch.randn(600, 9)
bird = (calls[:, 0] + calls[:, 1] > 1.0).long() + (calls[:, 2] * calls[:, 3] > 0.8).long()
model = nn.Sequential(nn.Linear(9, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)

def focal(logits, y, gamma=2.0):
    log_p = F.log_softmax(logits, dim=1).gather(1, y[:, None]).squeeze(1)
    weight = (1 - log_p.detach().exp()) ** gamma
    return -(weight * log_p).mean()
""",
        forward="""
rows = torch.randperm(600)[:100]
loss = focal(model(calls[rows]), bird[rows])
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=80,
    ),
    Program(
        "net whose norms stay in eval mode",
        "fine-tuning",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(331)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.na = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.b, self.nb = nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 3)
    def train(self, mode=True):
        super().train(mode)
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.eval()
                m.requires_grad_(False)
        return self
    def forward(self, x):
        x = F.relu(self.na(self.a(x)))
        x = F.relu(self.nb(self.b(F.max_pool2d(x, 2))))
        return self.head(x.mean((2, 3)))

def waves(n):
    y = torch.randint(0, 3, (n,))
    rows = torch.sin(torch.arange(10) * (y[:, None] + 1) * 0.8 + 6.28 * torch.rand(n, 1))
    return rows[:, None, None, :] + 0.3 * torch.randn(n, 1, 10, 10), y

net = Net()
with torch.no_grad():
    for norm, layer in ((net.na, net.a), (net.nb, net.b)):
        norm.running_var.fill_(0.2)
net.train()
optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.05, momentum=0.9)
""",
        forward="""
x, y = waves(32)
loss = F.cross_entropy(net(x), y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=80,
    ),
    Program(
        "parrot that repeats what it has read",
        "seq2seq",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(337)
SYMBOLS = 7
class Parrot(nn.Module):
    def __init__(self, d=40):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS + 1, d)
        self.listen = nn.LSTM(d, d)
        self.speak = nn.LSTM(d, d)
        self.out = nn.Linear(d, SYMBOLS)
    def forward(self, heard):
        _, state = self.listen(self.embed(heard))
        start = torch.full_like(heard[:1], SYMBOLS)
        spoken, _ = self.speak(self.embed(torch.cat([start, heard[:-1]])), state)
        return self.out(spoken)

parrot = Parrot()
opt = torch.optim.Adam(parrot.parameters(), lr=1e-2)
""",
        forward="""
heard = torch.randint(0, SYMBOLS, (4, 64))
loss = nn.functional.cross_entropy(parrot(heard).flatten(0, 1), heard.flatten())
""",
        update="""
opt.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(parrot.parameters(), 1.0)
opt.step()
""",
        steps=120,
    ),
    Program(
        "pictures of which a quarter is seen",
        "autoencoder",
        setup="""
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(347)
atoms = torch.randn(3, 40)
def sample(n):
    return torch.tanh(torch.randn(n, 3) @ atoms)

net = nn.Sequential(nn.Dropout(0.75), nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 40))
opt = torch.optim.Adam(net.parameters(), lr=4e-3, betas=(0.5, 0.95))
rate = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.0, total_iters=100)
""",
        forward="""
x = sample(128)
loss = F.mse_loss(net(x), x)
""",
        update="""
opt.zero_grad(); loss.backward(); opt.step(); rate.step()
""",
        steps=100,
    ),
    Program(
        "two players with labels of their own",
        "GAN",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(349)
netG = nn.Sequential(nn.Linear(4, 32), nn.ReLU(True), nn.Linear(32, 2))
netD = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2, True), nn.Linear(32, 1), nn.Flatten(0))
bce = nn.BCEWithLogitsLoss()
optD = torch.optim.Adam(netD.parameters(), lr=3e-3, betas=(0.0, 0.99))
optG = torch.optim.Adam(netG.parameters(), lr=3e-3, betas=(0.0, 0.99))
real_label, fake_label = torch.full((64,), 1.0), torch.full((64,), 0.0)
""",
        forward="""
real = torch.randn(64, 2) * torch.tensor([1.0, 0.3]) + torch.tensor([2.0, -1.0])
fake = netG(torch.randn(64, 4))
netD.zero_grad()
errD_real = bce(netD(real), real_label)
errD_real.backward()
errD_fake = bce(netD(fake.detach()), fake_label)
errD_fake.backward()
optD.step()
netG.zero_grad()
errG = bce(netD(fake), real_label)
loss = errG
""",
        update="""
errG.backward()
optG.step()
""",
        steps=60,
    ),
    Program(
        "answers in the order of their use",
        "ranking",
        setup="""
import torch
from torch import nn

torch.manual_seed(353)
class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.layers = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    def forward(self, x):
        return self.layers(self.norm(x)).squeeze(-1)

scorer = Scorer()
opt = torch.optim.Adadelta(scorer.parameters(), lr=1.0)
weights = torch.randn(6)
""",
        forward="""
answers = 300 + 100 * torch.randn(24, 6)
use = (answers / 100) @ weights
scores = scorer(answers)
gap = scores.unsqueeze(1) - scores
better = (use.unsqueeze(1) > use).float()
loss = (nn.functional.softplus(-gap) * better).sum() / better.sum()
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
""",
        steps=100,
    ),
    Program(
        "domains that cannot be told apart",
        "domain adaptation",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(359)
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.weight = weight
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return -ctx.weight * g, None

body = nn.Sequential(nn.Linear(5, 32), nn.ReLU())
task, domain = nn.Linear(32, 2), nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.SGD([*body.parameters(), *task.parameters(), *domain.parameters()], lr=0.1, momentum=0.9)

def source_and_target(n):
    x = torch.randn(n, 5)
    y = (x[:, 0] - x[:, 1] > 0).long()
    return x, y, torch.randn(n, 5) + torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0])
""",
        forward="""
xs, y, xt = source_and_target(48)
hs, ht = body(xs), body(xt)
which = torch.cat([torch.zeros(48), torch.ones(48)]).long()
adversary = F.cross_entropy(domain(Reverse.apply(torch.cat([hs, ht]), 0.1)), which)
loss = F.cross_entropy(task(hs), y) + adversary
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
""",
        steps=80,
    ),
    Program(
        "momentum that is kept in the gradients",
        "plain leaves",
        setup="""
import torch

torch.manual_seed(367)
A = torch.randn(80, 5)
b = A @ torch.tensor([1.0, -2.0, 0.5, 3.0, 0.0]) + 0.05 * torch.randn(80)
w = torch.zeros(5, requires_grad=True)
c = torch.zeros((), requires_grad=True)
RATE, MOMENTUM = 0.03, 0.8
""",
        forward="""
loss = (A @ w + c - b).square().mean()
""",
        update="""
loss.backward()
with torch.no_grad():
    for v in (w, c):
        v -= RATE * v.grad
        v.grad *= MOMENTUM
""",
        steps=80,
    ),
    Program(
        "heads of which one is asked at a time",
        "multi-task",
        setup="""
import random
import torch
from torch import nn

random.seed(373); torch.manual_seed(373)
class Many(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(8, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU())
        self.heads = nn.ModuleDict({t: nn.Linear(48, 1) for t in tasks})
    def forward(self, x, task):
        return self.heads[task](self.shared(x)).squeeze(1)

TASKS = {"sum": lambda x: x.sum(1) / 2, "first": lambda x: x[:, 0], "product": lambda x: x[:, 0] * x[:, 1]}
model = Many(TASKS)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
""",
        forward="""
name = random.choice(list(TASKS))
x = torch.randn(64, 8)
loss = nn.functional.smooth_l1_loss(model(x, name), TASKS[name](x))
""",
        update="""
optimizer.zero_grad(set_to_none=True)
loss.backward()
optimizer.step()
""",
        steps=120,
    ),
    Program(
        "few pictures that stand for many",
        "data distillation",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(379)
centres = 2 * torch.randn(3, 6)
real_x, real_y = [], torch.arange(3).repeat(60)
real_x = centres[real_y] + 0.6 * torch.randn(180, 6)
tiny = torch.randn(9, 6, requires_grad=True)
tiny_y = torch.arange(3).repeat(3)
opt = torch.optim.Adam([tiny], lr=0.1)

def slopes_of(net, x, y, create_graph=False):
    return torch.autograd.grad(F.cross_entropy(net(x), y), list(net.parameters()), create_graph=create_graph)
""",
        forward="""
net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 3))
wanted = [g.detach() for g in slopes_of(net, real_x, real_y)]
found = slopes_of(net, tiny, tiny_y, create_graph=True)
loss = sum(1 - F.cosine_similarity(a.flatten(), b.flatten(), dim=0) for a, b in zip(wanted, found))
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
""",
        steps=60,
    ),
    Program(
        "a forecast with numbers for the log",
        "time series",
        setup="""
import math
import torch
import torch.nn as nn

torch.manual_seed(331)
series = torch.sin(torch.arange(400) / 5) + 0.1 * torch.randn(400)
windows = series.unfold(0, 17, 1)

def gap(a, b):
    return (a - b).abs().mean()

class Trainer:
    def __init__(self, net):
        self.net, self.opt = net, torch.optim.Adam(net.parameters(), lr=3e-3)
        self.smooth, self.gaps, self.likelihoods = torch.tensor(0.0), 0.0, []
    def forward(self, rows):
        mean, log_scale = self.net(rows[:, :16]).unbind(1)
        self.mean, self.wanted = mean, rows[:, 16]
        errors = (mean - self.wanted) / log_scale.exp()
        self.loss_grad = (0.5 * errors.square() + log_scale).mean() + 0.1 * gap(mean, self.wanted)
        self.loss = self.loss_grad.clone()
        self.likelihood = torch.exp(-self.loss_grad - 0.5 * math.log(2 * math.pi))
        self.last_gap = gap(mean[-8:], self.wanted[-8:])
        return self.loss_grad
    def after_step(self, step):
        self.smooth = torch.lerp(self.loss.mean().detach(), self.smooth, 0.98)
        self.gaps += self.last_gap.item()
        if step % 10 == 1:
            self.likelihoods.append(float(self.likelihood.detach()))

trainer = Trainer(nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 2)))
""",
        forward="""
rows = windows[torch.randint(0, len(windows), (48,))]
loss = trainer.forward(rows)
""",
        update="""
trainer.opt.zero_grad()
loss.backward()
trainer.opt.step()
trainer.after_step(step)
""",
        steps=60,
        faults=(
            Fault(
                "forecast without its second gap",
                "unused",
                (
                    (
                        "        self.last_gap = gap",
                        "        gap(mean.diff(), self.wanted.diff())\n        self.last_gap = gap",
                    ),
                ),
                where=("a - b",),
                source="Humbatova 2020, Wrong loss function calculation: missing term",
                hosts=("whole", "loop", "paced", "function"),
            ),
        ),
    ),
)
