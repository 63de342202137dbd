"""Variational autoencoders, flows and contrastive learning."""

from tests.doctor.program import Program

GAUSSIAN = Program(
    "Gaussian VAE",
    "VAE",
    """
import torch
from torch import nn
from torch.distributions import Independent, Normal, kl_divergence

torch.manual_seed(200)
data = torch.randn(256, 2) @ torch.randn(2, 12) + 0.1 * torch.randn(256, 12)
data = (data - data.mean(0)) / data.std(0)
encoder = nn.Sequential(nn.Linear(12, 32), nn.SiLU(), nn.Linear(32, 4))
decoder = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 12))
log_scale = nn.Parameter(torch.zeros(12))
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), log_scale], lr=1e-2)
prior = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
""",
    """
x = data[torch.randint(256, (64,))]
mean, raw = encoder(x).chunk(2, dim=1)
posterior = Independent(Normal(mean, nn.functional.softplus(raw) + 1e-4), 1)
z = posterior.rsample()
likelihood = Independent(Normal(decoder(z), log_scale.exp()), 1).log_prob(x)
elbo = likelihood - kl_divergence(posterior, prior)
loss = -elbo.mean()
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

BERNOULLI = Program(
    "beta-VAE of pictures with a warm-up of the divergence",
    "VAE",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(201)

def pictures(n):
    image = torch.zeros(n, 1, 8, 8)
    row = torch.randint(1, 7, (n,))
    image[torch.arange(n), 0, row] = 1.0
    return image

class ConvVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 4, 2, 1), nn.ReLU(), nn.Flatten(),
        )
        self.moments = nn.Linear(64, 2 * 3)
        self.up = nn.Sequential(
            nn.Linear(3, 64), nn.ReLU(), nn.Unflatten(1, (16, 2, 2)),
            nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1),
        )

    def forward(self, x):
        mu, logvar = self.moments(self.down(x)).chunk(2, 1)
        z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)
        return self.up(z), mu, logvar

vae = ConvVAE()
optimizer = torch.optim.AdamW(vae.parameters(), lr=5e-3)
""",
    """
x = pictures(24)
logits, mu, logvar = vae(x)
beta = min(1.0, step / 20)
rebuilt = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum((1, 2, 3)).mean()
divergence = 0.5 * (mu**2 + logvar.exp() - logvar - 1).sum(1).mean()
loss = rebuilt + beta * divergence
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

QUANTISED = Program(
    "autoencoder with a codebook",
    "VAE",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(202)
centres = torch.randn(8, 10)

class VQ(nn.Module):
    def __init__(self, codes=16, dim=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(10, 24), nn.GELU(), nn.Linear(24, dim))
        self.codebook = nn.Embedding(codes, dim)
        self.dec = nn.Sequential(nn.Linear(dim, 24), nn.GELU(), nn.Linear(24, 10))

    def forward(self, x):
        z = F.normalize(self.enc(x), dim=1)
        with torch.no_grad():
            index = torch.cdist(z, self.codebook.weight).argmin(1)
        q = self.codebook(index)
        commitment = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        return self.dec(z + (q - z).detach()), commitment

vq = VQ()
with torch.no_grad():
    vq.codebook.weight.copy_(F.normalize(vq.enc(centres.repeat(2, 1) + 0.1 * torch.randn(16, 10)), dim=1))
optimizer = torch.optim.Adam(vq.parameters(), lr=1e-2)
""",
    """
x = centres[torch.randint(8, (64,))] + 0.1 * torch.randn(64, 10)
x_hat, commitment = vq(x)
loss = F.mse_loss(x_hat, x) + commitment
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

COUPLING = Program(
    "moons by coupling layers",
    "flow",
    """
import math
import torch
from torch import nn

torch.manual_seed(210)

def moons(n):
    t = math.pi * torch.rand(n)
    side = (torch.arange(n) % 2).float()
    x = t.cos() * (1 - 2 * side) + side
    y = t.sin() * (1 - 2 * side) + 0.5 * side
    return torch.stack([x, y], 1) + 0.08 * torch.randn(n, 2)

class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 2))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x.chunk(2, 1)
        if self.flip:
            a, b = b, a
        scale, shift = self.net(a).chunk(2, 1)
        scale = torch.tanh(scale)
        b = b * scale.exp() + shift
        return torch.cat([b, a] if self.flip else [a, b], 1), scale.sum(1)

flow = nn.ModuleList(Coupling(i % 2 == 1) for i in range(4))
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
""",
    """
x = moons(96)
logdet = 0.0
for layer in flow:
    x, change = layer(x)
    logdet = logdet + change
