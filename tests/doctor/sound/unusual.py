"""Right practice that looks like a fault to a naive rule."""

from tests.doctor.program import Program

MC_DROPOUT = Program(
    "half of the units dropped, also when it predicts",
    "regression",
    """
import torch
from torch import nn

torch.manual_seed(500)
net = nn.Sequential(
    nn.Linear(3, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 1),
)
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
""",
    """
x = torch.randn(96, 3)
loss = nn.functional.mse_loss(net(x).squeeze(1), 2 * x[:, 0] - x[:, 1])
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
if step % 20 == 19:
    with torch.no_grad():
        samples = torch.stack([net(x) for _ in range(5)])
        uncertainty = samples.std(0)
""",
)

ZERO_HEAD = Program(
    "head that begins at zero",
    "classifier",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(501)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 32)
        self.norm = nn.LayerNorm(32)
        self.gate = nn.Parameter(torch.zeros(()))
        self.branch = nn.Linear(32, 32)
        self.head = nn.Linear(32, 3)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x):
        h = F.relu(self.norm(self.fc(x)))
        h = h + self.gate * torch.tanh(self.branch(h))
        return self.head(h)

net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
""",
    """
x = torch.randn(64, 8)
loss = F.cross_entropy(net(x), x[:, :3].abs().argmax(1))
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

FACTORISED = Program(
    "low-rank layers and a bottleneck without an activation",
    "regression",
    """
import torch
from torch import nn

torch.manual_seed(502)
low_rank = lambda a, b, r: nn.Sequential(nn.Linear(a, r, bias=False), nn.Linear(r, b))
model = nn.Sequential(low_rank(20, 32, 4), nn.ELU(), low_rank(32, 32, 4), nn.ELU(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
W = torch.randn(20, 2)
""",
    """
x = torch.randn(64, 20)
loss = (model(x) - torch.sin(x @ W / 4)).pow(2).mean()
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    steps=60,
)

ONE_CYCLE = Program(
    "rate that begins at 0 and ends at 0",
    "classifier",
    """
import math
import torch
import torch.nn as nn

torch.manual_seed(503)
model = nn.Sequential(nn.Linear(5, 32), nn.SiLU(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-2)
warm, total = 5, 40

def factor(i):
    if i < warm:
        return i / warm
    return 0.5 * (1 + math.cos(math.pi * (i - warm) / (total - 1 - warm)))

scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
""",
    """
x = torch.randn(64, 5)
loss = loss_fn(model(x), (x[:, 0] * x[:, 1] + x[:, 2] > 0).long())
""",
    """
optimizer.zero_grad(set_to_none=True)
loss.backward()
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
scheduler.step()
""",
)

COUNTED = Program(
    "squared error of whole numbers",
    "regression",
    """
import torch
from torch import nn

torch.manual_seed(504)
regressor = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1), nn.ReLU())
nn.init.constant_(regressor[4].bias, 3.0)
optimizer = torch.optim.Adam(regressor.parameters(), lr=3e-3)
""",
    """
marks = (torch.rand(80, 6) < 0.5).float()
counts = marks.sum(1, keepdim=True)
loss = nn.functional.mse_loss(regressor(marks), counts)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

AVERAGED = Program(
    "average of the weights beside the weights",
    "classifier",
    """
import torch
import torch.nn as nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(505)
model = nn.Sequential(nn.Linear(4, 24), nn.BatchNorm1d(24), nn.GELU(), nn.Linear(24, 3))
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-3)
""",
    """
model.train()
x = torch.randn(48, 4)
y = x[:, :3].argmax(1)
loss = nn.functional.cross_entropy(model(x), y)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
ema.update_parameters(model)
if step % 10 == 9:
    ema.eval()
    with torch.no_grad():
        accuracy = (ema(x).argmax(1) == y).float().mean()
""",
)

