"""Faults of networks that draw samples: a VAE with a distribution, a hinge GAN, diffusion, a flow of couplings."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "bars by a vae of distributions",
        "VAE",
        setup="""
import torch
from torch import nn
from torch.distributions import Bernoulli, Normal, kl_divergence

torch.manual_seed(17)
def bars(n):
    rows, cols = torch.rand(2, n, 6) < 0.25
    return (rows[:, :, None] | cols[:, None, :]).float().view(n, 36)

class VAE(nn.Module):
    def __init__(self, n_in=36, n_hidden=64, n_latent=12):
        super().__init__()
        self.prior = Normal(torch.zeros(n_latent), torch.ones(n_latent))
        self.enc = nn.Sequential(nn.Linear(n_in, n_hidden), nn.LeakyReLU(0.1))
        self.loc = nn.Linear(n_hidden, n_latent)
        self.raw_scale = nn.Linear(n_hidden, n_latent)
        self.dec = nn.Sequential(nn.Linear(n_latent, n_hidden), nn.LeakyReLU(0.1), nn.Linear(n_hidden, n_in))

    def posterior(self, x):
        h = self.enc(x)
        return Normal(self.loc(h), nn.functional.softplus(self.raw_scale(h)) + 1e-3)

    def forward(self, x):
        q = self.posterior(x)
        z = q.rsample()
        return q, Bernoulli(logits=self.dec(z))

def elbo(model, x):
    q, px = model(x)
    log_lik = px.log_prob(x).sum(-1)
    kl = kl_divergence(q, model.prior).sum(-1)
    return (log_lik - kl).mean()

train_x = bars(512)
vae = VAE()
opt = torch.optim.Adam(vae.parameters(), lr=4e-3)
""",
        forward="""
x = train_x[torch.randint(0, 512, (64,))]
loss = -elbo(vae, x)
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
""",
        steps=100,
        faults=(
            Fault(
                "samples without a gradient beside a divergence with one",
                "cut",
                (("z = q.rsample()", "z = q.sample()"),),
                where=("sample", "loc", "raw_scale", "enc"),
                source="Stack Overflow, sample() and rsample() in a VAE; PyTorch docs, distributions",
            ),
            Fault(
                "the lower bound is minimised",
                "sign",
                (("loss = -elbo(vae, x)", "loss = elbo(vae, x)"),),
                where=("elbo", "loss", "mean"),
                source="Humbatova 2020, Wrong loss function calculation; Stack Overflow, negative ELBO",
                hosts=LOOPS,
            ),
            Fault(
                "the divergence is rewarded",
                "sign",
                (("return (log_lik - kl).mean()", "return (log_lik + kl).mean()"),),
                where=("kl", "elbo", "add"),
                source="Stack Overflow, the KL divergence of a VAE has the wrong sign",
                hosts=LOOPS,
            ),
            Fault(
                "probabilities of a sigmoid as logits",
                "loss input",
                (("Bernoulli(logits=self.dec(z))", "Bernoulli(logits=torch.sigmoid(self.dec(z)))"),),
                where=("sigmoid", "dec", "binary_cross_entropy_with_logits"),
                source="PyTorch forum, Bernoulli(logits=) of probabilities; Humbatova 2020, redundant sigmoid",
            ),
            Fault(
                "pixels of 0 to 255 in a bernoulli",
                "target",
                (
                    ("train_x = bars(512)", "train_x = 255 * bars(512)"),
                    ("Bernoulli(logits=self.dec(z))", "Bernoulli(logits=self.dec(z), validate_args=False)"),
                ),
                where=("train_x", "input", "target", "enc", "binary_cross_entropy"),
                source="Stack Overflow, a VAE's loss is negative because pixels are not divided by 255",
            ),
            Fault(
                "the mean of pixels beside the sum of latents",
                "none found",
                (("px.log_prob(x).sum(-1)", "px.log_prob(x).mean(-1)"),),
                where=("kl", "mean", "log_lik", "posterior"),
                source="Stack Overflow, posterior collapse: reconstruction is averaged and KL summed; Humbatova 2020",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "hinge gan of waves",
        "GAN",
        setup="""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(19)
LENGTH, LATENT = 16, 6
cfg = {"lr_g": 2e-3, "lr_d": 2e-3, "betas": (0.5, 0.99), "batch": 48}
t = torch.linspace(0, 2 * math.pi, LENGTH)

def real_waves(n):
    return torch.rand(n, 1) * torch.sin(t + 2 * math.pi * torch.rand(n, 1)) + 0.02 * torch.randn(n, LENGTH)

class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(LATENT, 64)
        self.norm = nn.BatchNorm1d(64)
        self.to_wave = nn.Linear(64, LENGTH)
    def forward(self, z):
        return torch.tanh(self.to_wave(F.relu(self.norm(self.fc(z)))))