log_likelihood = -0.5 * (x**2).sum(1) - math.log(2 * math.pi) + logdet
loss = -log_likelihood.mean()
""",
    """
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
optimizer.step()
""",
)

PLANAR = Program(
    "posterior by planar flows",
    "flow",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(211)

class Planar(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(0.3 * torch.randn(2))
        self.u = nn.Parameter(0.3 * torch.randn(2))
        self.b = nn.Parameter(torch.zeros(()))

    def forward(self, z):
        wu = self.w @ self.u
        u = self.u + (F.softplus(wu) - 1 - wu) * self.w / (self.w @ self.w)
        inner = torch.tanh(z @ self.w + self.b)
        psi = (1 - inner**2)[:, None] * self.w
        return z + u * inner[:, None], torch.log((1 + psi @ u).abs() + 1e-6)

def energy(z):
    return 0.5 * ((z[:, 1] - torch.sin(1.5 * z[:, 0])) / 0.4) ** 2 + 0.1 * z[:, 0] ** 2

steps_of_flow = nn.ModuleList(Planar() for _ in range(6))
optimizer = torch.optim.RMSprop(steps_of_flow.parameters(), lr=1e-2)
""",
    """
z = torch.randn(128, 2)
total = torch.zeros(128)
for f in steps_of_flow:
    z, logdet = f(z)
    total = total + logdet
loss = (energy(z) - total).mean()
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

AFFINE = Program(
    "masked autoregressive density",
    "flow",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(212)
D, H = 4, 32
mask_in = (torch.arange(H)[:, None] % (D - 1) >= torch.arange(D)[None, :]).float()
mask_out = (torch.arange(D)[:, None] > torch.arange(H)[None, :] % (D - 1)).float().repeat(2, 1)

class Made(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(D, H)
        self.outer = nn.Linear(H, 2 * D)

    def forward(self, x):
        h = F.relu(F.linear(x, self.inner.weight * mask_in, self.inner.bias))
        mu, log_sigma = F.linear(h, self.outer.weight * mask_out, self.outer.bias).chunk(2, 1)
        return (x - mu) * torch.exp(-log_sigma), -log_sigma.sum(1)

made = Made()
mixing = torch.randn(D, D).tril() + torch.eye(D)
optimizer = torch.optim.Adam(made.parameters(), lr=1e-2, weight_decay=1e-5)
""",
    """
x = torch.randn(128, D) @ mixing.t()
u, logdet = made(x)
loss = (0.5 * u.pow(2).sum(1) - logdet).mean()
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

SIMCLR = Program(
    "two views of a row, normalised temperature",
    "contrastive",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(220)
backbone = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 16))
projector = nn.Sequential(nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.SGD([*backbone.parameters(), *projector.parameters()], lr=0.3, momentum=0.9, weight_decay=1e-5)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
hidden = torch.randn(5, 16)
""",
    """
clean = torch.randn(40, 5) @ hidden
views = torch.cat([clean + 0.6 * torch.randn(40, 16), clean + 0.6 * torch.randn(40, 16)])
z = F.normalize(projector(backbone(views)), dim=1)
similar = z @ z.t() / 0.3
similar = similar.masked_fill(torch.eye(80, dtype=torch.bool), float("-inf"))
partner = torch.cat([torch.arange(40, 80), torch.arange(40)])
loss = F.cross_entropy(similar, partner)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
scheduler.step()
""",
)

SIMSIAM = Program(
    "siamese views with a stop of the gradient",
    "contrastive",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(221)

class SimSiam(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16), nn.BatchNorm1d(16),
        )
        self.predictor = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 16))

    def forward(self, a, b):
        za, zb = self.encoder(a), self.encoder(b)
        pa, pb = self.predictor(za), self.predictor(zb)
        return -0.5 * (F.cosine_similarity(pa, zb.detach()).mean() + F.cosine_similarity(pb, za.detach()).mean())

simsiam = SimSiam()
optimizer = torch.optim.SGD(simsiam.parameters(), lr=0.1, momentum=0.9)
source = torch.randn(3, 12)
""",
    """
x = torch.randn(64, 3) @ source
loss = simsiam(x + 0.3 * torch.randn_like(x), x + 0.3 * torch.randn_like(x))
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

CLIP = Program(
    "pictures and captions",
    "contrastive",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(222)
to_picture, to_words = torch.randn(4, 20), torch.randn(4, 30)

class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.picture = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Linear(32, 8))
        self.caption = nn.Sequential(nn.Linear(30, 32), nn.GELU(), nn.Linear(32, 8, bias=False))
        self.logit_scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, picture, caption):
        p, c = F.normalize(self.picture(picture), dim=-1), F.normalize(self.caption(caption), dim=-1)
        return self.logit_scale.exp() * p @ c.t()

towers = Towers()
optimizer = torch.optim.AdamW(towers.parameters(), lr=5e-3)
""",
    """
meaning = torch.randn(32, 4)
logits = towers(meaning @ to_picture, meaning @ to_words)
truth = torch.arange(32)
loss = (F.cross_entropy(logits, truth) + F.cross_entropy(logits.t(), truth)) / 2
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
with torch.no_grad():
    towers.logit_scale.clamp_(max=4.6)
""",
)

PROGRAMS = [GAUSSIAN, BERNOULLI, QUANTISED, COUPLING, PLANAR, AFFINE, SIMCLR, SIMSIAM, CLIP]
