"""Faults of programs that train well, or seem to: next words that are seen, pairs that become equal, losses dropped."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "paced", "function")

PROGRAMS = (
    Program(
        "letters with a small transformer",
        "language model",
        setup="""
import torch
from torch import nn
torch.manual_seed(0)
LETTERS, LENGTH, WIDTH = 14, 10, 32

class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))
        self.head = nn.Linear(WIDTH, LETTERS)

    def forward(self, x):
        h = self.letters(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.layers(h, mask=self.mask))

book = (torch.arange(500) ** 2 + torch.arange(500) // 3) % LETTERS
writer = Writer()
optimizer = torch.optim.Adam(writer.parameters(), 3e-3)
""",
        forward="""
starts = torch.randint(0, 480, (24,))
text = torch.stack([book[at:at + LENGTH + 1] for at in starts.tolist()])
given, following = text[:, :-1], text[:, 1:]
loss = nn.functional.cross_entropy(writer(given).flatten(0, 1), following.flatten())
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "no causal mask",
                "attention",
                (("self.layers(h, mask=self.mask)", "self.layers(h)"),),
                where=("mask", "attention", "layers"),
                source="Stack Overflow, transformer without a look-ahead mask; Jain 2023, Mask errors",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "letters with a recurrent net",
        "language model",
        setup="""
import torch
import torch.nn as nn
torch.manual_seed(1)

class Speller(nn.Module):
    def __init__(self, letters=12, width=24):
        super().__init__()
        self.embed = nn.Embedding(letters, width)
        self.net = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, letters)
    def forward(self, x):
        return self.head(self.net(self.embed(x))[0])

page = (torch.arange(600) * 5 + torch.arange(600) // 4) % 12
speller = Speller()
optimizer = torch.optim.Adam(speller.parameters(), lr=1e-2)
""",
        forward="""
at = torch.randint(0, 580, (16, 1)) + torch.arange(12)
words = page[at]
scores = speller(words[:, :-1])
loss = nn.functional.cross_entropy(scores.transpose(1, 2), words[:, 1:])
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "it reads in both directions",
                "target",
                (
                    (
                        "nn.GRU(width, width, batch_first=True)",
                        "nn.GRU(width, width, batch_first=True, bidirectional=True)",
                    ),
                    ("nn.Linear(width, letters)", "nn.Linear(2 * width, letters)"),
                ),
                where=("bidirectional", "net", "gru"),
                source="Stack Overflow, a bidirectional LSTM as a language model sees the next word",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "tags of a sequence as long as there are tags",
        "tagger",
        setup="""
import torch
from torch import nn
torch.manual_seed(2)
TAGS = 8
net = nn.LSTM(5, 16, batch_first=True)
head = nn.Linear(16, TAGS)
optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-2)
rule = torch.randn(5, TAGS)
""",
        forward="""
x = torch.randn(20, 8, 5)
tags = (x @ rule).argmax(-1)
logits = head(net(x)[0])
loss = nn.functional.cross_entropy(logits.transpose(1, 2), tags)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "classes in the last dimension",
                "wrong dimension",
                (("cross_entropy(logits.transpose(1, 2), tags)", "cross_entropy(logits, tags)"),),
                where=("cross_entropy", "dimension"),
                source="PyTorch forum, cross_entropy takes (N, C, L); Humbatova 2020, Wrong tensor shape",
            ),
        ),
    ),
    Program(
        "colours of pictures with their channels last",
        "classifier",
        setup="""
import torch
from torch import nn
torch.manual_seed(3)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
""",
        forward="""
colour = torch.randint(0, 3, (24,))
pictures = torch.rand(24, 12, 12, 3) + nn.functional.one_hot(colour, 3)[:, None, None]
x = pictures.permute(0, 3, 1, 2)
loss = nn.functional.cross_entropy(net(x), colour)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "a view in place of permute",
                "wrong dimension",
                (("pictures.permute(0, 3, 1, 2)", "pictures.view(24, 3, 12, 12)"),),
                where=("view", "conv2d", "pictures"),
                source="PyTorch forum, view() and permute() of NHWC images; Humbatova 2020, Wrong input",
            ),
        ),
    ),
    Program(
        "views of one point with a predictor",
        "contrastive",
        setup="""
import torch
from torch import nn
torch.manual_seed(4)
encoder = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
predictor = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 16))
optimizer = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.2, momentum=0.9)

def unlike(p, z):
    return -nn.functional.cosine_similarity(p, z, dim=1).mean()
