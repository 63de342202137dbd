"""Faults in other surroundings: a gated forecast, verses, a bandit with an entropy, two layers by hand, sentences."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "tides by gated convolutions",
        "time series",
        setup="""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(503)
hours = torch.arange(900).float()
level = 2 * torch.sin(2 * math.pi * hours / 12.4) + torch.sin(2 * math.pi * hours / 24) + 0.1 * torch.randn(900)
level = (level - level.mean()) / level.std()
PAST = 24

class GatedBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.filter, self.gate = nn.Conv1d(c, c, 3, padding=1), nn.Conv1d(c, c, 3, padding=1)
        self.norm = nn.BatchNorm1d(c)
        self.drop = nn.Dropout(0.1)
    def forward(self, x):
        h = torch.tanh(self.filter(x)) * torch.sigmoid(self.gate(x))
        return x + self.drop(self.norm(h))

class TideNet(nn.Module):
    def __init__(self, c=12, n_blocks=3):
        super().__init__()
        self.start = nn.Conv1d(1, c, 3, padding=1)
        self.blocks = nn.ModuleList(GatedBlock(c) for _ in range(n_blocks))
        self.pool = nn.Linear(c, 1)
        self.end = nn.Linear(c, 1)
    def forward(self, past):
        x = self.start(past.unsqueeze(1))
        for block in self.blocks:
            x = block(x)
        x = x.transpose(1, 2)
        share = F.softmax(self.pool(x).squeeze(2), dim=1)
        return self.end((share.unsqueeze(2) * x).sum(1)).squeeze(1)

net = TideNet()
opt = torch.optim.Adam(net.parameters(), lr=6e-3, betas=(0.9, 0.999))
""",
        forward="""
at = torch.randint(0, 900 - PAST - 1, (40,))
past = torch.stack([level[i:i + PAST] for i in at.tolist()])
loss = F.mse_loss(net(past), level[at + PAST])
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
""",
        steps=80,
        faults=(
            Fault(
                "shares of the hours over the batch",
                "wrong dimension",
                (("F.softmax(self.pool(x).squeeze(2), dim=1)", "F.softmax(self.pool(x).squeeze(2), dim=0)"),),
                where=("softmax", "dim", "pool"),
                source="Stack Overflow, softmax over the batch in an attention; NeuraLint",
            ),
            Fault(
                "one block is left in eval mode",
                "eval mode",
                (("net = TideNet()\n", "net = TideNet()\nnet.blocks[1].eval()\n"),),
                where=("blocks", r"\b1\b", "norm", "drop", "eval"),
                source="PyTorch forum, a submodule in eval mode is trained; TrainCheck",
            ),
            Fault(
                "moments that are swapped",
                "none found",
                (("betas=(0.9, 0.999)", "betas=(0.999, 0.9)"),),
                where=("betas", "beta", "momentum"),
                source="Humbatova 2020, Suboptimal optimizer parameters; Stack Overflow, betas swapped",
                hosts=LOOPS,
            ),
            Fault(
                "the residual path has no gradient",
                "cut",
                (("return x + self.drop(self.norm(h))", "return x.detach() + self.drop(self.norm(h))"),),
                where=("detach", "GatedBlock", "blocks", "start"),
                source="PyTorch forum, part of a sum is detached; TrainCheck, silent loss of a gradient",
            ),
            Fault(
                "hours are forecast from other hours",
                "data",
                (("level[at + PAST])", "level[torch.randint(PAST, 900, (40,))])"),),
                where=("level", "target", "label"),
                source="Humbatova 2020, Wrong labels for training data; DEFault, shuffled labels",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "verses by an lstm",
        "language model",
        setup="""
import torch
from torch import nn

torch.manual_seed(509)
verse = "tyger tyger burning bright in the forests of the night " * 30
vocabulary = sorted(set(verse))
index = {c: i for i, c in enumerate(vocabulary)}
corpus = torch.tensor([index[c] for c in verse])
SEQ, BATCH = 20, 12