PIXELS = Program(
    "softmax over the channels of an image",
    "segmentation",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(506)
net = nn.Sequential(
    nn.Conv2d(2, 12, 3, padding=1), nn.InstanceNorm2d(12, affine=True), nn.ReLU(), nn.Conv2d(12, 3, 3, padding=1),
)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
""",
    """
scene = F.interpolate(torch.randn(8, 2, 4, 4), scale_factor=2, mode="bilinear")
truth = torch.where(scene[:, 0] > 0.3, 0, torch.where(scene[:, 1] > 0, 1, 2))
p = torch.softmax(net(scene), dim=1)
hot = F.one_hot(truth, 3).permute(0, 3, 1, 2).float()
overlap = (p * hot).sum((0, 2, 3)) / (p + hot).sum((0, 2, 3)).clamp(min=1e-6)
loss = F.nll_loss(torch.log(p + 1e-8), truth) + 1 - 2 * overlap.mean()
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

SLOTS = Program(
    "slots that compete for places",
    "attention",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(507)
D, SLOTS = 12, 3

class SlotAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Parameter(0.5 * torch.randn(1, SLOTS, D))
        self.q, self.k, self.v = (nn.Linear(D, D, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(D, D)
        self.norm_in, self.norm_slots = nn.LayerNorm(D), nn.LayerNorm(D)
        self.decoder = nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, 6 * (D + 1)))

    def forward(self, x):
        b = len(x)
        x = self.norm_in(x)
        k, v = self.k(x), self.v(x)
        slots = self.mu.expand(b, -1, -1)
        for _ in range(2):
            attention = (self.q(self.norm_slots(slots)) @ k.transpose(1, 2) / D**0.5).softmax(dim=1) + 1e-6
            update = (attention / attention.sum(2, keepdim=True)) @ v
            slots = self.gru(update.reshape(-1, D), slots.reshape(-1, D)).view(b, SLOTS, D)
        content, alpha = self.decoder(slots).view(b, SLOTS, 6, D + 1).split([D, 1], 3)
        return (content * alpha.softmax(1)).sum(1)

objects = torch.randn(4, D)
model = SlotAttention()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
""",
    """
which = torch.randint(4, (32, 6)).sort(1).values
x = objects[which] + 0.1 * torch.randn(32, 6, D)
loss = F.mse_loss(model(x), x)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    steps=30,
)

REVERSED = Program(
    "domains told apart by a reversed gradient",
    "adversarial",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(508)

class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None

features = nn.Sequential(nn.Linear(6, 24), nn.ReLU())
label, domain = nn.Linear(24, 2), nn.Linear(24, 2)
optimizer = torch.optim.SGD([*features.parameters(), *label.parameters(), *domain.parameters()], lr=0.1, momentum=0.9)
""",
    """
source, target = torch.randn(32, 6), torch.randn(32, 6) + torch.tensor([0, 0, 0, 0, 0, 1.5])
fs, ft = features(source), features(target)
supervised = F.cross_entropy(label(fs), (source[:, 0] > source[:, 1]).long())
where_from = domain(Reverse.apply(torch.cat([fs, ft]), 0.3))
loss = supervised + 0.3 * F.cross_entropy(where_from, torch.arange(64) // 32)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

SPARSE = Program(
    "sparse gradient of skip-grams",
    "embeddings",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(509)
words = 50
centre = nn.Embedding(words, 8, sparse=True)
context = nn.Embedding(words, 8, sparse=True)
nn.init.uniform_(centre.weight, -0.3, 0.3)
nn.init.uniform_(context.weight, -0.3, 0.3)
optimizer = torch.optim.SparseAdam([*centre.parameters(), *context.parameters()], lr=5e-2)
""",
    """
middle = torch.randint(0, words, (64,))
near = (middle + torch.randint(1, 3, (64,))) % words
far = torch.randint(0, words, (64, 4))
positive = (centre(middle) * context(near)).sum(1)
negative = torch.bmm(context(far), centre(middle).unsqueeze(2)).squeeze(2)
loss = -(F.logsigmoid(positive).mean() + F.logsigmoid(-negative).mean(0).sum())
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

TIED = Program(
    "one matrix for words in and words out",
    "language model",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(510)

class Tied(nn.Module):
    def __init__(self, vocab=16, dim=24):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        nn.init.normal_(self.wte.weight, std=0.2)
        self.mixer = nn.Sequential(nn.Linear(2 * dim, 48), nn.GELU(), nn.Linear(48, dim), nn.LayerNorm(dim))
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, a, b):
        return self.lm_head(self.mixer(torch.cat([self.wte(a), self.wte(b)], 1)))

tied = Tied()
decay = [p for p in tied.parameters() if p.dim() > 1]
no_decay = [p for p in tied.parameters() if p.dim() < 2]
groups = [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=1e-2)
""",
    """
a, b = torch.randint(0, 16, (2, 96))
loss = F.cross_entropy(tied(a, b), (a + 3 * b) % 4)
""",
    """
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(tied.parameters(), 1.0)
optimizer.step()
""",
)

SIAMESE = Program(
    "one net for both of a pair, targets from the other",
    "metric learning",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(511)
embed = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 6))
loss_fn = nn.TripletMarginLoss(margin=1.0)
optimizer = torch.optim.Adam(embed.parameters(), lr=3e-3)
people = torch.randn(8, 10)
""",
    """
who = torch.randint(8, (48,))
other = (who + torch.randint(1, 8, (48,))) % 8
anchor, positive, negative = (embed(people[i] + 0.7 * torch.randn(48, 10)) for i in (who, who, other))
loss = loss_fn(anchor, positive, negative)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

LARGE_UNITS = Program(
    "large inputs that the model normalises itself",
    "regression",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(512)
salary = torch.rand(300, 4) * 1e5 + 2e4

class Scaled(nn.Module):
    def __init__(self, sample):
        super().__init__()
        self.register_buffer("mean", sample.mean(0))
        self.register_buffer("std", sample.std(0))
        self.net = nn.Sequential(nn.Linear(4, 24), nn.Softplus(), nn.Linear(24, 1))

    def forward(self, x):
        return self.net((x - self.mean) / self.std)

model = Scaled(salary)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
""",
    """
x = salary[torch.randint(300, (64,))]
y = (x.mean(1, keepdim=True) - 7e4) / 1.5e4
loss = F.huber_loss(model(x), y)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

TINY_BATCH = Program(
    "batch norm of two images",
    "image classifier",
    """
import torch
from torch import nn

torch.manual_seed(513)
net = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
    nn.Linear(200, 2),
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
criterion = nn.CrossEntropyLoss()
ramp = torch.linspace(-1, 1, 10)
""",
    """
label = torch.tensor([0, 1])[torch.randperm(2)]
image = torch.where(label.view(2, 1, 1, 1) == 0, ramp.view(1, 1, 1, 10), ramp.view(1, 1, 10, 1))
image = image + 0.3 * torch.randn(2, 1, 10, 10)
loss = criterion(net(image), label)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

UNCERTAIN = Program(
    "tasks weighted by their uncertainty, a loss below zero",
    "multi-task",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(514)
trunk = nn.Sequential(nn.Linear(6, 32), nn.Tanh())
a, b = nn.Linear(32, 1), nn.Linear(32, 3)
log_var = nn.Parameter(torch.zeros(2))
optimizer = torch.optim.Adam([*trunk.parameters(), *a.parameters(), *b.parameters(), log_var], lr=2e-2)
""",
    """
x = torch.randn(64, 6)
h = trunk(x)
regression = F.mse_loss(a(h)[:, 0], torch.sin(x[:, 0]))
classification = F.cross_entropy(b(h), x[:, :3].argmax(1))
loss = (torch.stack([regression, classification]) * torch.exp(-log_var) + log_var).sum()
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    steps=60,
)

MASKED_ROWS = Program(
    "padded sentences in an encoder",
    "transformer",
    """
import torch
import torch.nn as nn

torch.manual_seed(515)
embedding = nn.Embedding(20, 16, padding_idx=0)
encoder = nn.TransformerEncoder(
    nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True, norm_first=True),
    2, enable_nested_tensor=False,
)
head = nn.Linear(16, 2)
weights = [*embedding.parameters(), *encoder.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(weights, lr=5e-3)
""",
    """
lengths = torch.randint(2, 7, (24,))
mood = torch.randint(2, (24,))
tokens = torch.randint(1, 10, (24, 6)) + 9 * mood[:, None]
padding = torch.arange(6)[None, :] >= lengths[:, None]
tokens = tokens.masked_fill(padding, 0)
h = encoder(embedding(tokens), src_key_padding_mask=padding)
pooled = h.masked_fill(padding[:, :, None], 0).sum(1) / lengths[:, None]
loss = nn.functional.cross_entropy(head(pooled), mood)
""",
    """
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(weights, 1.0)
optimizer.step()
""",
    steps=25,
)

BY_HAND = Program(
    "polynomial with steps by hand",
    "regression",
    """
import torch

torch.manual_seed(516)
x = torch.linspace(-1, 1, 100)
y = torch.sin(3 * x)
coefficients = torch.zeros(4, requires_grad=True)
powers = torch.stack([x**k for k in range(4)], dim=1)
""",
    """
loss = ((powers @ coefficients - y) ** 2).mean()
""",
    """
gradient, = torch.autograd.grad(loss, coefficients)
with torch.no_grad():
    coefficients -= 0.4 * gradient
""",
)

META = Program(
    "an inner step that is differentiated",
    "meta-learning",
    """
import torch
from torch import nn
from torch.func import functional_call
import torch.nn.functional as F

torch.manual_seed(517)
net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
outer = torch.optim.Adam(net.parameters(), lr=5e-3)

def task():
    amplitude, phase = 0.5 + torch.rand(1), 3 * torch.rand(1)
    draw = lambda: (lambda x: (x, amplitude * torch.sin(x + phase)))(4 * torch.rand(16, 1) - 2)
    return draw(), draw()
""",
    """
loss = 0.0
for _ in range(3):
    (xs, ys), (xq, yq) = task()
    weights = dict(net.named_parameters())
    inner = F.mse_loss(functional_call(net, weights, (xs,)), ys)
    slopes = torch.autograd.grad(inner, weights.values(), create_graph=True)
    fast = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), slopes)}
    loss = loss + F.mse_loss(functional_call(net, fast, (xq,)), yq) / 3
""",
    """
outer.zero_grad()
loss.backward()
outer.step()
""",
    steps=30,
)

ROUNDED = Program(
    "weights quantised with a straight-through estimator",
    "classifier",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(518)

class Ternary(nn.Linear):
    def forward(self, x):
        scale = self.weight.abs().mean().clamp(min=1e-5)
        rounded = (self.weight / scale).round().clamp(-1, 1) * scale
        return F.linear(x, self.weight + (rounded - self.weight).detach(), self.bias)

model = nn.Sequential(Ternary(8, 48), nn.ReLU(), Ternary(48, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
""",
    """
x = torch.randn(64, 8)
loss = F.cross_entropy(model(x), (x[:, 0] + x[:, 1] > x[:, 2]).long())
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

PROGRAMS = [
    MC_DROPOUT,
    ZERO_HEAD,
    FACTORISED,
    ONE_CYCLE,
    COUNTED,
    AVERAGED,
    PIXELS,
    SLOTS,
    REVERSED,
    SPARSE,
    TIED,
    SIAMESE,
    LARGE_UNITS,
    TINY_BATCH,
    UNCERTAIN,
    MASKED_ROWS,
    BY_HAND,
    META,
    ROUNDED,
]
