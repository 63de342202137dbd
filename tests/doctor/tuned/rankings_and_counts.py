"""Faults of a ranking, counts, experts, patches of pictures, a clipped policy and a picture that is optimised."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "songs by pairs of preferences",
        "ranking",
        setup="""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(229)
n_users, n_songs = 40, 60
liking = torch.randn(n_users, 4) @ torch.randn(4, n_songs)
heard = [torch.nonzero(row > 1.0).flatten() for row in liking]
users = torch.tensor([u for u in range(n_users) if len(heard[u])])

class BPR(nn.Module):
    def __init__(self, k=16):
        super().__init__()
        self.user = nn.Embedding(n_users, k)
        self.song = nn.Embedding(n_songs, k)
        self.song_bias = nn.Embedding(n_songs, 1)
        for table in (self.user, self.song):
            nn.init.normal_(table.weight, std=0.1)
        nn.init.zeros_(self.song_bias.weight)
    def score(self, u, s):
        return (self.user(u) * self.song(s)).sum(-1) + self.song_bias(s).squeeze(-1)

bpr = BPR()
opt = torch.optim.Adagrad(bpr.parameters(), lr=0.2)

def draw(n):
    u = users[torch.randint(0, len(users), (n,))]
    liked = torch.stack([heard[k][torch.randint(0, len(heard[k]), ())] for k in u.tolist()])
    return u, liked, torch.randint(0, n_songs, (n,))
""",
        forward="""
u, liked, other = draw(64)
difference = bpr.score(u, liked) - bpr.score(u, other)
loss = -F.logsigmoid(difference).mean()
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
""",
        steps=80,
        faults=(
            Fault(
                "likes and dislikes are minimised alike",
                "sign",
                (("loss = -F.logsigmoid(difference).mean()", "loss = F.logsigmoid(difference).mean()"),),
                where=("logsigmoid", "loss"),
                source="Humbatova 2020, Wrong loss function calculation: a forgotten minus of the BPR loss",
                hosts=LOOPS,
            ),
            Fault(
                "the log of a sigmoid that is 0",
                "nan",
                (("-F.logsigmoid(difference)", "-torch.log(torch.sigmoid(100 * difference) - 0.5)"),),
                where=("log", "sigmoid", "difference"),
                source="DeepLocalize, numerical error: log of a negative number; Humbatova 2020",
            ),
            Fault(
                "biases of songs meet all pairs",
                "broadcast",
                (("self.song_bias(s).squeeze(-1)", "self.song_bias(s)"),),
                where=("song_bias", "add", "score"),
                source="Stack Overflow, (n,) plus (n, 1) of a bias embedding; NeuraLint",
            ),
            Fault(
                "songs are looked up without a gradient",
                "cut",
                (("(self.user(u) * self.song(s))", "(self.user(u) * self.song.weight.data[s])"),),
                where=(r"\bsong\b", "data"),
                source="PyTorch forum, embedding.weight.data[i] cuts the graph; TrainCheck",
            ),
            Fault(
                "a rate of a thousand for the tables",
                "rate too large",
                (("lr=0.2", "lr=1000.0"),),
                where=(r"\blr\b", "rate", "user", "song"),
                source="DeepFD, learning rate too high; Humbatova 2020, Suboptimal learning rate",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "bicycles at a counting post",
        "count regression",
        setup="""
import math
import torch
import torch.nn as nn

torch.manual_seed(233)
cfg = dict(lr=5e-3, epochs=1, batch_size=64, seed=233)
hours, rain = torch.randint(0, 24, (700,)), (torch.rand(700) < 0.3).float()
rate = torch.exp(1.2 + 1.2 * torch.sin((hours - 6) / 24 * 2 * math.pi) - 0.8 * rain)
counts = torch.poisson(rate)
inputs = torch.stack([(hours / 24 * 2 * math.pi).sin(), (hours / 24 * 2 * math.pi).cos(), rain], 1)

class CountNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(3, 32), nn.Linear(32, 32), nn.Linear(32, 1)
    def forward(self, x):
        x = torch.tanh(self.l1(x))
        x = torch.tanh(self.l2(x))
        return self.l3(x).flatten()

net = CountNet()
loss_fn = nn.PoissonNLLLoss(log_input=True)
optimizer = torch.optim.NAdam(net.parameters(), lr=cfg["lr"])
""",
        forward="""
batch = torch.randint(0, 700, (cfg["batch_size"],))
log_rate = net(inputs[batch])
loss = loss_fn(log_rate, counts[batch])
""",
        update="""
for p in net.parameters():
    p.grad = None