class VerseModel(nn.Module):
    def __init__(self, v, d=32):
        super().__init__()
        self.encoder = nn.Embedding(v, d)
        self.rnn = nn.LSTM(d, d, num_layers=2, dropout=0.1, batch_first=True)
        self.decoder = nn.Linear(d, v)
    def forward(self, tokens):
        out, _ = self.rnn(self.encoder(tokens))
        return self.decoder(out)

def get_batch():
    starts = torch.randint(0, len(corpus) - SEQ - 1, (BATCH,))
    block = torch.stack([corpus[s:s + SEQ + 1] for s in starts.tolist()])
    return block[:, :-1], block[:, 1:]

lm = VerseModel(len(vocabulary))
optimizer = torch.optim.AdamW(lm.parameters(), lr=1e-2)
""",
        forward="""
data, targets = get_batch()
output = lm(data)
loss = nn.functional.cross_entropy(output.reshape(-1, len(vocabulary)), targets.reshape(-1))
""",
        update="""
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(lm.parameters(), 0.5)
optimizer.step()
""",
        steps=90,
        faults=(
            Fault(
                "verses are predicted from themselves",
                "target",
                (("return block[:, :-1], block[:, 1:]", "return block[:, :-1], block[:, :-1]"),),
                where=("targets", "target", "data"),
                source="Stack Overflow, targets of a language model are not shifted",
                hosts=LOOPS,
            ),
            Fault(
                "letters of a verse are the batch",
                "wrong dimension",
                (("dropout=0.1, batch_first=True)", "dropout=0.1)"),),
                where=("rnn", "batch_first", "LSTM"),
                source="Stack Overflow, batch_first is forgotten; NeuraLint",
            ),
            Fault(
                "one verse again and again",
                "data",
                (("starts = torch.randint(0, len(corpus) - SEQ - 1, (BATCH,))", "starts = torch.full((BATCH,), 7)"),),
                where=("data", "rows", "equal", "batch"),
                source="Humbatova 2020, Too small training data; Stack Overflow, a generator yields the same batch",
                hosts=LOOPS,
            ),
            Fault(
                "verses at a rate of one",
                "rate too large",
                (("lr=1e-2", "lr=1.0"),),
                where=(r"\blr\b", "rate", "Adam"),
                source="DeepFD, learning rate too high; Humbatova 2020, Suboptimal learning rate",
                hosts=LOOPS,
            ),
            Fault(
                "letters and moments are transposed before the loss",
                "wrong dimension",
                (("output.reshape(-1, len(vocabulary))", "output.permute(1, 0, 2).reshape(-1, len(vocabulary))"),),
                where=("permute", "reshape", "transpose"),
                source="PyTorch forum, transposed scores are flattened beside targets that are not; NeuraLint",
                hosts=LOOPS,
            ),
            Fault(
                "the layers drop nearly all between them",
                "dropout",
                (("dropout=0.1, batch_first", "dropout=0.95, batch_first"),),
                where=("rnn", "dropout", "LSTM"),
                source="Humbatova 2020, Wrong layer arguments; Stack Overflow, dropout's p is what is dropped",
            ),
        ),
    ),
    Program(
        "bandit with an entropy",
        "policy gradient",
        setup="""
import torch
from torch import nn
from torch.distributions import Independent, Normal

torch.manual_seed(521)
class Bandit(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 32), nn.Tanh())
        self.mean, self.spread = nn.Linear(32, 2), nn.Linear(32, 2)
    def forward(self, context):
        h = self.body(context)
        return Independent(Normal(self.mean(h), nn.functional.softplus(self.spread(h)) + 0.01), 1)

bandit = Bandit()
optimizer = torch.optim.Adam(bandit.parameters(), lr=1e-2)
goal = torch.tensor([[1.0, -0.5, 0.2], [0.3, 0.8, -1.0]])
def payoff(context, action):
    return -(action - context @ goal.T).pow(2).sum(1)
""",
        forward="""
