"""Faults that raise nothing and change no shape: draws, masks, states and updates that are not what they seem."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "clipped accumulation",
        "accumulation",
        setup="""
import torch
from torch import nn

torch.manual_seed(31)
x = torch.randn(64, 8)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
""",
        forward="""
rows = slice(step % 8 * 8, step % 8 * 8 + 8)
loss = nn.functional.mse_loss(model(x[rows]), y[rows])
""",
        update="""
(loss / 4).backward()
if step % 4 == 3:
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    optimizer.zero_grad()
""",
        steps=80,
        faults=(
            Fault(
                "clipped, and never cleared",
                "accumulated gradients",
                (("    optimizer.zero_grad()\n", ""),),
                where=("SGD",),
                source="PyTorch forum, gradient accumulation without zero_grad; DeepFD, missing zero_grad",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "autoencoder with a normal latent",
        "VAE",
        setup="""
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

torch.manual_seed(32)
angle = torch.rand(256, 1) * 6.28
x = torch.sigmoid(2 * torch.sin(angle + torch.linspace(0, 6.28, 24)))
encoder = nn.Sequential(nn.Linear(24, 48), nn.ReLU())
mean, spread = nn.Linear(48, 3), nn.Linear(48, 3)
decoder = nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 24))
parts = nn.ModuleList([encoder, mean, spread, decoder])
prior = Normal(torch.zeros(3), torch.ones(3))
optimizer = torch.optim.Adam(parts.parameters(), lr=5e-3)
""",
        forward="""
h = encoder(x)
posterior = Normal(mean(h), nn.functional.softplus(spread(h)) + 1e-3)
z = posterior.rsample()
fit = nn.functional.binary_cross_entropy_with_logits(decoder(z), x)
loss = fit + 1e-3 * kl_divergence(posterior, prior).mean()
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=60,
        faults=(
            Fault(
                "sample() beside a divergence",
                "cut",
                (("posterior.rsample()", "posterior.sample()"),),
                where=("sample",),
                source="PyTorch forum, sample() and rsample() in a VAE; Pyro issue 1215",
            ),
        ),
    ),
    Program(
        "padded words in an encoder",
        "text",
        setup="""
import torch
from torch import nn

torch.manual_seed(33)
words = torch.randint(1, 20, (64, 12))
length = torch.randint(4, 12, (64,))
words[torch.arange(12)[None] >= length[:, None]] = 0
label = (words == 3).any(1).long()

class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 16, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, words):
        padding = words == 0
        h = self.layer(self.table(words), src_key_padding_mask=padding)
        keep = (words != 0).unsqueeze(-1)
        return self.head((h * keep).sum(1) / keep.sum(1))

reader = Reader()
optimizer = torch.optim.Adam(reader.parameters(), lr=3e-3)
""",
        forward="""
loss = nn.functional.cross_entropy(reader(words), label)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=40,
        faults=(
            Fault(
                "the padding mask is inverted",
                "attention",
                (("padding = words == 0", "padding = words != 0"),),
                where=("mask",),
                source="PyTorch forum, src_key_padding_mask: True hides; transformers 542",
            ),
            Fault(
                "the mean of the padding",
                "attention",
                (("keep = (words != 0)", "keep = (words == 0)"),),
                where=("mask", "mul"),
                source="StackOverflow, mean of masked embeddings",
            ),
            Fault(
                "dropout of 0.9 in the encoder layer",
                "dropout",
                (("dropout=0.1", "dropout=0.9"),),
                where=("layer", "dropout"),
                source="Humbatova et al., wrong dropout rate",
            ),
            Fault(
                "one unit for two classes",
                "output activation",
                (
                    ("self.head = nn.Linear(16, 2)", "self.head = nn.Linear(16, 1)"),
                    ("any(1).long()", "any(1).float().unsqueeze(1)"),
                ),
                where=("cross_entropy", "head"),
                source="StackOverflow, cross_entropy of one output is always 0; Humbatova et al., wrong loss",
            ),
        ),
    ),
    Program(
        "network of two matrices",
        "by hand",
        setup="""
import torch

torch.manual_seed(34)
x = torch.randn(64, 8)
y = (x @ torch.randn(8, 1)).tanh()
w1 = (torch.randn(8, 32) * 0.3).requires_grad_()
w2 = (torch.randn(32, 1) * 0.2).requires_grad_()
""",
        forward="""
loss = ((torch.relu(x @ w1) @ w2 - y) ** 2).mean()
""",
        update="""
loss.backward()
with torch.no_grad():
    for w in (w1, w2):
        w -= 0.03 * w.grad
        w.grad.zero_()
""",
        steps=60,
        faults=(
            Fault(
                "the gradient is added",
                "sign",
                (("w -= 0.03 * w.grad", "w += 0.03 * w.grad"),),
                where=("w1", "w2"),
                source="StackOverflow, gradient ascent by mistake; TrainCheck, wrong update",
                hosts=LOOPS,
            ),
            Fault(
                "the gradient is added by add_",
                "sign",
                (("w -= 0.03 * w.grad", "w.add_(3e-2 * w.grad)"),),
                where=("w1", "w2"),
                source="StackOverflow, gradient ascent by mistake",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "sums with a cell",
        "recurrence",
        setup="""
import torch
from torch import nn

torch.manual_seed(35)
x = torch.randn(64, 10, 4)
y = x.mean((1, 2)).unsqueeze(1)
cell, head = nn.GRUCell(4, 24), nn.Linear(24, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)
""",
        forward="""
h = torch.zeros(64, 24)
for t in range(10):
    h = cell(x[:, t], h)
loss = nn.functional.mse_loss(head(h), y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=40,
        faults=(
            Fault(
                "the state goes through numpy",
                "cut",
                (
                    (
                        "    h = cell(x[:, t], h)\n",
                        "    h = cell(x[:, t], torch.from_numpy(h.detach().numpy()))\n",
                    ),
                ),
                where=("numpy", "detach"),
                source="PyTorch forum, hidden state through numpy",
            ),
        ),
    ),
    Program(
        "letters that all begin alike",
        "recurrence",
        setup="""
import torch
from torch import nn

torch.manual_seed(36)
letters = torch.randint(1, 6, (32, 9))
letters[:, 0] = 0
y = (letters == 2).any(1).long()
x = nn.functional.one_hot(letters, 6).float()
Wx = (torch.randn(6, 32) * 0.4).requires_grad_()
Wh = nn.init.orthogonal_(torch.empty(32, 32)).requires_grad_()
out = nn.Linear(32, 2)
optimizer = torch.optim.Adam([Wx, Wh, *out.parameters()], lr=5e-3)
""",
        forward="""
h = torch.zeros(32, 32)
for t in range(9):
    h = torch.tanh(x[:, t] @ Wx + h @ Wh)
loss = nn.functional.cross_entropy(out(h), y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=40,
    ),
    Program(
        "values that grow",
        "reinforcement learning",
        setup="""
import copy
import torch
from torch import nn

torch.manual_seed(37)
state, following = torch.randn(256, 4), torch.randn(256, 4)
action, reward = torch.randint(0, 2, (256, 1)), torch.ones(256)
online = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
target = copy.deepcopy(online)
optimizer = torch.optim.Adam(online.parameters(), lr=1e-2)
""",
        forward="""
value = online(state).gather(1, action).squeeze(1)
with torch.no_grad():
    expected = reward + 0.99 * target(following).max(1).values
loss = nn.functional.smooth_l1_loss(value, expected)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
if step % 5 == 4:
    target.load_state_dict(online.state_dict())
""",
        steps=60,
    ),
)
