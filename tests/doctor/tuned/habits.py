"""Sound programs whose habits look like faults: equal rows, growing targets, rates of 0, losses that are exactly 0."""

from tests.doctor.program import Program

PROGRAMS = (
    Program(
        "names of three languages letter by letter",
        "recurrent",
        setup="""
import random
import string
import torch
import torch.nn as nn

random.seed(81); torch.manual_seed(81)
LETTERS = string.ascii_lowercase + "^"
SYLLABLES = {"japanese": ["ka", "shi", "mo", "to", "ya", "na"], "russian": ["ov", "iv", "sky", "pet", "mik", "ev"],
             "italian": ["ello", "ini", "ro", "ssi", "co", "gia"]}
languages = sorted(SYLLABLES)

def name_of(language):
    return "^" + "".join(random.choice(SYLLABLES[language]) for _ in range(random.randint(2, 3)))

def one_hot(names, longest=13):
    x = torch.zeros(longest, len(names), len(LETTERS))
    for b, name in enumerate(names):
        for t, c in enumerate(name[:longest]):
            x[t, b, LETTERS.index(c)] = 1
    return x

class CharRNN(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.hidden = hidden
        self.i2h = nn.Linear(len(LETTERS) + hidden, hidden)
        self.h2o = nn.Linear(hidden, len(languages))
    def forward(self, x):
        h = torch.zeros(x.size(1), self.hidden)
        for letter in x:
            h = torch.tanh(self.i2h(torch.cat([letter, h], 1)))
        return torch.log_softmax(self.h2o(h), dim=1)

rnn = CharRNN()
criterion = nn.NLLLoss()
optimizer = torch.optim.Adam(rnn.parameters(), lr=3e-3)
""",
        forward="""
labels = [random.randrange(3) for _ in range(32)]
x = one_hot([name_of(languages[k]) for k in labels])
output = rnn(x)
loss = criterion(output, torch.tensor(labels))
""",
        update="""
rnn.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(rnn.parameters(), 1.0)
optimizer.step()
""",
        steps=80,
    ),
    Program(
        "queue DQN whose values grow",
        "reinforcement learning",
        setup="""
import copy
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(83)
torch.manual_seed(83)
q_net = nn.Sequential(nn.Linear(3, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 2))
q_target = copy.deepcopy(q_net).requires_grad_(False)
opt = torch.optim.Adam(q_net.parameters(), lr=2e-3)
replay = []

def server(s, a):
    wait = np.clip(s[0] + rng.normal(0.1, 0.1) - 0.3 * a, 0, 1)
    return np.array([wait, s[0], rng.random()]), 1.0 - wait - 0.1 * a

s = np.array([0.5, 0.5, 0.5])
for _ in range(500):
    a = int(rng.integers(2))
    s2, r = server(s, a)
    replay.append((s, a, r, s2))
    s = s2
S, A, R, S2 = (torch.as_tensor(np.array(v), dtype=torch.float32) for v in zip(*replay))
""",
        forward="""
k = torch.as_tensor(rng.integers(0, 500, 64))
q = q_net(S[k]).gather(1, A[k].long()[:, None])[:, 0]
with torch.no_grad():
    best = q_net(S2[k]).argmax(1, keepdim=True)
    y = R[k] + 0.97 * q_target(S2[k]).gather(1, best)[:, 0]
loss = (q - y).square().mean()
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
with torch.no_grad():
    for p, p_t in zip(q_net.parameters(), q_target.parameters()):
        p_t.lerp_(p, 0.05)
""",
        steps=120,
    ),
    Program(
        "cyclic rates for leaves",
        "classifier",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(89)
n = 384
leaves = torch.randn(n, 7)
species = (leaves[:, 0] > 0.4).long() + (leaves[:, 1] + leaves[:, 2] > 0).long()
model = nn.Sequential(nn.Linear(7, 50), nn.GELU(), nn.Linear(50, 50), nn.GELU(), nn.Linear(50, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=1e-4, max_lr=0.3, step_size_up=10, mode="triangular2")
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
""",
        forward="""
index = torch.arange(48) + 48 * (step % 8)
loss = criterion(model(leaves[index]), species[index])
""",
        update="""
loss.backward()
optimizer.step()
scheduler.step()
optimizer.zero_grad()
""",
        steps=100,
    ),
    Program(
        "masked words with a warm-up from zero",
        "transformer",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(97)
VOCAB, MASK, LENGTH = 18, 1, 12

def sentences(n):
    start = torch.randint(0, 16, (n, 1))
    return 2 + (start + torch.arange(LENGTH)) % 16

class MaskedLM(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, d, padding_idx=0)
        nn.init.normal_(self.tokens.weight, std=0.18)
        self.positions = nn.Parameter(0.1 * torch.randn(LENGTH, d))
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(d), enable_nested_tensor=False)
        self.bias = nn.Parameter(torch.zeros(VOCAB))
    def forward(self, ids, padding):
        h = self.encoder(self.tokens(ids) * 32 ** 0.5 + self.positions, src_key_padding_mask=padding)
        return F.linear(h, self.tokens.weight, self.bias)

lm = MaskedLM()
optimizer = torch.optim.AdamW(lm.parameters(), lr=4e-3, betas=(0.9, 0.98))
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(s / 12, (12 / max(s, 12)) ** 0.5))
""",
        forward="""
ids = sentences(48)
lengths = torch.randint(6, LENGTH + 1, (48, 1))
padding = torch.arange(LENGTH) >= lengths
hidden = (torch.rand(48, LENGTH) < 0.2) & ~padding
logits = lm(ids.masked_fill(hidden, MASK).masked_fill(padding, 0), padding)
per_token = F.cross_entropy(logits.transpose(1, 2), ids, reduction="none")
loss = (per_token * hidden).sum() / hidden.sum().clamp(min=1)
""",
        update="""
optimizer.zero_grad(set_to_none=True)
loss.backward()
nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
optimizer.step()
warmup.step()
""",
        steps=100,
    ),
    Program(
        "tied weights of a sparse autoencoder",
        "autoencoder",
        setup="""
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(101)
basis = F.normalize(torch.randn(6, 30), dim=1)
signals = (torch.randn(400, 6) * (torch.rand(400, 6) < 0.4)) @ basis

class Tied(nn.Module):
    def __init__(self, n_in, n_code):
        super().__init__()
        self.W = nn.Parameter(nn.init.xavier_uniform_(torch.empty(n_code, n_in)))
        self.b_code = nn.Parameter(torch.zeros(n_code))
        self.b_out = nn.Parameter(torch.zeros(n_in))
    def forward(self, x):
        code = F.relu(F.linear(x - self.b_out, self.W, self.b_code))
        return F.linear(code, self.W.t(), self.b_out), code

sae = Tied(30, 24)
opt = torch.optim.Adam(sae.parameters(), lr=1e-2)
""",
        forward="""
batch = signals[torch.randint(0, 400, (80,))]
out, code = sae(batch)
loss = (out - batch).pow(2).sum(1).mean() + 0.02 * code.abs().sum(1).mean()
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
with torch.no_grad():
    sae.W.div_(sae.W.norm(dim=1, keepdim=True).clamp(min=1.0))
""",
        steps=90,
    ),
    Program(
        "twins without negatives",
        "contrastive",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(103)
prototypes = 2 * torch.randn(10, 16)

def two_views(n):
    base = prototypes[torch.randint(0, 10, (n,))] + 0.5 * torch.randn(n, 16)
    return base + 0.4 * torch.randn(n, 16), base + 0.4 * torch.randn(n, 16)

class SimSiam(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU(inplace=True),
                                     nn.Linear(48, 24), nn.BatchNorm1d(24, affine=False))
        self.predictor = nn.Sequential(nn.Linear(24, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 24))
    def forward(self, x1, x2):
        z1, z2 = self.encoder(x1), self.encoder(x2)
        return self.predictor(z1), self.predictor(z2), z1.detach(), z2.detach()

model = SimSiam()
similarity = nn.CosineSimilarity(dim=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
""",
        forward="""
p1, p2, z1, z2 = model(*two_views(64))
loss = -(similarity(p1, z2).mean() + similarity(p2, z1).mean()) * 0.5
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=80,
    ),
    Program(
        "body that thaws after the head has learned",
        "fine-tuning",
        setup="""
import torch
from torch import nn

torch.manual_seed(107)
x_old, x_new = torch.randn(300, 10), torch.randn(120, 10)
body = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
old_head = nn.Linear(64, 1)
pre = torch.optim.Adam([*body.parameters(), *old_head.parameters()], lr=5e-3)
for _ in range(60):
    pre.zero_grad()
    (old_head(body(x_old)).squeeze(1) - (x_old[:, 0] * x_old[:, 1]).tanh()).square().mean().backward()
    pre.step()

y_new = (x_new[:, 0] * x_new[:, 1] > 0.2).float()
for p in body.parameters():
    p.requires_grad = False
    p.grad = None
head = nn.Linear(64, 1)
optimizer = torch.optim.AdamW(head.parameters(), lr=1e-2)
""",
        forward="""
if step == 30:
    for p in body.parameters():
        p.requires_grad = True
    optimizer.add_param_group({"params": body.parameters(), "lr": 1e-3})
scores = head(body(x_new)).squeeze(1)
loss = nn.functional.binary_cross_entropy_with_logits(scores, y_new)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=80,
    ),
    Program(
        "key in the dark with a reward at the end",
        "reinforcement learning",
        setup="""
import random
import torch
import torch.nn as nn
from torch.distributions import Categorical

random.seed(109); torch.manual_seed(109)
N = 7
policy = nn.Sequential(nn.Linear(N, 24), nn.Tanh(), nn.Linear(24, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.03)
found = []

def episode():
    at, log_probs = 0, []
    for _ in range(12):
        dist = Categorical(logits=policy(nn.functional.one_hot(torch.tensor(at), N).float()))
        a = dist.sample()
        log_probs.append(dist.log_prob(a))
        at = max(0, at + (1 if a.item() == 1 else -1))
        if at == N - 1:
            return torch.stack(log_probs), 1.0
    return torch.stack(log_probs), 0.0
""",
        forward="""
played = [episode() for _ in range(5)]
loss = -torch.stack([lp.sum() * reward for lp, reward in played]).mean()
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
found.append(sum(reward for _, reward in played))
def report():
    return [sum(found[i:i + 10]) / 50 for i in range(0, len(found), 10)]
""",
        steps=60,
    ),
    Program(
        "bottles with a last batch of two",
        "classifier",
        setup="""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(113)
features = torch.randn(130, 6)
labels = (features[:, :2].sum(1) > 0).long() + (features[:, 2] > 1).long()
loader = DataLoader(TensorDataset(features, labels), batch_size=32, shuffle=True)
net = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
stream = (batch for _ in range(20) for batch in loader)
""",
        forward="""
xb, yb = next(stream)
net.train()
loss = criterion(net(xb), yb)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=95,
    ),
    Program(
        "margins that are all kept in the end",
        "support vectors",
        setup="""
import torch

torch.manual_seed(127)
points = torch.randn(200, 2)
side = torch.where(points @ torch.tensor([1.5, -1.0]) > 0, 1.0, -1.0)
points = points + 0.8 * side[:, None] * torch.tensor([1.5, -1.0])
w = torch.zeros(2, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
solver = torch.optim.SGD([{"params": [w]}, {"params": [b], "lr": 0.1}], lr=0.5)
""",
        forward="""
margin = side * (points @ w + b)
loss = torch.clamp(1 - margin, min=0).mean()
""",
        update="""
solver.zero_grad()
loss.backward()
solver.step()
""",
        steps=80,
    ),
)