context = torch.randn(64, 3)
dist = bandit(context)
action = dist.rsample()
loss = -(payoff(context, action) + 0.02 * dist.entropy()).mean()
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=100,
        faults=(
            Fault(
                "only the entropy has a gradient",
                "cut",
                (("action = dist.rsample()", "action = dist.sample()"),),
                where=("sample", "mean", "spread", "body"),
                source="PyTorch docs, distributions: sample() and rsample(); Stack Overflow",
            ),
            Fault(
                "the worst action is looked for",
                "sign",
                (
                    (
                        "loss = -(payoff(context, action) + 0.02 * dist.entropy()).mean()",
                        "loss = (payoff(context, action) + 0.02 * dist.entropy()).mean()",
                    ),
                ),
                where=("loss", "payoff", "mean"),
                source="Nikanjam 2022, Faults in deep RL: wrong sign; Humbatova 2020",
                hosts=LOOPS,
            ),
            Fault(
                "payoffs are computed in arrays",
                "cut",
                (
                    (
                        "return -(action - context @ goal.T).pow(2).sum(1)",
                        "miss = action.detach().numpy() - (context @ goal.T).numpy()\n"
                        "    return torch.from_numpy(-(miss ** 2).sum(1))",
                    ),
                ),
                where=("numpy", "mean", "body", "action"),
                source="Stack Overflow, a reward in numpy has no gradient; PyTorch forum",
            ),
            Fault(
                "the mean of the actions is detached",
                "cut",
                (("Normal(self.mean(h), nn", "Normal(self.mean(h).detach(), nn"),),
                where=("mean", "detach"),
                source="PyTorch forum, a part of a distribution is detached; TrainCheck",
            ),
            Fault(
                "bandit under a decay that wins",
                "regularization",
                (("lr=1e-2)", "lr=1e-2, weight_decay=20.0)"),),
                where=("weight_decay", "decay", "body", "mean"),
                source="Humbatova 2020, Wrong regularisation",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "two layers by hand",
        "plain leaves",
        setup="""
import torch

dtype = torch.float
torch.manual_seed(523)
N, D_in, H, D_out = 64, 10, 50, 3
x = torch.randn(N, D_in, dtype=dtype)
y = torch.tanh(x @ torch.randn(D_in, D_out))
w1 = (torch.randn(D_in, H, dtype=dtype) * 0.3).requires_grad_()
w2 = (torch.randn(H, D_out, dtype=dtype) * 0.1).requires_grad_()
learning_rate = 0.1
""",
        forward="""
y_pred = x.mm(w1).clamp(min=0).mm(w2)
loss = (y_pred - y).pow(2).mean()
""",
        update="""
loss.backward()
with torch.no_grad():
    w1 -= learning_rate * w1.grad
    w2 -= learning_rate * w2.grad
    w1.grad = None
    w2.grad = None
""",
        steps=100,
        faults=(
            Fault(
                "both layers climb",
                "sign",
                (
                    ("w1 -= learning_rate * w1.grad", "w1 += learning_rate * w1.grad"),
                    ("w2 -= learning_rate * w2.grad", "w2 += learning_rate * w2.grad"),
                ),
                where=(r"\bw1\b", r"\bw2\b", "add_"),
                source="Stack Overflow, gradient descent by hand with the wrong sign; Humbatova 2020",
                hosts=LOOPS,
            ),
            Fault(
                "gradients of both layers are left",
                "accumulated gradients",
                (("    w1.grad = None\n    w2.grad = None", "    pass"),),
                where=(r"\bw1\b", r"\bw2\b", "grad"),
                source="PyTorch tutorial, learning by examples: zero the gradients by hand; Stack Overflow",
                hosts=LOOPS,
            ),
            Fault(
                "one layer is left out of the update",
                "no optimizer",
                (("    w1 -= learning_rate * w1.grad\n", ""),),
                where=(r"\bw1\b", r"\(10, 50\)"),
                source="PyTorch forum, a part's parameters are not updated; torchtest",
                hosts=LOOPS,
            ),
            Fault(
                "steps of a millionth",
                "rate too small",
                (("learning_rate = 0.1", "learning_rate = 1e-6"),),
                where=(r"\bw1\b", r"\bw2\b", "rate"),
                source="PyTorch tutorial with a mean for a sum; DeepFD, learning rate too low",
                hosts=LOOPS,
            ),
            Fault(
                "no bend between the layers",
                "no activation",
                (("x.mm(w1).clamp(min=0).mm(w2)", "x.mm(w1).mm(w2)"),),
                where=("mm", "linear"),
                source="DeepFD, missing activation; Humbatova 2020, Missing activation function",
            ),
            Fault(
                "steps that jump",
                "rate too large",
                (("learning_rate = 0.1", "learning_rate = 30.0"),),
                where=("rate", r"\bw1\b", r"\bw2\b"),
                source="DeepFD, learning rate too high; Stack Overflow, loss becomes NaN",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "sentences that mean the same",
        "text pairs",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(541)
WORDS, LONGEST, PAD = 30, 9, 0
synonym = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(WORDS - 1)])

def pairs(n):
    length = torch.randint(3, LONGEST + 1, (n, 1))
    a = torch.randint(1, WORDS, (n, LONGEST)).masked_fill(torch.arange(LONGEST) >= length, PAD)
    same = torch.rand(n) < 0.5
    other = torch.randint(1, WORDS, (n, LONGEST)).masked_fill(a == PAD, PAD)
    b = torch.where(same[:, None], synonym[a].flip(1), other)
    return a, b, same

class SentenceEncoder(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.words = nn.Embedding(WORDS, d, padding_idx=PAD)
        self.mix = nn.MultiheadAttention(d, 4, batch_first=True)
        self.norm = nn.LayerNorm(d)
    def forward(self, ids):
        padding = ids == PAD
        e = self.words(ids)
        h, _ = self.mix(e, e, e, key_padding_mask=padding, need_weights=False)
        h = self.norm(e + h).masked_fill(padding.unsqueeze(-1), 0.0)
        return h.sum(1) / (~padding).sum(1, keepdim=True)

encoder = SentenceEncoder()
scale = nn.Parameter(torch.tensor(5.0))
soft_margin = nn.SoftMarginLoss()
optimizer = torch.optim.AdamW([{"params": encoder.parameters()}, {"params": [scale], "weight_decay": 0.0}], lr=5e-3)
""",
        forward="""
a, b, same = pairs(64)
likeness = nn.functional.cosine_similarity(encoder(a), encoder(b), dim=1)
label = torch.where(same, 1.0, -1.0)
loss = soft_margin(scale * (likeness - 0.6), label)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=80,
        faults=(
            Fault(
                "words are masked and the padding is mixed",
                "attention",
                (
                    ("key_padding_mask=padding", "key_padding_mask=~padding"),
                    ("length = torch.randint(3, LONGEST + 1, (n, 1))", "length = torch.randint(3, LONGEST, (n, 1))"),
                ),
                where=("mask", "mix", "attention", "softmax"),
                source="Stack Overflow, key_padding_mask is True where it is ignored; Jain 2023, Mask errors",
            ),
            Fault(
                "unlike pairs are 0 and not -1",
                "target",
                (("label = torch.where(same, 1.0, -1.0)", "label = same.float()"),),
                where=("soft_margin", "target", "label"),
                source="PyTorch docs, SoftMarginLoss takes labels of 1 and -1; Humbatova 2020, Wrong labels",
            ),
            Fault(
                "likeness over the batch",
                "wrong dimension",
                (
                    ("encoder(b), dim=1)", "encoder(b), dim=0)"),
                    ("label = torch.where(same, 1.0, -1.0)", "label = torch.where(same, 1.0, -1.0)[:32]"),
                ),
                where=("cosine_similarity", "dim"),
                source="Stack Overflow, cosine_similarity over the wrong dim; NeuraLint",
            ),
            Fault(
                "one side is encoded without a gradient",
                "cut",
                (("encoder(a), encoder(b), dim=1)", "encoder(a).detach(), encoder(b).detach(), dim=1)"),),
                where=("encoder", "detach", "words", "mix"),
                source="PyTorch forum, detach() of both towers; TrainCheck",
            ),
            Fault(
                "the scale is no one's",
                "no optimizer",
                (
                    (
                        '{"params": encoder.parameters()}, {"params": [scale], "weight_decay": 0.0}',
                        '{"params": encoder.parameters()}',
                    ),
                ),
                where=("scale", r"\(\)"),
                source="CLIP issues, logit_scale is not passed to the optimizer; torchtest",
            ),
        ),
    ),
)