class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.utils.parametrizations.spectral_norm(nn.Conv1d(1, 16, 5, padding=2))
        self.score = nn.Linear(16 * LENGTH, 1)
    def forward(self, w):
        h = F.leaky_relu(self.conv(w.unsqueeze(1)), 0.2)
        return self.score(h.flatten(1)).squeeze(1)

G, D = Generator(), Critic()
g_opt = torch.optim.Adam(G.parameters(), lr=cfg["lr_g"], betas=cfg["betas"])
d_opt = torch.optim.Adam(D.parameters(), lr=cfg["lr_d"], betas=cfg["betas"])
""",
        forward="""
real = real_waves(cfg["batch"])
fake = G(torch.randn(cfg["batch"], LATENT))
d_loss = F.relu(1 - D(real)).mean() + F.relu(1 + D(fake.detach())).mean()
""",
        update="""
d_opt.zero_grad()
d_loss.backward()
d_opt.step()
g_loss = -D(fake).mean()
g_opt.zero_grad()
g_loss.backward()
g_opt.step()
loss = d_loss.detach()
""",
        steps=80,
        faults=(
            Fault(
                "the generator's waves are detached for its own loss",
                "several networks",
                (("g_loss = -D(fake).mean()", "g_loss = -D(fake.detach()).mean()"),),
                where=("fc", "to_wave", "Generator", "detach"),
                source="PyTorch forum, fake.detach() in the generator's loss; GAN hacks",
            ),
            Fault(
                "the critic's loss reaches the generator",
                "several networks",
                (("D(fake.detach())).mean()", "D(fake)).mean()"),),
                where=("fc", "to_wave", "Generator", "fake", "detach", "second time"),
                source="PyTorch DCGAN tutorial; PyTorch forum, missing detach() in the critic's step",
            ),
            Fault(
                "the generator wants low scores",
                "sign",
                (("g_loss = -D(fake).mean()", "g_loss = D(fake).mean()"),),
                where=("g_loss", "mean", "score"),
                source="Stack Overflow, sign of the generator's loss; Humbatova 2020, Wrong loss function calculation",
                hosts=LOOPS,
            ),
            Fault(
                "real and generated waves get one label",
                "several networks",
                (("F.relu(1 + D(fake.detach())).mean()", "F.relu(1 - D(fake.detach())).mean()"),),
                where=("d_loss", "relu", "fake", "label"),
                source="Stack Overflow, both halves of the discriminator's batch get the label 1; Humbatova 2020",
                hosts=LOOPS,
            ),
            Fault(
                "gradients of the critic are not cleared",
                "accumulated gradients",
                (("d_opt.zero_grad()\n", ""),),
                where=("conv", "score", "Critic", "d_opt"),
                source="PyTorch DCGAN tutorial, netD.zero_grad(); TrainCheck",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "diffusion of a line with two modes",
        "diffusion",
        setup="""
import math
import torch
from torch import nn

torch.manual_seed(23)
N_STEPS = 50
betas = torch.linspace(1e-4, 0.15, N_STEPS)
alphas = 1.0 - betas
alphas_bar = torch.cumprod(alphas, dim=0)

def dataset(n):
    return torch.where(torch.rand(n, 1) < 0.4, -1.2, 0.9) + 0.1 * torch.randn(n, 1)

def time_features(i, dim=16):
    freqs = torch.exp(-math.log(1000) * torch.arange(dim // 2) / (dim // 2))
    angles = i.float()[:, None] * freqs[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)

class Denoiser(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.inp = nn.Linear(1, width)
        self.time_mlp = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, width))
        self.mid = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)
        self.act = nn.SiLU()
    def forward(self, x, i):
        h = self.act(self.inp(x) + self.time_mlp(time_features(i)))
        return self.out(self.act(self.mid(h)) + h)

class EMA:
    def __init__(self, model, decay=0.95):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}
    def update(self, model):
        for k, v in model.named_parameters():
            self.shadow[k].mul_(self.decay).add_(v.detach(), alpha=1 - self.decay)

denoiser = Denoiser()
ema = EMA(denoiser)
optim = torch.optim.AdamW(denoiser.parameters(), lr=3e-3)

def q_sample(x0, i, noise):
    scale = alphas_bar[i].unsqueeze(1)
    return scale.sqrt() * x0 + (1 - scale).sqrt() * noise
""",
        forward="""
x0 = dataset(128)
i = torch.randint(0, N_STEPS, (128,))
noise = torch.randn_like(x0)
predicted = denoiser(q_sample(x0, i, noise), i)
loss = nn.functional.mse_loss(predicted, noise)
""",
        update="""
