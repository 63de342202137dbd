"""Generators, autoencoders of distributions, agents: several networks, or samples."""

from tests.doctor.program import Fault, Program

LOOPS = ("whole", "loop", "function")

MOONS = Program(
    "points on a line by a GAN",
    "GAN",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(30)

def real_points(n=64):
    t = torch.randn(n, 1)
    return torch.cat([t, 2 * t + 1], 1) / 2 + 0.05 * torch.randn(n, 2)

class Generator(nn.Module):
    def __init__(self, z=4):
        super().__init__()
        self.z = z
        self.main = nn.Sequential(nn.Linear(z, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))

    def forward(self, n):
        return self.main(torch.randn(n, self.z))

class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1),
        )

    def forward(self, x):
        return self.main(x).view(-1)

G, D = Generator(), Critic()
opt_g = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=5e-3, betas=(0.5, 0.999))
real_label, fake_label = torch.ones(64), torch.zeros(64)
""",
    """
real = real_points()
fake = G(64)
d_real, d_fake = D(real), D(fake.detach())
loss_d = F.binary_cross_entropy_with_logits(d_real, real_label) + F.binary_cross_entropy_with_logits(d_fake, fake_label)
""",
    """
opt_d.zero_grad()
loss_d.backward()
opt_d.step()

loss = F.binary_cross_entropy_with_logits(D(fake), real_label)
opt_g.zero_grad()
loss.backward()
opt_g.step()
""",
    faults=(
        Fault(
            "generator's loss reads the detached sample",
            "several networks",
            (
                (
                    "F.binary_cross_entropy_with_logits(D(fake), real_label)",
                    "F.binary_cross_entropy_with_logits(D(fake.detach()), real_label)",
                ),
            ),
            (r"detach", r"\bG\b", r"main\.0", r"main\.2"),
            "PyTorch forum: generator does not learn, detach in the wrong step",
        ),
        Fault(
            "one forward of the sample for both losses",
            "second backward",
            (
                ("d_real, d_fake = D(real), D(fake.detach())", "d_real, d_fake = D(real), D(fake)"),
                (
                    "F.binary_cross_entropy_with_logits(D(fake), real_label)",
                    "F.binary_cross_entropy_with_logits(d_fake, real_label)",
                ),
            ),
            (r"d_fake", r"fake", r"loss_d"),
            "PyTorch forum and issue 36470: two losses of one GAN step",
        ),
        Fault(
            "critic is changed before the generator's backward",
            "inplace",
            (
                ("d_real, d_fake = D(real), D(fake.detach())", "d_real, d_fake = D(real), D(fake)"),
                ("loss_d.backward()\n", "loss_d.backward(retain_graph=True)\n"),
                (
                    "F.binary_cross_entropy_with_logits(D(fake), real_label)",
                    "F.binary_cross_entropy_with_logits(d_fake, real_label)",
                ),
            ),
            (r"opt_d", r"Adam", r"\bD\b", r"main\.\d"),
            "PyTorch forum: modified by an inplace operation, GAN since 1.5",
        ),
        Fault(
            "generator's optimizer holds the critic",
            "several networks",
            (("opt_g = torch.optim.Adam(G.parameters()", "opt_g = torch.optim.Adam(D.parameters()"),),
            (r"\bG\b", r"opt_g", r"main"),
            "TrainCheck; PyTorch forum: copy and paste of the optimizer",
        ),
        Fault(
            "critic's gradient is never zeroed",
            "accumulated gradients",
            (("opt_d.zero_grad()\n", ""),),
            (r"opt_d", r"\bD\b", r"main", r"zero_grad"),
            "Karpathy's common mistakes; Zhang 2018: API misuse",
            LOOPS,
        ),
        Fault(
            "swapped sign of the generator",
            "sign",
            (
                (
                    "loss = F.binary_cross_entropy_with_logits(D(fake), real_label)",
                    "loss = -F.binary_cross_entropy_with_logits(D(fake), real_label)",
                ),
            ),
            (r"\bneg\b", r"binary_cross_entropy_with_logits"),
            "Humbatova 2020: wrong loss function calculation; GAN hacks: flipped labels",
        ),
    ),
)

CODES = Program(
    "variational codes of rows",
    "VAE",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(31)
mixing = torch.randn(3, 20)
rows = torch.sigmoid(2 * torch.randn(300, 3) @ mixing)

class VAE(nn.Module):
    def __init__(self, latent=4):
        super().__init__()
        self.enc = nn.Linear(20, 40)
        self.mu = nn.Linear(40, latent)
        self.logvar = nn.Linear(40, latent)
        self.dec1 = nn.Linear(latent, 40)
        self.dec2 = nn.Linear(40, 20)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def forward(self, x):
        h = F.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = self.reparameterize(mu, logvar)
        return torch.sigmoid(self.dec2(F.relu(self.dec1(z)))), mu, logvar

vae = VAE()
optimizer = torch.optim.Adam(vae.parameters(), lr=1e-2)

def elbo(x_hat, x, mu, logvar):
    reconstruction = F.binary_cross_entropy(x_hat, x, reduction="sum") / len(x)
    divergence = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return reconstruction + divergence
""",
    """
x = rows[torch.randint(300, (64,))]
x_hat, mu, logvar = vae(x)
loss = elbo(x_hat, x, mu, logvar)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    faults=(
        Fault(
            "code is drawn by sample",
            "cut",
            (("return mu + torch.randn_like(std) * std", "return torch.distributions.Normal(mu, std).sample()"),),
            (r"sample", r"normal", r"\bmu\b", r"\bz\b", r"no_grad"),
            "PyTorch forum: sample instead of rsample in a VAE",
        ),
        Fault(
            "variance as it is",
            "nan",
            (("std = torch.exp(0.5 * logvar)", "std = logvar ** 0.5"),),
            (r"\bpow\b", r"\*\*", r"logvar", r"std"),
            "Islam 2019, DeepDiagnosis: root of a negative number",
        ),
        Fault(
            "tanh of the decoder with binary cross entropy",
            "output activation",
            (
                (
                    "torch.sigmoid(self.dec2(F.relu(self.dec1(z))))",
                    "torch.tanh(self.dec2(F.relu(self.dec1(z)))).clamp(0, 1)",
                ),
            ),
            (r"tanh", r"clamp", r"dec2"),
            "DeepFD: activation of the last layer; Stack Overflow: decoder's output and BCE",
        ),
        Fault(
            "a state loaded by assignment after the optimizer",
            "no optimizer",
            (
                (
                    "\ndef elbo(",
                    "vae.load_state_dict({k: v.clone() for k, v in vae.state_dict().items()}, assign=True)\n\n"
                    "def elbo(",
                ),
            ),
            (r"\benc\b", r"\bmu\b", r"dec1", r"dec2", r"logvar", r"load_state_dict"),
            "PyTorch documentation of load_state_dict(assign=True): make the optimizer afterwards",
        ),
        Fault(
            "divergence counts as a number",
            "cut",
            (
                (
                    "divergence = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()",
                    "divergence = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean().item()",
                ),
            ),
            (r"item", r"divergence", r"logvar"),
            "PyTorch forum: a term of the loss turned into a number by item()",
        ),
    ),
)

CORRIDOR = Program(
    "walk along a corridor",
    "deep Q-learning",
    """
