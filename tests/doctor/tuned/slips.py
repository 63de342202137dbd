"""Slips of everyday code: channels last, aligned speech, pairs of signatures, missing rain, a whole transformer."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "skin spots with the channels last",
        "classifier",
        setup="""
import numpy as np
import torch
import torch.nn as nn

np.random.seed(263); torch.manual_seed(263)
def photos(n, size=12):
    y = np.random.randint(0, 3, n)
    img = np.random.randint(120, 200, (n, size, size, 3))
    for k in range(n):
        r, c = np.random.randint(2, size - 4, 2)
        img[k, r:r + 4, c:c + 4, y[k]] -= 100
    return img.clip(0, 255).astype("uint8"), y

imgs, y_train = photos(300)
X = torch.from_numpy(imgs).permute(0, 3, 1, 2).float().div(255)
X = (X - 0.6) / 0.15
Y = torch.from_numpy(y_train)

class SpotNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3), nn.ReLU())
        self.fc = nn.Linear(16, 3)
    def forward(self, x):
        return self.fc(self.conv(x).amax(dim=(2, 3)))

def make_optimizer(net):
    return torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)

net = SpotNet()
optimizer = make_optimizer(net)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.1, patience=20)
loss_fn = nn.CrossEntropyLoss()
""",
        forward="""
sel = torch.randint(0, 300, (30,))
xb, yb = X[sel], Y[sel]
loss = loss_fn(net(xb), yb)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
plateau.step(loss.item())
""",
        steps=90,
        faults=(
            Fault(
                "divided by 255 twice and not centred",
                "input scale",
                (("X = (X - 0.6) / 0.15\n", "X = X / 255\n"),),
                where=("input", "X", "conv", r"\b0\b"),
                source="Stack Overflow, ToTensor() and / 255; Humbatova 2020, Wrong preprocessing",
                hosts=LOOPS,
            ),
            Fault(
                "divided by a variance of nearly nothing",
                "input scale",
                (("X = (X - 0.6) / 0.15\n", "X = (X - 0.6) / 1e-4\n"),),
                where=("input", "X", "conv", r"\b0\b"),
                source="Humbatova 2020, Wrong preprocessing: normalization",
            ),
            Fault(
                "the plateau is one of a score",
                "rate too small",
                (('mode="min", factor=0.1, patience=20', 'mode="max", factor=0.1, patience=2'),),
                where=(r"\blr\b", "rate", "schedule"),
                source="PyTorch forum, ReduceLROnPlateau(mode='max') is stepped with a loss",
                hosts=LOOPS,
            ),
            Fault(
                "a new net in each step",
                "none found",
                (
                    (
                        "loss = loss_fn(net(xb), yb)",
                        "net = SpotNet()\noptimizer = make_optimizer(net)\nloss = loss_fn(net(xb), yb)",
                    ),
                ),
                where=("net", "optimizer", "SpotNet"),
                source="Stack Overflow, the model is made inside of the loop; Humbatova 2020",
                hosts=LOOPS,
            ),
            Fault(
                "labels in another order than the photographs",
                "data",
                (("Y = torch.from_numpy(y_train)", "Y = torch.from_numpy(np.random.permutation(y_train))"),),
                where=("target", "label", r"\bY\b"),
                source="Stack Overflow, os.listdir and a sorted table of labels; Humbatova 2020, Wrong labels",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "speech aligned by ctc",
        "speech",
        setup="""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(269)
N_PHONES, T_MAX = 5, 20
voice = torch.randn(N_PHONES + 1, 8)

def utterances(n):
    xs, ys, target_lengths = torch.zeros(n, T_MAX, 8), [], []
    for i in range(n):
        phones = torch.randint(1, N_PHONES + 1, (int(torch.randint(2, 5, ())),))
        t = 0
        for p in phones:
            xs[i, t:t + 4] = voice[p]
            t += 5
        ys.append(phones); target_lengths.append(len(phones))
    return xs + 0.3 * torch.randn_like(xs), torch.cat(ys), torch.tensor(target_lengths)

