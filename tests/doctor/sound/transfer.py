"""Networks that learn from another one: distillation, fine-tuning, low-rank adapters."""

from tests.doctor.program import Program

SOFT_LABELS = Program(
    "student of soft labels",
    "distillation",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(300)
x_train = torch.randn(200, 8)
y_train = (x_train[:, 0] * x_train[:, 1] > 0).long()
teacher = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2))
big = torch.optim.Adam(teacher.parameters(), lr=1e-2)
for _ in range(60):
    big.zero_grad()
    F.cross_entropy(teacher(x_train), y_train).backward()
    big.step()
teacher.requires_grad_(False).eval()
student = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(student.parameters(), lr=2e-2)
T = 3.0
""",
    """
rows = torch.randint(200, (64,))
with torch.inference_mode():
    wise = teacher(x_train[rows])
logits = student(x_train[rows])
soft = F.kl_div(F.log_softmax(logits / T, 1), F.log_softmax(wise / T, 1), log_target=True, reduction="batchmean")
loss = 0.9 * T * T * soft + 0.1 * F.cross_entropy(logits, y_train[rows])
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

HINTS = Program(
    "student of inner features",
    "distillation",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(301)

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3, padding=1)
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        features = F.relu(self.conv(x))
        return features, self.head(features.amax((2, 3)))

teacher, student = Net(12).eval(), Net(6)
regressor = nn.Conv2d(6, 12, 1)
groups = [{"params": student.parameters()}, {"params": regressor.parameters(), "lr": 0.1}]
optimizer = torch.optim.SGD(groups, lr=0.2, momentum=0.9)
""",
    """
x = torch.randn(32, 1, 6, 6)
with torch.no_grad():
    goal, said = teacher(x)
mine, logits = student(x)
loss = F.mse_loss(regressor(mine), goal) + F.cross_entropy(logits, said.softmax(1))
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

MEAN_TEACHER = Program(
    "student of its own average",
    "distillation",
    """
import copy
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(302)
student = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.detach_()
optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
direction = torch.randn(6, 3)
""",
    """
labelled, unlabelled = torch.randn(24, 6), torch.randn(48, 6)
supervised = F.cross_entropy(student(labelled), (labelled @ direction).argmax(1))
with torch.no_grad():
    steady = teacher(unlabelled + 0.05 * torch.randn_like(unlabelled)).softmax(1)
consistency = F.mse_loss(student(unlabelled + 0.05 * torch.randn_like(unlabelled)).softmax(1), steady)
loss = supervised + min(1.0, step / 15) * consistency
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
with torch.no_grad():
    for slow, fast in zip(teacher.parameters(), student.parameters()):
        slow.mul_(0.95).add_(fast, alpha=0.05)
""",
)

NEW_HEAD = Program(
    "new head on a frozen body in eval",
    "fine-tuning",
    """
import torch
from torch import nn

torch.manual_seed(310)

class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 12, 3, stride=2), nn.BatchNorm2d(12), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )
        self.head = nn.Linear(48, 10)

    def forward(self, x):
        return self.head(self.body(x))

    def train(self, mode=True):
        super().train(mode)
        self.body.eval()
        return self

model = Features()
with torch.no_grad():
    model.body[1].running_mean.normal_(0, 0.1)
model.body.requires_grad_(False)
model.head = nn.Linear(48, 2)
optimizer = torch.optim.Adam(model.head.parameters(), lr=2e-2)
criterion = nn.CrossEntropyLoss()
""",
    """
model.train()
kind = torch.randint(2, (32,))
image = torch.randn(32, 3, 8, 8) + kind.view(-1, 1, 1, 1) * torch.tensor([1.0, -0.5, 0.3]).view(3, 1, 1)
loss = criterion(model(image), kind)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

LAYERWISE = Program(
    "lower rates for lower layers",
    "fine-tuning",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(311)

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        layer = lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.layers = nn.ModuleList(layer() for _ in range(2))
        self.cls = nn.Linear(16, 3)

    def forward(self, tokens):
        h = self.embed(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.cls(h.mean(1))

bert = Encoder()
groups = [
    {"params": bert.embed.parameters(), "lr": 2e-4},
    {"params": bert.layers[0].parameters(), "lr": 5e-4},
    {"params": bert.layers[1].parameters(), "lr": 1e-3},
    {"params": bert.cls.parameters(), "lr": 1e-2, "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1.0, i / 4))
""",
    """
topic = torch.randint(3, (24,))
tokens = torch.randint(0, 10, (24, 8)) + 10 * topic[:, None] * (torch.rand(24, 8) < 0.7)
loss = F.cross_entropy(bert(tokens), topic)
""",
    """
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(bert.parameters(), 1.0)
optimizer.step()
warmup.step()
""",
    steps=30,
)