import copy
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(32)
random.seed(32)
N_STATES, GAMMA = 7, 0.8

def one_hot(states):
    return F.one_hot(states, N_STATES).float()

memory = []
for _ in range(400):
    s, a = random.randrange(N_STATES), random.randrange(2)
    s2 = max(0, min(N_STATES - 1, s + (1 if a else -1)))
    memory.append((s, a, 1.0 if s2 == N_STATES - 1 else -0.1, s2, s2 == N_STATES - 1))

class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Linear(N_STATES, 32)
        self.layer2 = nn.Linear(32, 2)

    def forward(self, s):
        return self.layer2(F.relu(self.layer1(s)))

policy_net = QNetwork()
target_net = copy.deepcopy(policy_net)
for p in target_net.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.AdamW(policy_net.parameters(), lr=1e-2)
criterion = nn.SmoothL1Loss()
""",
    """
s, a, r, s2, done = (torch.tensor(column) for column in zip(*random.sample(memory, 64)))
q = policy_net(one_hot(s)).gather(1, a.unsqueeze(1)).squeeze(1)
with torch.no_grad():
    best = target_net(one_hot(s2)).max(1).values
expected = r + GAMMA * best * (~done)
loss = criterion(q, expected)
""",
    """
optimizer.zero_grad()
loss.backward()
torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
optimizer.step()
for mine, theirs in zip(target_net.parameters(), policy_net.parameters()):
    mine.data.lerp_(theirs.data, 0.1)