class Acoustic(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Conv1d(8, 32, 3, padding=1)
        self.rnn = nn.GRU(32, 32, bidirectional=True, batch_first=True)
        self.out = nn.Linear(64, N_PHONES + 1)
    def forward(self, x):
        h = F.relu(self.front(x.transpose(1, 2))).transpose(1, 2)
        h, _ = self.rnn(h)
        return self.out(h).log_softmax(dim=-1).transpose(0, 1)

model = Acoustic()
ctc = nn.CTCLoss(blank=0)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
input_lengths = torch.full((24,), T_MAX)
""",
        forward="""
x, target, target_lengths = utterances(24)
loss = ctc(model(x), target, input_lengths, target_lengths)
""",
        update="""
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(model.parameters(), 5.0)
optimizer.step()
""",
        steps=70,
        faults=(
            Fault(
                "ctc of probabilities",
                "loss input",
                (("self.out(h).log_softmax(dim=-1)", "self.out(h).softmax(dim=-1)"),),
                where=("ctc", "softmax"),
                source="PyTorch docs and forum, CTCLoss takes log probabilities",
            ),
            Fault(
                "logarithms over the moments",
                "loss input",
                (("log_softmax(dim=-1)", "log_softmax(dim=1)"),),
                where=("ctc", "softmax", "dim"),
                source="Stack Overflow, log_softmax over the wrong dimension; NeuraLint",
            ),
            Fault(
                "weights of the front are all zero",
                "initialization",
                (
                    (
                        "model = Acoustic()\n",
                        "model = Acoustic()\nfor p in model.front.parameters():\n    nn.init.zeros_(p)\n",
                    ),
                ),
                where=("front", "weight", "zeros_"),
                source="DeepFD, improper weight initialization; Humbatova 2020",
            ),
            Fault(
                "a rate of three tenths for the net of speech",
                "rate too large",
                (("lr=5e-3", "lr=0.3"),),
                where=(r"\blr\b", "rate", "Adam"),
                source="DeepFD, learning rate too high; PyTorch forum, CTC loss explodes",
                hosts=LOOPS,
            ),
            Fault(
                "the front end is not handed over",
                "no optimizer",
                (
                    (
                        "torch.optim.Adam(model.parameters()",
                        "torch.optim.Adam([*model.rnn.parameters(), *model.out.parameters()]",
                    ),
                ),
                where=("front",),
                source="PyTorch forum, a part's parameters are not passed to the optimizer",
            ),
        ),
    ),
    Program(
        "pairs of signatures and their angle",
        "metric learning",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(271)
writers = torch.randn(15, 20)

def sample_pairs(n):
    w = torch.randint(0, 15, (n,))
    same = torch.rand(n) < 0.5
    v = torch.where(same, w, (w + torch.randint(1, 15, (n,))) % 15)
    left, right = writers[w] + 0.5 * torch.randn(n, 20), writers[v] + 0.5 * torch.randn(n, 20)
    return left, right, torch.where(same, 1.0, -1.0)

class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(20, 64)
        self.act = nn.Tanh()
        self.embed = nn.Linear(64, 16)
    def forward(self, x):
        return self.embed(self.act(self.hidden(x)))

tower = Tower()
cosine = nn.CosineEmbeddingLoss(margin=0.2)
optimizer = torch.optim.SGD(tower.parameters(), lr=0.5, momentum=0.9)
""",
        forward="""
left, right, sign = sample_pairs(64)
loss = cosine(tower(left), tower(right), sign)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=80,
        faults=(
            Fault(
                "forged pairs are labelled 0",
                "target",
                (("torch.where(same, 1.0, -1.0)", "same.float()"),),
                where=("cosine", "target", "label", "sign"),
                source="PyTorch forum, CosineEmbeddingLoss takes labels of 1 and -1; Humbatova 2020, Wrong labels",
            ),
            Fault(
                "the root of a distance of a thing to itself",
                "nan",
                (
                    (
                        "v = torch.where(same, w, (w + torch.randint(1, 15, (n,))) % 15)",
                        "v = torch.where(same, w, (w + torch.randint(1, 15, (n,))) % 15)\n"
                        "    same[0], v[0] = True, w[0]",
                    ),
                    (
                        "right = writers[w] + 0.5 * torch.randn(n, 20), writers[v] + 0.5 * torch.randn(n, 20)",
                        "right = writers[w].clone(), writers[v].clone()",
                    ),
                    (
                        "loss = cosine(tower(left), tower(right), sign)",
                        "apart = (tower(left) - tower(right)).pow(2).sum(1).sqrt()\n"
                        "loss = (sign * apart).mean() + torch.relu(2 - apart).mean()",
                    ),
                ),
                where=("sqrt",),
                source="Stack Overflow, the gradient of sqrt(0) is NaN; PyTorch forum, triplet loss is NaN",
            ),
            Fault(
                "margin ranking of one tower against itself",
                "cut",
                (
                    (
                        "loss = cosine(tower(left), tower(right), sign)",
                        "loss = cosine(tower(left).detach(), tower(right).detach().requires_grad_(), sign)",
                    ),
                ),
                where=("hidden", "embed", "detach"),
                source="PyTorch forum, detach().requires_grad_() makes a new leaf; TrainCheck",
            ),
            Fault(
                "every pair is a true one",
                "data",
                (("same = torch.rand(n) < 0.5", "same = torch.ones(n, dtype=torch.bool)"),),
                where=("sign", "class", "target"),
                source="Humbatova 2020, Unbalanced training data; Wu 2017, embeddings collapse without negatives",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "rain with its uncertainty",
        "probabilistic regression",
        setup="""
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(277)
torch.manual_seed(277)
frame = {"pressure": rng.normal(1010, 8, 500), "humidity": rng.uniform(20, 100, 500),
         "wind": rng.gamma(2, 3, 500), "station": np.full(500, 17.0)}
amount = 0.1 * (frame["humidity"] - 60) - 0.2 * (frame["pressure"] - 1010)
frame["rain"] = np.maximum(0, amount) + rng.gamma(1, 0.5, 500)
columns = ["pressure", "humidity", "wind"]
table = np.stack([frame[c] for c in columns], 1)
table = (table - table.mean(0)) / table.std(0)
inputs = torch.tensor(table, dtype=torch.float32)
rain = torch.tensor(np.log1p(frame["rain"]), dtype=torch.float32)

class MeanVariance(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n, 40), nn.SiLU(), nn.Linear(40, 40), nn.SiLU())
        self.mean, self.log_var = nn.Linear(40, 1), nn.Linear(40, 1)
    def forward(self, x):
        h = self.trunk(x)
        return self.mean(h).squeeze(1), self.log_var(h).squeeze(1).clamp(-6, 4)