loss.backward()
optimizer.step()
""",
        steps=90,
        faults=(
            Fault(
                "a rectified logarithm of the rate",
                "output activation",
                (("return self.l3(x).flatten()", "return -torch.relu(self.l3(x)).flatten()"),),
                where=("relu", "l3", "neg"),
                source="Humbatova 2020, Wrong activation of the last layer; DeepFD",
            ),
            Fault(
                "the log of a rate that may be negative",
                "nan",
                (("nn.PoissonNLLLoss(log_input=True)", "nn.PoissonNLLLoss(log_input=False)"),),
                where=("poisson", "log", "log_rate", "loss_fn"),
                source="PyTorch forum, PoissonNLLLoss(log_input=False) of raw outputs is NaN",
            ),
            Fault(
                "saturated from the first layer",
                "dead units",
                (("tanh(self.l1(x))", "tanh(300 * self.l1(x))"), ("tanh(self.l2(x))", "tanh(300 * self.l2(x))")),
                where=("tanh", "l1", "l2"),
                source="DeepFD, saturated activation; Glorot 2010, saturation of tanh",
            ),
            Fault(
                "counts of the wrong hours",
                "data",
                (
                    (
                        "loss = loss_fn(log_rate, counts[batch])",
                        "loss = loss_fn(log_rate, counts[torch.randint(0, 700, (64,))])",
                    ),
                ),
                where=("counts", "target", "label"),
                source="Humbatova 2020, Wrong labels for training data; Stack Overflow, two samplers draw other rows",
                hosts=LOOPS,
            ),
            Fault(
                "gradients are cleared between backward and step",
                "early call",
                (
                    (
                        "for p in net.parameters():\n    p.grad = None\nloss.backward()\n",
                        "loss.backward()\nfor p in net.parameters():\n    p.grad = None\n",
                    ),
                ),
                where=("grad", "step", "None"),
                source="PyTorch forum, zero_grad() between backward() and step(); TrainCheck",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "two experts and a gate",
        "mixture of experts",
        setup="""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(239)
x_train = 4 * torch.rand(512, 1) - 2
y_train = torch.where(x_train > 0, torch.sin(3 * x_train), 0.5 * x_train ** 2)

class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
    def forward(self, x):
        return self.net(x)