""",
    faults=(
        Fault(
            "target network is trained along",
            "several networks",
            (
                ("for p in target_net.parameters():\n    p.requires_grad_(False)\n", ""),
                (
                    "torch.optim.AdamW(policy_net.parameters(), lr=1e-2)",
                    "torch.optim.AdamW(list(policy_net.parameters()) + list(target_net.parameters()), lr=1e-2)",
                ),
                (
                    "with torch.no_grad():\n    best = target_net(one_hot(s2)).max(1).values\n",
                    "best = target_net(one_hot(s2)).max(1).values\n",
                ),
            ),
            (r"target_net", r"expected", r"best"),
            "Stack Overflow: DQN, target without detach; Mnih 2015 for what is right",
        ),
        Fault(
            "expected value follows the policy's own weights",
            "target",
            (
                (
                    "with torch.no_grad():\n    best = target_net(one_hot(s2)).max(1).values\n",
                    "best = policy_net(one_hot(s2)).max(1).values\n",
                ),
            ),
            (r"\bbest\b", r"\bexpected\b", r"smooth_l1"),
            "PyTorch forum: gradient flows through the bootstrap target",
        ),
        Fault(
            "q-values keep their column",
            "broadcast",
            (("gather(1, a.unsqueeze(1)).squeeze(1)", "gather(1, a.unsqueeze(1))"),),
            (r"smooth_l1", r"\bq\b", r"expected", r"\(64, 1\)", r"64×1"),
            "PyTorch's DQN threads: warning of smooth_l1_loss about sizes",
        ),
        Fault(
            "rewards of thousands",
            "input scale",
            (
                ("1.0 if s2 == N_STATES - 1 else -0.1", "50000.0 if s2 == N_STATES - 1 else -900.0"),
                ("criterion = nn.SmoothL1Loss()", "criterion = nn.MSELoss()"),
            ),
            (r"\bexpected\b", r"mse", r"\br\b"),
            "Henderson 2018: reward scale",
        ),
        Fault(
            "q of the greedy action alone, under no_grad",
            "no gradient",
            (
                (
                    "with torch.no_grad():\n    best = target_net(one_hot(s2)).max(1).values\n",
                    "with torch.no_grad():\n    q = policy_net(one_hot(s)).gather(1, a.unsqueeze(1)).squeeze(1)\n"
                    "    best = target_net(one_hot(s2)).max(1).values\n",
                ),
            ),
            (r"no_grad", r"\bq\b", r"policy_net"),
            "PyTorch forum: does not require grad, everything in one no_grad block",
        ),
    ),
)

MIMIC = Program(
    "small net after a large one",
    "distillation",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(33)
teacher = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 5))
for weight in teacher.parameters():
    weight.data.mul_(1.5)
    weight.requires_grad_(False)
teacher.eval()

student = nn.Sequential(nn.Linear(16, 24), nn.BatchNorm1d(24), nn.Mish(), nn.Linear(24, 5))
temperature, alpha = 2.0, 0.7
optimizer = torch.optim.RAdam(student.parameters(), lr=2e-2)
kl = nn.KLDivLoss(reduction="batchmean")
""",
    """
x = torch.randn(80, 16)
with torch.no_grad():
    wise = teacher(x)
said = student(x)
soft = kl(F.log_softmax(said / temperature, dim=1), F.softmax(wise / temperature, dim=1)) * temperature**2
hard = F.cross_entropy(said, wise.argmax(1))
loss = alpha * soft + (1 - alpha) * hard
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    faults=(
        Fault(
            "probabilities instead of their logs in KLDivLoss",
            "loss input",
            (("F.log_softmax(said / temperature, dim=1)", "F.softmax(said / temperature, dim=1)"),),
            (r"softmax", r"kl_div", r"\bkl\b"),
            "PyTorch documentation of KLDivLoss: the input is expected as logs; Stack Overflow",
        ),
        Fault(
            "student speaks for the teacher",
            "target",
            (("with torch.no_grad():\n    wise = teacher(x)\n", "wise = student(x)\n"),),
            (r"\bwise\b", r"kl_div"),
            "Grill 2020: target without a stop of the gradient; Humbatova 2020: wrong labels",
        ),
        Fault(
            "teacher in train mode",
            "frozen but changing",
            (
                ("nn.Linear(16, 64), nn.Tanh()", "nn.Linear(16, 64), nn.BatchNorm1d(64), nn.Tanh()"),
                ("teacher.eval()\n", ""),
            ),
            (r"teacher", r"batch_norm", r"BatchNorm", r"running_"),
            "lightly 1438: a frozen teacher whose batch norm goes on",
        ),
        Fault(
            "log_softmax over the wrong axis",
            "wrong dimension",
            (("F.log_softmax(said / temperature, dim=1)", "F.log_softmax(said / temperature, dim=0)"),),
            (r"log_softmax", r"softmax"),
            "Stack Overflow: implicit or wrong dim of softmax",
        ),
        Fault(
            "the mean of the batch is compared",
            "wrong dimension",
            (("loss = alpha * soft + (1 - alpha) * hard", "loss = F.mse_loss(said.mean(0), wise.mean(0))"),),
            (r"\bmean\b",),
            "Karpathy's recipe: information mixed over the batch",
        ),
    ),
)

PROGRAMS = [MOONS, CODES, CORRIDOR, MIMIC]
