"""Sound programs with losses that behave unusually: negative, nearly flat, growing, second order, of several nets."""

from tests.doctor.program import Program

PROGRAMS = (
    Program(
        "clicks on an advertisement",
        "classifier",
        setup="""
import math
import torch
import torch.nn as nn

torch.manual_seed(131)
n = 4000
user, ad = torch.randint(0, 50, (n,)), torch.randint(0, 20, (n,))
taste = 0.7 * torch.randn(50, 20)
clicked = (torch.rand(n) < torch.sigmoid(taste[user, ad] - 3.0)).float()

class WideAndDeep(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.u, self.a = nn.Embedding(50, 8), nn.Embedding(20, 8)
        self.wide = nn.Embedding(20, 1)
        self.deep = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
        nn.init.zeros_(self.wide.weight)
        nn.init.zeros_(self.deep[2].weight)
        nn.init.constant_(self.deep[2].bias, math.log(rate / (1 - rate)))
    def forward(self, u, a):
        return (self.deep(torch.cat([self.u(u), self.a(a)], 1)) + self.wide(a)).squeeze(1)

net = WideAndDeep(clicked.mean().item())
opt = torch.optim.Adagrad(net.parameters(), lr=0.05)
bce = nn.BCEWithLogitsLoss()
""",
        forward="""
pick = torch.randint(0, n, (512,))
loss = bce(net(user[pick], ad[pick]), clicked[pick])
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
""",
        steps=80,
    ),
    Program(
        "density of heights by a mixture",
        "density estimation",
        setup="""
import torch
import torch.nn as nn
from torch.distributions import Categorical, MixtureSameFamily, Normal

torch.manual_seed(137)
x = torch.rand(600, 1) * 2 - 1
y = (torch.where(torch.rand(600, 1) < 0.5, x ** 2, -x) + 0.03 * torch.randn(600, 1)).squeeze(1)

class MDN(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.pi, self.mu, self.log_sigma = (nn.Linear(48, k) for _ in range(3))
    def forward(self, x):
        h = self.hidden(x)
        sigma = self.log_sigma(h).clamp(-4, 2).exp()
        return MixtureSameFamily(Categorical(logits=self.pi(h)), Normal(self.mu(h), sigma))

mdn = MDN()
opt = torch.optim.Adam(mdn.parameters(), lr=8e-3)
""",
        forward="""
rows = torch.randint(0, 600, (128,))
loss = -mdn(x[rows]).log_prob(y[rows]).mean()
""",
        update="""
opt.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(mdn.parameters(), 5.0)
opt.step()
""",
        steps=120,
    ),
    Program(
        "sums of longer and longer rows",
        "curriculum",
        setup="""
import torch
from torch import nn

torch.manual_seed(139)
class Summer(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(1, 32)
        self.read = nn.Linear(32, 1)
    def forward(self, rows):
        h = rows.new_zeros(rows.size(0), 32)
        for column in rows.unbind(1):
            h = self.cell(column[:, None], h)
        return self.read(h)[:, 0]

model = Summer()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
""",
        forward="""
length = 2 + step // 15
rows = torch.rand(64, length)
loss = nn.functional.mse_loss(model(rows), rows.sum(1))
""",
        update="""
opt.zero_grad(); loss.backward(); opt.step()
""",
        steps=120,
    ),
    Program(
        "smooth classifier with a penalty of its slopes",
        "classifier",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(149)
x_all = torch.randn(256, 2)
y_all = (x_all.norm(dim=1) > 1.1).long()
net = nn.Sequential(nn.Linear(2, 40), nn.Softplus(beta=5), nn.Linear(40, 40), nn.Softplus(beta=5), nn.Linear(40, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
""",
        forward="""
x = x_all[(64 * step) % 256:(64 * step) % 256 + 64].clone().requires_grad_(True)
y = y_all[(64 * step) % 256:(64 * step) % 256 + 64]
logits = net(x)
nll = F.cross_entropy(logits, y)
(slope,) = torch.autograd.grad(nll, x, create_graph=True)
loss = nll + 5.0 * slope.pow(2).sum()
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=80,
    ),
    Program(
        "codebook of patches",
        "vector quantisation",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(151)
kinds = torch.rand(8, 16)
patches = (kinds[torch.randint(0, 8, (512,))] + 0.05 * torch.randn(512, 16)).clamp(0, 1)

class VectorQuantizer(nn.Module):
    def __init__(self, n_codes, dim, beta=0.25):
        super().__init__()
        self.codebook = nn.Embedding(n_codes, dim)
        nn.init.uniform_(self.codebook.weight, -1.0, 1.0)
        self.beta = beta
    def forward(self, z):
        nearest = torch.cdist(z, self.codebook.weight).argmin(1)
        q = self.codebook(nearest)
        commitment = F.mse_loss(q, z.detach()) + self.beta * F.mse_loss(z, q.detach())
        return z + (q - z).detach(), commitment

class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        self.vq = VectorQuantizer(16, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 16), nn.Sigmoid())
    def forward(self, x):
        q, commitment = self.vq(self.encoder(x))
        return self.decoder(q), commitment

vqvae = VQVAE()
optimizer = torch.optim.Adam(vqvae.parameters(), lr=5e-3)
""",
        forward="""
x = patches[torch.randint(0, 512, (128,))]
recon, commitment = vqvae(x)
loss = F.mse_loss(recon, x) / 0.06 + commitment
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=150,
    ),
    Program(
        "learning to learn waves",
        "meta-learning",
        setup="""
import math
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(157)
net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
meta_opt = torch.optim.Adam(net.parameters(), lr=5e-3)
INNER_LR = 0.05

def sample_task():
    height, phase = 0.5 + torch.rand(1), math.pi * torch.rand(1)
    x = 6 * torch.rand(20, 1) - 3
    y = height * torch.sin(x + phase)
    return (x[:10], y[:10]), (x[10:], y[10:])

def adapt(weights, x, y):
    fit = nn.functional.mse_loss(functional_call(net, weights, (x,)), y)
    slopes = torch.autograd.grad(fit, list(weights.values()), create_graph=True)
    return {k: w - INNER_LR * g for (k, w), g in zip(weights.items(), slopes)}
""",
        forward="""
loss = 0.0
for _ in range(4):
    support, query = sample_task()
    fast = adapt(dict(net.named_parameters()), *support)
    loss = loss + nn.functional.mse_loss(functional_call(net, fast, (query[0],)), query[1]) / 4
""",
        update="""
meta_opt.zero_grad()
loss.backward()
meta_opt.step()
""",
        steps=80,
    ),
    Program(
        "words by their neighbours with sparse gradients",
        "embedding",
        setup="""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(163)
VOCAB, DIM = 40, 12
topic = torch.arange(VOCAB) // 10
inside = nn.Embedding(VOCAB, DIM, sparse=True)
outside = nn.Embedding(VOCAB, DIM, sparse=True)
nn.init.uniform_(inside.weight, -0.5 / DIM, 0.5 / DIM)
nn.init.zeros_(outside.weight)
opt = torch.optim.SparseAdam([*inside.parameters(), *outside.parameters()], lr=0.05)

def skipgrams(n, negatives=4):
    centre = torch.randint(0, VOCAB, (n,))
    context = 10 * topic[centre] + torch.randint(0, 10, (n,))
    return centre, context, torch.randint(0, VOCAB, (n, negatives))
""",
        forward="""
centre, context, noise = skipgrams(128)
v = inside(centre)
hit = F.logsigmoid((v * outside(context)).sum(1))
miss = F.logsigmoid(-(outside(noise) @ v.unsqueeze(2)).squeeze(2)).sum(1)
loss = -(hit + miss).mean()
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
""",
        steps=80,
    ),
    Program(
        "photographs of bytes that the model scales",
        "convolution",
        setup="""
import torch
from torch import nn

torch.manual_seed(167)
def photos(n):
    y = torch.randint(0, 2, (n,))
    img = torch.randint(0, 120, (n, 3, 10, 10))
    img[:, 0] += (60 * y)[:, None, None] * (torch.rand(n, 10, 10) < 0.6).long()
    return img.to(torch.uint8), y

class Normalised(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.register_buffer("mean", torch.tensor([70.0, 60.0, 60.0]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.full((1, 3, 1, 1), 35.0))
        self.body = body
    def forward(self, img):
        return self.body((img.float() - self.mean) / self.std)

block = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
net = Normalised(nn.Sequential(block, nn.Flatten(), nn.Linear(8, 2)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=20, eta_min=0.0)
""",
        forward="""
images, labels = photos(32)
loss = nn.functional.cross_entropy(net(images), labels)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
scheduler.step()
""",
        steps=80,
    ),
    Program(
        "stars from one to five as numbers",
        "regression",
        setup="""
import torch
from torch import nn

torch.manual_seed(173)
review = (torch.rand(500, 60) < 0.15).float()
weight = torch.randn(60)
stars = (3 + review @ weight / 2).round().clamp(1, 5)
model = nn.Sequential(nn.Linear(60, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 1))
model[-1].bias.data.fill_(3.0)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-4)
""",
        forward="""
k = torch.randint(0, 500, (50,))
loss = (model(review[k]).squeeze(-1) - stars[k]).pow(2).mean()
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=90,
    ),
    Program(
        "residual net whose blocks begin as nothing",
        "deep",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(179)
class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.BatchNorm1d(d)
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d, bias=False)
        nn.init.zeros_(self.b.weight)
    def forward(self, x):
        return x + self.b(torch.relu(self.a(self.norm(x))))

class Net(nn.Module):
    def __init__(self, d=24, depth=8):
        super().__init__()
        self.first = nn.Linear(5, d)
        self.blocks = nn.Sequential(*[Block(d) for _ in range(depth)])
        self.last = nn.Linear(d, 3)
    def forward(self, x):
        return self.last(self.blocks(self.first(x)))

X = torch.randn(300, 5)
Y = (X[:, 0] * X[:, 1] > 0).long() + (X[:, 2] > 0).long()
net = Net()
optimizer = torch.optim.RAdam(net.parameters(), lr=5e-3)
""",
        forward="""
i = torch.randperm(300)[:60]
loss = nn.functional.cross_entropy(net(X[i]), Y[i])
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=80,
    ),
    Program(
        "frauds among very many honest",
        "classifier",
        setup="""
import torch
from torch import nn

torch.manual_seed(181)
money = torch.randn(3000, 8)
fraud = (money[:, 0] + money[:, 1] > 3.0).float()
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(20.0))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
""",
        forward="""
rows = torch.randint(0, 3000, (40,))
loss = criterion(model(money[rows]), fraud[rows])
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=100,
    ),
    Program(
        "curve by a quasi-newton closure",
        "regression",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(191)
t = torch.linspace(-1, 1, 80).unsqueeze(1)
u = torch.exp(-4 * t ** 2) * torch.cos(6 * t)
net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))
lbfgs = torch.optim.LBFGS(net.parameters(), lr=1.0, max_iter=5, history_size=20, line_search_fn="strong_wolfe")
""",
        forward="""
def closure():
    lbfgs.zero_grad()
    value = nn.functional.mse_loss(net(t), u)
    value.backward()
    return value
""",
        update="""
loss = lbfgs.step(closure)
""",
        steps=25,
    ),
)