optim.zero_grad()
loss.backward()
optim.step()
ema.update(denoiser)
""",
        steps=120,
        faults=(
            Fault(
                "predicted noise of a row against a column",
                "broadcast",
                (("mse_loss(predicted, noise)", "mse_loss(predicted.squeeze(1), noise)"),),
                where=("mse_loss", "predicted", "noise"),
                source="Stack Overflow, using a target size that is different to the input size; NeuraLint",
            ),
            Fault(
                "the time is not told to the net",
                "unused",
                (("self.inp(x) + self.time_mlp(time_features(i))", "self.inp(x)"),),
                where=("time_mlp",),
                source="PyTorch forum, find_unused_parameters; TrainCheck",
            ),
            Fault(
                "other noise than was added",
                "data",
                (
                    (
                        "predicted = denoiser(q_sample(x0, i, noise), i)",
                        "predicted = denoiser(q_sample(x0, i, torch.randn_like(x0)), i)",
                    ),
                ),
                where=("target", "noise"),
                source="Stack Overflow, a diffusion's loss stays at 1: the target is another noise; Humbatova 2020",
                hosts=LOOPS,
            ),
            Fault(
                "the step comes before the backward",
                "early call",
                (("loss.backward()\noptim.step()", "optim.step()\nloss.backward()"),),
                where=("step", "backward", "optim"),
                source="PyTorch forum, optimizer.step() before backward(); Humbatova 2020, Wrong order of calls",
                hosts=LOOPS,
            ),
            Fault(
                "the averaged weights are what is stepped",
                "no optimizer",
                (("torch.optim.AdamW(denoiser.parameters()", "torch.optim.AdamW(list(ema.shadow.values())"),),
                where=("inp", "mid", "out", "time_mlp", "Denoiser"),
                source="Hugging Face forum, the optimizer holds copies of the parameters; TrainCheck",
            ),
            Fault(
                "noise with a negative variance",
                "nan",
                (("(1 - scale).sqrt() * noise", "(scale - 1).sqrt() * noise"),),
                where=("sqrt", "scale", "betas"),
                source="DeepLocalize, numerical error; Humbatova 2020, NaN from a square root",
            ),
        ),
    ),
    Program(
        "couplings of a spiral",
        "normalizing flow",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(29)
def spiral(n):
    a = 3.0 * torch.rand(n).sqrt() + 0.5
    return torch.stack([a * torch.cos(2 * a), a * torch.sin(2 * a)], 1) / 2 + 0.04 * torch.randn(n, 2)

class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, dim=1)
        s = torch.tanh(s)
        b = b * torch.exp(s) + t
        out = torch.cat([b, a] if self.flip else [a, b], dim=1)
        return out, s.sum(dim=1)

class Flow(nn.Module):
    def __init__(self, depth=6):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(flip=bool(k % 2)) for k in range(depth))
        self.base = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
    def log_prob(self, x):
        log_det = torch.zeros(len(x))
        for layer in self.layers:
            x, ld = layer(x)
            log_det = log_det + ld
        return self.base.log_prob(x) + log_det

flow = Flow()
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
lr_scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[60, 90], gamma=0.3)
""",
        forward="""
loss = -flow.log_prob(spiral(128)).mean()
""",
        update="""
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(flow.parameters(), 10.0)
optimizer.step()
lr_scheduler.step()
""",
        steps=110,
        faults=(
            Fault(
                "the volume is not counted",
                "unused",
                (("return self.base.log_prob(x) + log_det", "return self.base.log_prob(x)"),),
                where=("log_det", "ld", "sum"),
                source="Humbatova 2020, Wrong loss function calculation: a forgotten term",
            ),
            Fault(
                "the volume is subtracted",
                "sign",
                (("return self.base.log_prob(x) + log_det", "return self.base.log_prob(x) - log_det"),),
                where=("log_det", "sub", "log_prob"),
                source="normflows issues, sign of the log determinant; Humbatova 2020",
                hosts=LOOPS,
            ),
            Fault(
                "volumes of the whole batch are added to each row",
                "wrong dimension",
                (("return out, s.sum(dim=1)", "return out, s.sum()"),),
                where=("sum", "log_det", "ld"),
                source="normflows issues, log determinant is summed over the batch; NeuraLint",
                hosts=LOOPS,
            ),
            Fault(
                "couplings in a plain list",
                "unregistered",
                (
                    (
                        "nn.ModuleList(Coupling(flip=bool(k % 2)) for k in range(depth))",
                        "[Coupling(flip=bool(k % 2)) for k in range(depth)]",
                    ),
                    (
                        "super().__init__()\n        self.layers",
                        "super().__init__()\n        self.gain = nn.Parameter(torch.zeros(2))\n        self.layers",
                    ),
                    (
                        "log_det = torch.zeros(len(x))",
                        "x = x * self.gain.exp()\n        log_det = self.gain.sum()",
                    ),
                ),
                where=("layers", "Coupling", "net"),
                source="PyTorch forum, modules in a Python list are not registered",
            ),
            Fault(
                "couplings whose last layer explodes",
                "initialization",
                (
                    (
                        "flow = Flow()\n",
                        "flow = Flow()\nfor m in flow.modules():\n    if isinstance(m, nn.Linear):\n"
                        "        nn.init.normal_(m.weight, std=10.0)\n",
                    ),
                ),
                where=("weight", "net", "std"),
                source="DeepFD, improper weight initialization; Humbatova 2020, Wrong weights initialisation",
            ),
        ),
    ),
)
