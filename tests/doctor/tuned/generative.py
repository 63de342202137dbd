"""Fresh faults: generative models."""

from tests.doctor.program import Fault, Host, Program

ONE_CELL: tuple[Host, ...] = ("whole", "loop", "step", "function")
LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "stroke VAE",
        "VAE",
        setup="""
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(17)
angle = torch.rand(128, 1) * 3.1416
width = 0.5 + torch.rand(128, 1)
grid = torch.linspace(-2, 2, 8)
gx, gy = grid.repeat(8), grid.repeat_interleave(8)
distance = gx * torch.sin(angle) - gy * torch.cos(angle)
strokes = torch.exp(-((distance / (0.6 * width)) ** 2))

class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(64, 64)
        self.fc_mu = nn.Linear(64, 4)
        self.fc_logvar = nn.Linear(64, 4)
        self.fc3 = nn.Linear(4, 64)
        self.fc4 = nn.Linear(64, 64)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc_mu(h), self.fc_logvar(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + std * torch.randn_like(std)

    def decode(self, z):
        h = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h))

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar

vae = VAE()
optimizer = torch.optim.Adam(vae.parameters(), lr=3e-3)
""",
        forward="""
recon, mu, logvar = vae(strokes)
bce = F.binary_cross_entropy(recon, strokes, reduction="sum") / len(strokes)
kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1).mean()
loss = bce + kld
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=100,
        faults=(
            Fault(
                "vae sampled with torch.normal",
                "cut",
                (("return mu + std * torch.randn_like(std)", "return torch.normal(mu, std)"),),
                where=("normal", "fc1", "fc_mu", "std"),
                source="StackOverflow, VAE without the reparameterization trick",
            ),
            Fault(
                "vae kl left out",
                "unused",
                (("loss = bce + kld", "loss = bce"),),
                where=("kld", "logvar"),
                source="Humbatova 2020, Wrong loss function calculation: missing term",
            ),
            Fault(
                "vae kl with the wrong sign",
                "sign",
                (("kld = -0.5 *", "kld = 0.5 *"),),
                where=("kld", "sign", "logvar", "fc_mu"),
                source="StackOverflow, KL divergence of a VAE becomes negative",
                hosts=LOOPS,
            ),
            Fault(
                "vae tanh decoder",
                "output activation",
                (
                    ("return torch.sigmoid(self.fc4(h))", "return torch.tanh(self.fc4(h))"),
                    (
                        'F.binary_cross_entropy(recon, strokes, reduction="sum")',
                        'F.binary_cross_entropy(recon.clamp(0, 1), strokes, reduction="sum")',
                    ),
                ),
                where=("tanh", "fc4", "clamp"),
                source="Humbatova 2020, Wrong type of activation function (tanh for targets of 0 to 1)",
            ),
            Fault(
                "vae pixels of 0 to 255 with mse",
                "output activation",
                (
                    (
                        'F.binary_cross_entropy(recon, strokes, reduction="sum")',
                        'F.mse_loss(recon, 255 * strokes, reduction="sum")',
                    ),
                ),
                where=("sigmoid", "fc4", "strokes", "recon"),
                source="StackOverflow, autoencoder with sigmoid output for pixels 0..255; DeepFD 2022",
            ),
        ),
    ),
    Program(
        "ring GAN",
        "GAN",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(23)
G = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
D = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
adversarial = nn.BCEWithLogitsLoss()
optG = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.999))
optD = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.999))
ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
distances = []
""",
        forward="""
phi = 6.2832 * torch.rand(64)
real = torch.stack([2 + 0.5 * torch.cos(phi), -1 + 0.5 * torch.sin(phi)], dim=1)
fake = G(torch.randn(64, 4))
loss_d = adversarial(D(real), ones) + adversarial(D(fake.detach()), zeros)
""",
        update="""
optD.zero_grad()
loss_d.backward()
optD.step()
loss_g = adversarial(D(fake), ones)
optG.zero_grad()
loss_g.backward()
optG.step()
with torch.no_grad():
    missed = (fake.mean(0) - real.mean(0)).norm()
distances.append(missed.item())
""",
        steps=100,
        faults=(
            Fault(
                "gan generator told zero",
                "target",
                (("loss_g = adversarial(D(fake), ones)", "loss_g = adversarial(D(fake), zeros)"),),
                where=("loss_g", "zeros", "fake", "generator"),
                source="GAN hacks / PyTorch forum, generator with the discriminator's labels",
                hosts=LOOPS,
            ),
            Fault(
                "gan generator behind detach",
                "cut",
                (("loss_g = adversarial(D(fake), ones)", "loss_g = adversarial(D(fake.detach()), ones)"),),
                where=("detach", "fake", r"\bG\b", "optG"),
                source="PyTorch forum, generator does not learn: detached fake",
            ),
            Fault(
                "gan optimizer of the wrong network",
                "no optimizer",
                (("optG = torch.optim.Adam(G.parameters()", "optG = torch.optim.Adam(D.parameters()"),),
                where=(r"\bG\b", "optG"),
                source="Humbatova 2020, Wrong API usage; PyTorch forum, optimizer of the wrong network",
            ),
            Fault(
                "gan relu before the discriminator's loss",
                "output activation",
                (("nn.Linear(32, 1))", "nn.Linear(32, 1), nn.ReLU())"),),
                where=("relu", r"\bD\b"),
                source="DeepFD 2022, wrong activation of the last layer; GAN forum questions",
            ),
            Fault(
                "gan fake not detached",
                "second backward",
                (("D(fake.detach())", "D(fake)"),),
                where=("fake", "detach", "second time", "retain"),
                source="PyTorch forum, DCGAN without .detach(): backward a second time",
            ),
        ),
    ),
    Program(
        "affine coupling flow",
        "normalizing flow",
        setup="""
import math
import torch
import torch.nn as nn

torch.manual_seed(31)
u = torch.randn(256, 2)
data = torch.stack([u[:, 0], 0.6 * u[:, 0] ** 2 + 0.3 * u[:, 1] - 0.6], dim=1)

class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, dim=1)
        s = 2 * torch.tanh(s / 2)
        b = b * torch.exp(s) + t
        log_det = s.sum(dim=1)
        z = torch.cat([b, a], dim=1) if self.flip else torch.cat([a, b], dim=1)
        return z, log_det

flow = nn.ModuleList([Coupling(k % 2 == 1) for k in range(4)])
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
""",
        forward="""
z, log_det = data, torch.zeros(256)
for layer in flow:
    z, ld = layer(z)
    log_det = log_det + ld
log_prior = (-0.5 * z**2 - 0.5 * math.log(2 * math.pi)).sum(dim=1)
loss = -(log_prior + log_det).mean()
""",
        update="""
optimizer.zero_grad()
loss.backward()
torch.nn.utils.clip_grad_norm_(flow.parameters(), 10.0)
optimizer.step()
""",
        steps=80,
        faults=(
            Fault(
                "flow determinant left out",
                "unused",
                (("loss = -(log_prior + log_det).mean()", "loss = -log_prior.mean()"),),
                where=("log_det", r"\bld\b"),
                source="Humbatova 2020, Wrong loss function calculation: missing term; forum on RealNVP",
            ),
            Fault(
                "flow likelihood minimised",
                "sign",
                (("loss = -(log_prior + log_det).mean()", "loss = (log_prior + log_det).mean()"),),
                where=("sign", "maximi", "negative", "log_prior", "unbounded", "falls"),
                source="StackOverflow, minus forgotten before a log likelihood",
                hosts=LOOPS,
            ),
            Fault(
                "flow plain list of couplings",
                "unregistered",
                (
                    (
                        "flow = nn.ModuleList([Coupling(k % 2 == 1) for k in range(4)])",
                        "flow = nn.Module()\nflow.shift = nn.Parameter(torch.zeros(2))\nflow.couplings = "
                        "[Coupling(k % 2 == 1) for k in range(4)]",
                    ),
                    ("for layer in flow:", "for layer in flow.couplings:"),
                    ("z, log_det = data,", "z, log_det = data + flow.shift,"),
                ),
                where=("couplings", "coupling", r"net\."),
                source="Karpathy, layers in a plain list; PyTorch forum",
            ),
            Fault(
                "flow determinant of numbers",
                "cut",
                (("log_det = log_det + ld", "log_det = log_det + torch.tensor(ld.tolist())"),),
                where=("tolist", r"\bld\b", "log_det"),
                source="PyTorch forum, torch.tensor of a tensor's numbers cuts the graph",
            ),
            Fault(
                "flow rate of five",
                "rate too large",
                (("lr=5e-3", "lr=5.0"),),
                where=(r"\blr\b", "rate"),
                source="AUTOTRAINER 2021, exploding; DeepFD 2022, learning rate",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "denoising autoencoder",
        "autoencoder",
        setup="""
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(40)
basis = torch.randn(3, 30)
signals = torch.randn(192, 3) @ basis
signals = (signals - signals.mean(0)) / signals.std(0)
loader = DataLoader(signals, batch_size=64, shuffle=True)

encoder = nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 6))
decoder = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 30))
parameters = list(encoder.parameters()) + list(decoder.parameters())
optimizer = torch.optim.RMSprop(parameters, lr=2e-3)
criterion = nn.MSELoss()
losses = []
""",
        forward="""
for clean in loader:
    noisy = clean + 0.2 * torch.randn_like(clean)
    code = encoder(noisy)
    restored = decoder(code)
    loss = criterion(restored, clean)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        update="""
losses.append(loss.item())
""",
        steps=40,
        faults=(
            Fault(
                "denoiser relu at the output",
                "output activation",
                (("nn.Linear(40, 30))", "nn.Linear(40, 30), nn.ReLU())"),),
                where=("relu", "decoder"),
                source="DeepLocalize 2021 / StackOverflow, autoencoder with relu output for signed data",
                hosts=ONE_CELL,
            ),
            Fault(
                "denoiser optimizer without the encoder",
                "no optimizer",
                (
                    (
                        "parameters = list(encoder.parameters()) + list(decoder.parameters())",
                        "parameters = list(decoder.parameters())",
                    ),
                ),
                where=("encoder",),
                source="PyTorch forum, only one of two networks in the optimizer",
                hosts=ONE_CELL,
            ),
            Fault(
                "denoiser dead code",
                "dead units",
                (("nn.Linear(40, 6))", "nn.Linear(40, 6), nn.ReLU())\nnn.init.constant_(encoder[2].bias, -6.0)"),),
                where=("relu", "encoder", "code", "bias"),
                source="DeepLocalize 2021, dying relu; AUTOTRAINER 2021, dying ReLU",
                hosts=ONE_CELL,
            ),
            Fault(
                "denoiser dropout at the output",
                "dropout",
                (("nn.Linear(40, 30))", "nn.Linear(40, 30), nn.Dropout(0.5))"),),
                where=("dropout", "decoder"),
                source="StackOverflow, dropout after the last layer of a regression",
                hosts=ONE_CELL,
            ),
            Fault(
                "denoiser rate of zero point nine",
                "rate too large",
                (("lr=2e-3", "lr=0.9"),),
                where=(r"\blr\b", "rate"),
                source="Humbatova 2020, Suboptimal learning rate; DEFault",
                hosts=LOOPS,
            ),
            Fault(
                "denoiser list of losses with graphs",
                "kept graphs",
                (("losses.append(loss.item())", "losses.append(loss)"),),
                where=("losses", "item", "detach"),
                source="PyTorch FAQ, history accumulates across the training loop",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "echo with a hand-written RNN",
        "recurrent",
        setup="""
import torch

torch.manual_seed(50)
bits = torch.randint(0, 2, (200, 10)).float()
answer = (bits[:, 1:4].sum(dim=1) >= 2).long()
size = 24
Wx = (torch.randn(1, size) * 0.5).requires_grad_()
Wh = torch.nn.init.orthogonal_(torch.empty(size, size)).requires_grad_()
bh = torch.zeros(size, requires_grad=True)
Wo = (torch.randn(size, 2) / size**0.5).requires_grad_()
bo = torch.zeros(2, requires_grad=True)
weights = [Wx, Wh, bh, Wo, bo]
optimizer = torch.optim.SGD(weights, lr=0.3, momentum=0.8)
lengths = range(10)
""",
        forward="""
rows = torch.randperm(200)[:100]
h = torch.zeros(100, size)
for k in lengths:
    h = torch.tanh((2 * bits[rows, k : k + 1] - 1) @ Wx + h @ Wh + bh)
scores = h @ Wo + bo
loss = torch.nn.functional.cross_entropy(scores, answer[rows])
""",
        update="""
optimizer.zero_grad()
loss.backward()
torch.nn.utils.clip_grad_norm_(weights, 0.5)
optimizer.step()
""",
        steps=80,
        faults=(
            Fault(
                "echo recurrence without tanh and too large",
                "exploding",
                (
                    (
                        "torch.nn.init.orthogonal_(torch.empty(size, size)).requires_grad_()",
                        "torch.randn(size, size).requires_grad_()",
                    ),
                    (
                        "h = torch.tanh((2 * bits[rows, k : k + 1] - 1) @ Wx + h @ Wh + bh)",
                        "h = torch.relu((2 * bits[rows, k : k + 1] - 1) @ Wx + h @ Wh + bh)",
                    ),
                ),
                where=("Wh", r"\bh\b", r"\bbh\b", "loop", "relu"),
                source="AUTOTRAINER 2021, exploding gradients; Pascanu 2013; Humbatova 2020, Wrong weights "
                "initialization",
            ),
            Fault(
                "echo recurrent sigmoid with small weights",
                "vanishing",
                (
                    ("torch.nn.init.orthogonal_(torch.empty(size, size))", "(0.01 * torch.randn(size, size))"),
                    ("h = torch.tanh(", "h = torch.sigmoid("),
                ),
                where=("Wh", r"\bh\b", "sigmoid", "loop"),
                source="AUTOTRAINER 2021, vanishing gradients; DeepLocalize 2021",
            ),
            Fault(
                "echo detached in every iteration",
                "cut",
                (("+ h @ Wh + bh)", "+ h.detach() @ Wh + bh)"),),
                where=("detach", r"\bh\b", "Wh"),
                source="PyTorch forum, hidden state detached at every time step",
            ),
            Fault(
                "echo weights changed before backward",
                "inplace",
                (
                    (
                        "loss = torch.nn.functional.cross_entropy(scores, answer[rows])",
                        "loss = torch.nn.functional.cross_entropy(scores, answer[rows])\nwith torch.no_grad():\n    "
                        "Wh.clamp_(-1, 1)",
                    ),
                ),
                where=("Wh", "clamp_", "inplace"),
                source="PyTorch forum, 'one of the variables needed for gradient computation has been modified by "
                "an inplace operation'",
            ),
            Fault(
                "echo optimizer forgets the recurrent weights",
                "no optimizer",
                (("weights = [Wx, Wh, bh, Wo, bo]", "weights = [Wo, bo]"),),
                where=("Wh", "Wx", r"\bbh\b"),
                source="PyTorch forum, parameters missing in the optimizer's list",
            ),
        ),
    ),
)

PROBES = {
    "echo with a hand-written RNN": """
h=torch.zeros(200,size)
for k in lengths: h=torch.tanh((2*bits[:,k:k+1]-1)@Wx+h@Wh+bh)
score=((h@Wo+bo).argmax(1)==answer).float().mean()
""",
    "stroke VAE": "m,lv=vae.encode(strokes)\nscore=F.mse_loss(vae.decode(m),strokes)",
    "ring GAN": "score=(G(torch.randn(500,4)).mean(0)-torch.tensor([2.,-1.])).norm()",
    "affine coupling flow": """
zz, ll = data, torch.zeros(256)
for layer in (flow if isinstance(flow, nn.ModuleList) else flow.couplings):
    zz, l1 = layer(zz); ll = ll + l1
score = -((-0.5*zz**2-0.5*math.log(2*math.pi)).sum(1)+ll).mean()
""",
    "denoising autoencoder": "score=criterion(decoder(encoder(signals)),signals)",
}