""",
        forward="""
x = torch.randn(64, 10)
one, other = encoder(x + 0.1 * torch.randn_like(x)), encoder(x + 0.1 * torch.randn_like(x))
loss = (unlike(predictor(one), other.detach()) + unlike(predictor(other), one.detach())) / 2
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=120,
        faults=(
            Fault(
                "no side is detached",
                "target",
                (("other.detach()", "other"), ("one.detach()", "one")),
                where=("cosine_similarity", "detach"),
                source="Chen and He 2021, SimSiam collapses without stop-gradient",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "a bandit of four arms with a critic",
        "RL",
        setup="""
import torch
from torch import nn
from torch.distributions import Categorical
torch.manual_seed(5)

class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.policy, self.value = nn.Linear(6, 32), nn.Linear(32, 4), nn.Linear(32, 1)
    def forward(self, s):
        h = torch.tanh(self.body(s))
        return Categorical(logits=self.policy(h)), self.value(h).squeeze(-1)

agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=3e-3)
""",
        forward="""
s = torch.randn(64, 6)
pi, value = agent(s)
action = pi.sample()
reward = (action == s[:, :4].argmax(1)).float()
advantage = reward - value
policy_loss = -(pi.log_prob(action) * advantage.detach()).mean()
loss = policy_loss + 0.5 * advantage.pow(2).mean()
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "the advantage carries a gradient",
                "loss input",
                (("advantage.detach()", "advantage"),),
                where=("advantage", "detach"),
                source="Stable Baselines and Spinning Up issues, the advantage must be detached",
            ),
        ),
    ),
    Program(
        "a loss of four parts of a batch",
        "regression",
        setup="""
import torch
from torch import nn
torch.manual_seed(6)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
total = 0
""",
        forward="""
parts = []
for part in range(4):
    x = torch.randn(16, 8)
    y = x[:, :1] * x[:, 1:2]
    loss = nn.functional.mse_loss(net(x), y) / 4
    parts.append(loss)
loss = sum(parts)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
total += loss.item()
""",
        faults=(
            Fault(
                "only the last part",
                "unused",
                (("    parts.append(loss)\nloss = sum(parts)", "    parts = None"),),
                where=("loss", "mse", "div"),
                source="Stack Overflow, only the last loss of an inner loop gets a backward",
                hosts=("whole", "loop", "function"),
            ),
            Fault(
                "gradients are zeroed before the step",
                "early call",
                (
                    (
                        "optimizer.zero_grad()\nloss.backward()",
                        "loss.backward()\noptimizer.zero_grad(set_to_none=False)",
                    ),
                ),
                where=("zero_grad",),
                source="Zhang 2018, zero_grad after backward; TrainCheck",
            ),
            Fault(
                "losses are added with their graphs",
                "kept graphs",
                (("total += loss.item()", "total += loss"),),
                where=("total", "loss"),
                source="PyTorch FAQ, my model reports out of memory: total_loss += loss",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "a net in half precision",
        "regression",
        setup="""
import torch
from torch import nn
torch.manual_seed(7)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)).half()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, eps=1e-4)
""",
        forward="""
x = torch.randn(64, 8).half()
y = x[:, :1] - x[:, 1:2]
loss = nn.functional.mse_loss(net(x), y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "eps is 0 in float16",
                "nan",
                ((", eps=1e-4", ""),),
                where=("eps",),
                source="PyTorch forum, Adam in half precision gives NaN",
            ),
        ),
    ),
    Program(
        "the longest words of short sentences",
        "classifier",
        setup="""
import torch
from torch import nn
torch.manual_seed(8)
embed = nn.Embedding(30, 16, padding_idx=0)
attend = nn.MultiheadAttention(16, 2, batch_first=True)
head = nn.Linear(16, 2)
optimizer = torch.optim.Adam([*embed.parameters(), *attend.parameters(), *head.parameters()], lr=3e-3)
""",
        forward="""
words = torch.randint(1, 30, (32, 9))
words[:, 6:] = 0
y = ((words > 15).sum(1) > 2).long()
h = embed(words)
h, _ = attend(h, h, h, key_padding_mask=words == 0)
loss = nn.functional.cross_entropy(head(h[:, :6].mean(1)), y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "the mask of sentences of one length is inverted",
                "attention",
                (("key_padding_mask=words == 0", "key_padding_mask=words != 0"),),
                where=("mask",),
                source="Stack Overflow, key_padding_mask is True where it is ignored",
            ),
        ),
    ),
)