model = MeanVariance(len(columns))
nll = nn.GaussianNLLLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
""",
        forward="""
b = torch.randint(0, 500, (64,))
mean, log_var = model(inputs[b])
loss = nll(mean, rain[b], log_var.exp())
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=90,
        faults=(
            Fault(
                "a column that never changes is standardised",
                "nan",
                (
                    (
                        'columns = ["pressure", "humidity", "wind"]',
                        'columns = ["pressure", "humidity", "wind", "station"]',
                    ),
                ),
                where=("input", "data", "trunk"),
                source="Stack Overflow, a constant column divided by its standard deviation of 0; Humbatova 2020",
            ),
            Fault(
                "missing measurements",
                "nan",
                (("columns = [", 'frame["wind"][7::50] = np.nan\ncolumns = ['),),
                where=("input", "data", "trunk"),
                source="Stack Overflow, NaN in the data makes the loss NaN; Humbatova 2020, Missing preprocessing",
            ),
            Fault(
                "logarithms as variances",
                "loss input",
                (("nll(mean, rain[b], log_var.exp())", "nll(mean, rain[b], log_var)"),),
                where=("gaussian_nll", "var"),
                source="PyTorch forum, GaussianNLLLoss: var has negative entries",
            ),
            Fault(
                "the mean of a batch divided by all rows, and plain descent",
                "rate too small",
                (
                    (
                        "loss = nll(mean, rain[b], log_var.exp())",
                        "loss = nll(mean, rain[b], log_var.exp()) / len(rain)",
                    ),
                    ("torch.optim.Adam(model.parameters(), lr=5e-3)", "torch.optim.SGD(model.parameters(), lr=5e-3)"),
                ),
                where=(r"\blr\b", "rate", "loss"),
                source="Humbatova 2020, Wrong loss function calculation: divided by the length of the data",
                hosts=LOOPS,
            ),
            Fault(
                "raw pressures",
                "input scale",
                (("table = (table - table.mean(0)) / table.std(0)\n", ""),),
                where=("input", "trunk", "data"),
                source="Humbatova 2020, Missing preprocessing: normalization; DeepFD, data not normalized",
            ),
            Fault(
                "only the mean is measured",
                "unused",
                (("loss = nll(mean, rain[b], log_var.exp())", "loss = (mean - rain[b]).pow(2).mean()"),),
                where=("log_var",),
                source="PyTorch forum, find_unused_parameters; TrainCheck",
            ),
        ),
    ),
    Program(
        "codes by a whole transformer",
        "seq2seq",
        setup="""
import math
import torch
from torch import nn

torch.manual_seed(281)
PAD, BOS, EOS, SYMBOLS, D = 0, 1, 2, 8, 32

def pairs(n):
    length = torch.randint(3, 7, (n, 1))
    at = torch.arange(6)
    src = torch.randint(3, 3 + SYMBOLS, (n, 6)).masked_fill(at >= length, PAD)
    code = torch.where(src > 0, 3 + (src - 3 + 1) % SYMBOLS, PAD)
    tgt = torch.cat([torch.full((n, 1), BOS), code, torch.full((n, 1), PAD)], 1)
    tgt[torch.arange(n), length[:, 0] + 1] = EOS
    return src, tgt

class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.src_emb, self.tgt_emb = nn.Embedding(3 + SYMBOLS, D), nn.Embedding(3 + SYMBOLS, D)
        self.pos = nn.Embedding(10, D)
        self.transformer = nn.Transformer(D, 4, 1, 1, 64, dropout=0.0, batch_first=True)
        self.generator = nn.Linear(D, 3 + SYMBOLS)
    def forward(self, src, tgt):
        s = self.src_emb(src) + self.pos(torch.arange(src.size(1)))
        t = self.tgt_emb(tgt) + self.pos(torch.arange(tgt.size(1)))
        causal = torch.triu(torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool), diagonal=1)
        out = self.transformer(s, t, tgt_mask=causal, src_key_padding_mask=src == PAD,
                               memory_key_padding_mask=src == PAD)
        return self.generator(out)

model = Seq2Seq()
for p in model.parameters():
    if p.dim() > 1:
        nn.init.xavier_uniform_(p)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
def factor(s):
    return 0.15 * D ** -0.5 * min((s + 1) ** -0.5, (s + 1) * 20 ** -1.5)
noam = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
""",
        forward="""
src, tgt = pairs(48)
logits = model(src, tgt[:, :-1])
loss = criterion(logits.flatten(0, 1), tgt[:, 1:].flatten())
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
noam.step()
""",
        steps=90,
        faults=(
            Fault(
                "symbols are hidden and padding is read",
                "attention",
                (
                    ("memory_key_padding_mask=src == PAD", "memory_key_padding_mask=src != PAD"),
                    ("src_key_padding_mask=src == PAD,\n", "src_key_padding_mask=src != PAD,\n"),
                ),
                where=("mask", "attention", "softmax"),
                source="Stack Overflow, key_padding_mask is True where it is ignored; Jain 2023, Mask errors",
            ),
            Fault(
                "targets are the inputs of the decoder",
                "target",
                (("tgt[:, 1:].flatten()", "tgt[:, :-1].flatten()"),),
                where=("target", "tgt", "cross_entropy"),
                source="Stack Overflow, targets of a transformer are not shifted; Jain 2023",
                hosts=LOOPS,
            ),
            Fault(
                "the factor of the schedule is forgotten",
                "rate too large",
                (("return 0.15 * D ** -0.5 * min((s + 1) ** -0.5, (s + 1) * 20 ** -1.5)", "return 1.0"),),
                where=(r"\blr\b", "rate", "Adam"),
                source="Humbatova 2020, Suboptimal learning rate; annotated transformer, Noam",
                hosts=LOOPS,
            ),
            Fault(
                "scores of symbols and moments are confused",
                "wrong dimension",
                (("criterion(logits.flatten(0, 1)", "criterion(logits.transpose(0, 1).flatten(0, 1)"),),
                where=("transpose", "flatten", "logits"),
                source="PyTorch forum, transposed scores are flattened beside targets that are not; NeuraLint",
                hosts=LOOPS,
            ),
            Fault(
                "the source is never read",
                "unused",
                (
                    ("out = self.transformer(s, t, tgt_mask", "out = self.transformer(t, t, tgt_mask"),
                    (
                        "src_key_padding_mask=src == PAD,\n"
                        "                               memory_key_padding_mask=src == PAD)",
                        ")",
                    ),
                ),
                where=("src_emb",),
                source="PyTorch forum, find_unused_parameters; TrainCheck",
            ),
        ),
    ),
)