UNFREEZING = Program(
    "gradual unfreezing",
    "fine-tuning",
    """
import torch
from torch import nn

torch.manual_seed(312)
net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
for layer in (net[0], net[2]):
    layer.requires_grad_(False)
optimizer = torch.optim.Adam(net[4].parameters(), lr=1e-2)
target = lambda x: (x[:, :3].prod(1) + x[:, 4])[:, None]
""",
    """
if step == 10:
    net[2].requires_grad_(True)
    optimizer.add_param_group({"params": net[2].parameters(), "lr": 5e-3})
if step == 20:
    net[0].requires_grad_(True)
    optimizer.add_param_group({"params": net[0].parameters(), "lr": 5e-3})
x = torch.randn(64, 10)
loss = nn.functional.smooth_l1_loss(net(x), target(x))
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    steps=50,
)

ADAPTERS = Program(
    "low-rank adapters of a frozen regression",
    "LoRA",
    """
import torch
from torch import nn

torch.manual_seed(320)

class LoRA(nn.Module):
    def __init__(self, base, rank=2, alpha=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * self.up(self.down(x))

base = nn.Sequential(nn.Linear(6, 24), nn.GELU(), nn.Linear(24, 2))
wanted = base[0].weight.detach().clone() + torch.randn(24, 1) @ torch.randn(1, 6) / 2

def truth(x):
    with torch.no_grad():
        return base[2].base(nn.functional.gelu(x @ wanted.t() + base[0].base.bias))

base[0], base[2] = LoRA(base[0]), LoRA(base[2])
optimizer = torch.optim.AdamW([p for p in base.parameters() if p.requires_grad], lr=2e-2)
""",
    """
x = torch.randn(64, 6)
loss = nn.functional.mse_loss(base(x), truth(x))
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    steps=60,
)

ATTENTION_ADAPTERS = Program(
    "adapters of query and value",
    "LoRA",
    """
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(321)
D = 16

class Projection(nn.Module):
    def __init__(self, adapted):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(D, D) / D**0.5, requires_grad=False)
        if adapted:
            self.lora_A = nn.Parameter(torch.empty(2, D))
            self.lora_B = nn.Parameter(torch.zeros(D, 2))
            nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.adapted = adapted

    def forward(self, x):
        y = F.linear(x, self.weight)
        if not self.adapted:
            return y
        return y + F.linear(F.linear(F.dropout(x, 0.05, self.training), self.lora_A), self.lora_B) * 4

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = Projection(True), Projection(False), Projection(True)
        self.head = nn.Linear(D, 4)

    def forward(self, x):
        mixed = F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))
        return self.head(x.mean(1) + mixed.mean(1))

attention = Attention()
optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, attention.parameters()), lr=1e-2)
prototypes = torch.randn(4, D)
""",
    """
kind = torch.randint(4, (32,))
x = prototypes[kind][:, None] + torch.randn(32, 5, D)
loss = F.cross_entropy(attention(x), kind)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

CHECKPOINTED = Program(
    "adapters under a checkpoint that does not re-enter",
    "LoRA",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

torch.manual_seed(322)

class Block(nn.Module):
    def __init__(self, width=16, rank=3):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dense = nn.Linear(width, width)
        self.a = nn.Linear(width, rank, bias=False)
        self.b = nn.Linear(rank, width, bias=False)
        nn.init.zeros_(self.b.weight)
        for frozen in (self.norm, self.dense):
            frozen.requires_grad_(False)

    def forward(self, x):
        y = self.norm(x)
        return x + F.silu(self.dense(y) + self.b(self.a(y)))

blocks = nn.ModuleList(Block() for _ in range(3))
table = nn.Embedding(20, 16).requires_grad_(False)
optimizer = torch.optim.Adam([p for p in blocks.parameters() if p.requires_grad], lr=1e-2)
aim = torch.randn(20, 16)
""",
    """
words = torch.randint(20, (48,))
h = table(words)
for block in blocks:
    h = checkpoint(block, h, use_reentrant=False)
loss = F.mse_loss(h, table(words) + torch.tanh(aim[words]))
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

PROGRAMS = [
    SOFT_LABELS,
    HINTS,
    MEAN_TEACHER,
    NEW_HEAD,
    LAYERWISE,
    UNFREEZING,
    ADAPTERS,
    ATTENTION_ADAPTERS,
    CHECKPOINTED,
]