class MoE(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.experts = nn.ModuleList([Expert() for _ in range(n)])
        self.gate = nn.Linear(1, n)
    def forward(self, x):
        weights = F.softmax(self.gate(x), dim=-1)
        outputs = torch.cat([expert(x) for expert in self.experts], dim=-1)
        balance = weights.mean(0).pow(2).sum()
        return (weights * outputs).sum(dim=-1, keepdim=True), balance

moe = MoE()
optimizer = torch.optim.Adam(moe.parameters(), lr=0.02)
""",
        forward="""
rows = torch.randperm(512)[:128]
prediction, balance = moe(x_train[rows])
loss = F.mse_loss(prediction, y_train[rows]) + 0.01 * balance
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=120,
        faults=(
            Fault(
                "the gate chooses among the rows",
                "wrong dimension",
                (("F.softmax(self.gate(x), dim=-1)", "F.softmax(self.gate(x), dim=0)"),),
                where=("softmax", "dim", "gate"),
                source="Stack Overflow, softmax over the wrong dimension; NeuraLint",
            ),
            Fault(
                "the gate's choice is rounded",
                "cut",
                (("weights = F.softmax(self.gate(x), dim=-1)", "weights = F.softmax(self.gate(x), dim=-1).round()"),),
                where=("round", "gate"),
                source="PyTorch forum, round() has no gradient; Stack Overflow, hard gates",
            ),
            Fault(
                "experts in a list that Python keeps",
                "unregistered",
                (("nn.ModuleList([Expert() for _ in range(n)])", "[Expert() for _ in range(n)]"),),
                where=("experts", "Expert", "net"),
                source="PyTorch forum, modules in a Python list are not registered",
            ),
            Fault(
                "the experts' mean over all rows",
                "wrong dimension",
                (
                    (
                        "(weights * outputs).sum(dim=-1, keepdim=True)",
                        "(weights * outputs).sum(dim=0, keepdim=True).sum(-1, keepdim=True)",
                    ),
                    ("F.mse_loss(prediction, y_train[rows])", "F.mse_loss(prediction.expand(128, 1), y_train[rows])"),
                ),
                where=("sum", "dim", "expand"),
                source="NeuraLint; Stack Overflow, sum over the batch",
            ),
        ),
    ),
    Program(
        "digits as patches",
        "vision transformer",
        setup="""
import torch
from torch import nn

torch.manual_seed(241)
PATCH, SIDE, D = 4, 12, 32
stencils = (torch.rand(4, SIDE, SIDE) < 0.35).float()

def digits(n):
    y = torch.randint(0, 4, (n,))
    return (stencils[y] + 0.4 * torch.randn(n, SIDE, SIDE)).unsqueeze(1), y

class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(1, D, PATCH, stride=PATCH)
    def forward(self, img):
        return self.proj(img).flatten(2).transpose(1, 2)

class ViT(nn.Module):
    def __init__(self, depth=2, heads=4):
        super().__init__()
        self.patch_embed = PatchEmbed()
        n_patches = (SIDE // PATCH) ** 2
        self.cls_token = nn.Parameter(0.02 * torch.randn(1, 1, D))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, n_patches + 1, D))
        layer = nn.TransformerEncoderLayer(D, heads, 2 * D, dropout=0.1, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(D)
        self.head = nn.Linear(D, 4)
    def forward(self, img):
        x = self.patch_embed(img)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x)[:, 0]))

vit = ViT()
optimizer = torch.optim.AdamW(vit.parameters(), lr=2e-3, weight_decay=0.05)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
""",
        forward="""
img, y = digits(32)
loss = criterion(vit(img), y)
""",
        update="""
optimizer.zero_grad(set_to_none=True)
loss.backward()
nn.utils.clip_grad_norm_(vit.parameters(), 1.0)
optimizer.step()
""",
        steps=50,
        faults=(
            Fault(
                "pictures and patches change places in the encoder",
                "wrong dimension",
                (
                    (
                        "batch_first=True, norm_first",
                        "batch_first=False, norm_first",
                    ),
                ),
                where=("batch_first", "blocks", "attn", "dim"),
                source="Stack Overflow, batch_first of TransformerEncoderLayer is False by default; Jain 2023",
            ),
            Fault(
                "places of the patches are no parameter",
                "no optimizer",
                (
                    (
                        "self.pos_embed = nn.Parameter(0.02 * torch.randn(1, n_patches + 1, D))",
                        "self.pos_embed = (0.02 * torch.randn(1, n_patches + 1, D)).requires_grad_()",
                    ),
                ),
                where=("pos_embed", r"\(1, 10, 32\)"),
                source="PyTorch forum, a tensor with requires_grad is no nn.Parameter",
            ),
            Fault(
                "the head is of zeros, and so is its input",
                "initialization",
                (("vit = ViT()\n", "vit = ViT()\nfor p in vit.parameters():\n    nn.init.zeros_(p)\n"),),
                where=("weight", "zeros_", "head", "patch_embed"),
                source="DeepFD, improper weight initialization; Humbatova 2020, Wrong weights initialisation",
            ),
            Fault(
                "a smoothing of nine tenths",
                "target",
                (("label_smoothing=0.05", "label_smoothing=0.95"),),
                where=("smoothing",),
                source="Humbatova 2020, Wrong loss function; Stack Overflow, label_smoothing is 1 - confidence",
            ),
            Fault(
                "the encoder drops nearly everything",
                "dropout",
                (("dropout=0.1, activation", "dropout=0.95, activation"),),
                where=("dropout", "blocks"),
                source="Humbatova 2020, Wrong layer arguments; Stack Overflow, dropout's p is what is dropped",
            ),
        ),
    ),
    Program(
        "clipped policy of a lander",
        "policy gradient",
        setup="""
from dataclasses import dataclass
import torch
from torch import nn, optim
from torch.distributions import Normal

torch.manual_seed(251)
@dataclass
class PPO:
    clip: float = 0.2
    lr: float = 8e-3
    entropy: float = 1e-3
    rollout: int = 64
    inner: int = 4

ppo = PPO()
class Lander(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
        self.v = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
        self.log_std = nn.Parameter(torch.full((1,), -0.5))
    def dist(self, s):
        return Normal(self.pi(s).squeeze(1), self.log_std.exp())

ac = Lander()
opt = optim.Adam(ac.parameters(), lr=ppo.lr)
mean_rewards = []

def collect():
    s = 2 * torch.rand(ppo.rollout, 2) - 1
    with torch.no_grad():
        dist = ac.dist(s)
        a = dist.sample()
        reward = 1 - (a - s[:, 0] + 0.5 * s[:, 1]).pow(2)
        return s, a, dist.log_prob(a), reward
""",
        forward="""
if step % ppo.inner == 0:
    s, a, old_logp, reward = collect()
    mean_rewards.append(reward.mean().item())
dist, value = ac.dist(s), ac.v(s).squeeze(1)
advantage = reward - value.detach()
advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
ratio = (dist.log_prob(a) - old_logp).exp()
surrogate = torch.min(ratio * advantage, ratio.clamp(1 - ppo.clip, 1 + ppo.clip) * advantage)
loss = -surrogate.mean() + 0.5 * (value - reward).pow(2).mean() - ppo.entropy * dist.entropy().mean()
""",
        update="""
opt.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(ac.parameters(), 0.5)
opt.step()
def report():
    return [round(m, 3) for m in mean_rewards[::6]]
""",
        steps=120,
        faults=(
            Fault(
                "the surrogate is minimised",
                "sign",
                (("loss = -surrogate.mean()", "loss = surrogate.mean()"),),
                where=("surrogate", "min", "loss"),
                source="Nikanjam 2022, Faults in deep RL: wrong sign of the policy gradient",
                hosts=LOOPS,
            ),
            Fault(
                "the ratio is of numbers",
                "cut",
                (
                    (
                        "ratio = (dist.log_prob(a) - old_logp).exp()",
                        "ratio = (dist.log_prob(a) - old_logp).exp().detach()",
                    ),
                ),
                where=("pi", "log_std", "detach", "ratio"),
                source="Nikanjam 2022, Faults in deep RL; Stack Overflow, PPO's ratio is detached",
            ),
            Fault(
                "the value of a column against rewards of a row",
                "broadcast",
                (("ac.v(s).squeeze(1)", "ac.v(s)"),),
                where=("value", "sub", "reward"),
                source="Stack Overflow, actor-critic, (n,) minus (n, 1); NeuraLint",
            ),
            Fault(
                "the deviation is not in the optimizer",
                "no optimizer",
                (
                    (
                        "optim.Adam(ac.parameters(), lr=ppo.lr)",
                        "optim.Adam([*ac.pi.parameters(), *ac.v.parameters()], lr=ppo.lr)",
                    ),
                ),
                where=("log_std",),
                source="PyTorch forum, log_std is not passed to the optimizer; Nikanjam 2022",
            ),
            Fault(
                "entropy is worth a thousand rewards",
                "none found",
                (("entropy: float = 1e-3", "entropy: float = 1e3"),),
                where=("entropy", "log_std"),
                source="Nikanjam 2022, Faults in deep RL: wrong exploration",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "picture that is painted by gradients",
        "input optimisation",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(257)
features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ELU(), nn.Conv2d(8, 8, 3, padding=1)).eval()
features.requires_grad_(False)
content = torch.rand(1, 3, 16, 16)
style = torch.rand(1, 3, 16, 16) * torch.tensor([1.0, 0.3, 0.1]).view(1, 3, 1, 1)

def gram(f):
    b, c, h, w = f.shape
    f = f.reshape(b, c, h * w)
    return f @ f.transpose(1, 2) / (h * w)

with torch.no_grad():
    content_features, style_gram = features(content), gram(features(style))
canvas = torch.rand(1, 3, 16, 16, requires_grad=True)
painter = torch.optim.Adam([canvas], lr=0.02)
""",
        forward="""
f = features(canvas)
content_loss = F.mse_loss(f, content_features)
style_loss = F.mse_loss(gram(f), style_gram)
loss = content_loss + 20 * style_loss
""",
        update="""
painter.zero_grad()
loss.backward()
painter.step()
with torch.no_grad():
    canvas.clamp_(0, 1)
""",
        steps=80,
        faults=(
            Fault(
                "a clamped copy is painted on",
                "no optimizer",
                (
                    (
                        "with torch.no_grad():\n    canvas.clamp_(0, 1)",
                        "canvas = canvas.detach().clamp(0, 1).requires_grad_()",
                    ),
                ),
                where=("canvas", r"\(1, 3, 16, 16\)"),
                source="PyTorch forum, the optimizer holds the old tensor after an out-of-place change; style tutorial",
                hosts=LOOPS,
            ),
            Fault(
                "the optimizer paints the net",
                "no optimizer",
                (("torch.optim.Adam([canvas], lr=0.02)", "torch.optim.Adam(features.parameters(), lr=0.02)"),),
                where=("canvas", r"\(1, 3, 16, 16\)"),
                source="PyTorch forum, wrong parameters are passed to the optimizer; neural style tutorial",
            ),
            Fault(
                "the canvas loses its gradient on its way to a device",
                "no gradient",
                (("f = features(canvas)", "f = features(canvas.data)"),),
                where=("canvas", "data"),
                source="Stack Overflow, .data cuts the graph; PyTorch forum, no leaf after .to(device)",
            ),
            Fault(
                "the optimizer steps uphill",
                "sign",
                (
                    (
                        "painter = torch.optim.Adam([canvas], lr=0.02)",
                        "painter = torch.optim.Adam([canvas], lr=0.02, maximize=True)",
                    ),
                ),
                where=("maximi", "Adam", "canvas"),
                source="Humbatova 2020, Wrong optimizer setting; PyTorch docs, maximize",
                hosts=LOOPS,
            ),
            Fault(
                "the style is computed and not painted",
                "unused",
                (("loss = content_loss + 20 * style_loss", "loss = content_loss"),),
                where=("style_loss", "mse_loss"),
                source="Humbatova 2020, Wrong loss function calculation: a forgotten term",
            ),
        ),
    ),
)
