"""Sound programs with loops of their own: part-time optimizers, averaged weights, pauses, checks between the steps."""

from tests.doctor.program import Program

PROGRAMS = (
    Program(
        "trainer with callbacks and early stopping",
        "classifier",
        setup="""
import copy
import torch
import torch.nn as nn

torch.manual_seed(401)
class EarlyStopping:
    def __init__(self, patience=5):
        self.patience, self.best, self.bad, self.state = patience, float("inf"), 0, None
    def on_epoch_end(self, trainer, score):
        if score < self.best:
            self.best, self.bad, self.state = score, 0, copy.deepcopy(trainer.model.state_dict())
        else:
            self.bad += 1

class Trainer:
    def __init__(self, model, callbacks):
        self.model, self.callbacks = model, callbacks
        self.optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
        self.meter = []
    def evaluate(self, x, y):
        was = self.model.training
        self.model.eval()
        with torch.inference_mode():
            score = nn.functional.cross_entropy(self.model(x), y).item()
        self.model.train(was)
        return score
    def training_step(self, x, y):
        return nn.functional.cross_entropy(self.model(x), y)
    def optimizer_step(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.meter.append(loss.detach())

x = torch.randn(260, 7)
y = (x[:, 0] > x[:, 1]).long() + (x[:, 2] > 0.3).long()
model = nn.Sequential(nn.Linear(7, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))
trainer = Trainer(model, [EarlyStopping()])
""",
        forward="""
part = slice(40 * (step % 5), 40 * (step % 5) + 40)
loss = trainer.training_step(x[part], y[part])
""",
        update="""
trainer.optimizer_step(loss)
if step % 5 == 4:
    for callback in trainer.callbacks:
        callback.on_epoch_end(trainer, trainer.evaluate(x[200:], y[200:]))
""",
        steps=80,
    ),
    Program(
        "critic that learns three times as often",
        "GAN",
        setup="""
import torch
from torch import nn

torch.manual_seed(409)
G = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 2))
C = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
opt_g = torch.optim.RMSprop(G.parameters(), lr=2e-3)
opt_c = torch.optim.RMSprop(C.parameters(), lr=2e-3)
def real(n):
    return 0.4 * torch.randn(n, 2) + torch.tensor([1.0, 1.5])
""",
        forward="""
for p in C.parameters():
    p.requires_grad_(True)
for _ in range(3):
    with torch.no_grad():
        fake = G(torch.randn(48, 3))
    c_loss = C(fake).mean() - C(real(48)).mean()
    opt_c.zero_grad()
    c_loss.backward()
    opt_c.step()
    with torch.no_grad():
        for p in C.parameters():
            p.clamp_(-0.1, 0.1)
for p in C.parameters():
    p.requires_grad_(False)
loss = -C(G(torch.randn(48, 3))).mean()
""",
        update="""
opt_g.zero_grad()
loss.backward()
opt_g.step()
""",
        steps=50,
    ),
    Program(
        "weights that are averaged at the end",
        "regression",
        setup="""
import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel

torch.manual_seed(419)
x = torch.randn(300, 4)
y = (x[:, :2].prod(1) + x[:, 2]).unsqueeze(1)
base = nn.Sequential(nn.Linear(4, 40), nn.Softsign(), nn.Linear(40, 40), nn.Softsign(), nn.Linear(40, 1))
averaged = AveragedModel(base)
optimizer = torch.optim.SGD(base.parameters(), lr=0.2, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=60)
swa_scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=5)
""",
        forward="""
rows = torch.randint(0, 300, (64,))
loss = nn.functional.mse_loss(base(x[rows]), y[rows])
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
if step >= 60:
    averaged.update_parameters(base)
    swa_scheduler.step()
else:
    scheduler.step()
""",
        steps=90,
    ),
    Program(
        "sharpness that is avoided in two passes",
        "classifier",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(421)
x = torch.randn(240, 6)
y = (x[:, 0] * x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
RHO = 0.05
criterion = nn.CrossEntropyLoss()
""",
        forward="""
rows = torch.randperm(240)[:80]
loss = criterion(model(x[rows]), y[rows])
""",
        update="""
loss.backward()
with torch.no_grad():
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm() + 1e-12
    shifts = [RHO * p.grad / norm for p in model.parameters()]
    for p, e in zip(model.parameters(), shifts):
        p.add_(e)
opt.zero_grad()
criterion(model(x[rows]), y[rows]).backward()
with torch.no_grad():
    for p, e in zip(model.parameters(), shifts):
        p.sub_(e)
opt.step()
opt.zero_grad()
""",
        steps=80,
    ),
    Program(
        "noisy gradients of single people",
        "private",
        setup="""
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(431)
people = torch.randn(200, 5)
ill = (people[:, 0] - people[:, 1] > 0.2).float()
net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
CLIP, NOISE = 1.0, 0.3

def loss_of(params, x, y):
    score = functional_call(net, params, (x.unsqueeze(0),)).squeeze()
    return nn.functional.binary_cross_entropy_with_logits(score, y)
per_person = vmap(grad(loss_of), in_dims=(None, 0, 0))
""",
        forward="""
rows = torch.randint(0, 200, (50,))
params = {k: v.detach() for k, v in net.named_parameters()}
grads = per_person(params, people[rows], ill[rows])
norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
scale = (CLIP / norms).clamp(max=1.0)
with torch.no_grad():
    loss = nn.functional.binary_cross_entropy_with_logits(net(people).squeeze(1), ill)
""",
        update="""
for name, p in net.named_parameters():
    clipped = torch.einsum("n,n...->...", scale, grads[name])
    p.grad = (clipped + NOISE * CLIP * torch.randn_like(p)) / 50
optimizer.step()
optimizer.zero_grad()
""",
        steps=60,
    ),
    Program(
        "evolution beside descent",
        "hybrid",
        setup="""
import torch
from torch import nn

torch.manual_seed(433)
x = torch.rand(150, 3) * 2 - 1
y = torch.sign(x.prod(1)) * 0.5 + x[:, 0]
net = nn.Sequential(nn.Linear(3, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
log_temperature = torch.zeros(())
def error(t):
    return (net(x).squeeze(1) * t.exp() - y).square().mean()
""",
        forward="""
with torch.no_grad():
    trials = [log_temperature + 0.05 * torch.randn(()) for _ in range(3)] + [log_temperature]
    log_temperature = min(trials, key=lambda t: error(t).item())
loss = error(log_temperature)
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
""",
        steps=80,
    ),
    Program(
        "federation of three clinics",
        "federated",
        setup="""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(439)
truth = torch.randn(6)
clinics = []
for k in range(3):
    x = torch.randn(120, 6) + 0.3 * k
    clinics.append((x, (x @ truth > 0).long()))
server = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 2))
clients = [copy.deepcopy(server) for _ in clinics]
optimizers = [torch.optim.SGD(c.parameters(), lr=0.3) for c in clients]
""",
        forward="""
k = step % 3
if k == 0:
    for client in clients:
        client.load_state_dict(server.state_dict())
x, y = clinics[k]
for _ in range(2):
    rows = torch.randint(0, 120, (40,))
    optimizers[k].zero_grad()
    F.cross_entropy(clients[k](x[rows]), y[rows]).backward()
    optimizers[k].step()
optimizers[k].zero_grad()
loss = F.cross_entropy(clients[k](x), y)
""",
        update="""
loss.backward()
optimizers[k].step()
if k == 2:
    with torch.no_grad():
        for s, *parts in zip(server.parameters(), *(c.parameters() for c in clients)):
            s.copy_(torch.stack(parts).mean(0))
""",
        steps=60,
    ),
    Program(
        "hidden states that are drawn with a hard choice",
        "discrete latent",
        setup="""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(443)
K = 6
prototypes = torch.rand(K, 12)
class Discrete(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, K))
        self.dec = nn.Sequential(nn.Linear(K, 32), nn.ReLU(), nn.Linear(32, 12), nn.Sigmoid())
    def forward(self, x, temperature):
        logits = self.enc(x)
        z = F.gumbel_softmax(logits, tau=temperature, hard=True)
        q = logits.softmax(1)
        kl = (q * (q.clamp_min(1e-9).log() + torch.log(torch.tensor(float(K))))).sum(1).mean()
        return self.dec(z), kl

net = Discrete()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
""",
        forward="""
x = (prototypes[torch.randint(0, K, (96,))] + 0.05 * torch.randn(96, 12)).clamp(0, 1)
out, kl = net(x, max(0.5, 1.0 - step / 150))
loss = F.binary_cross_entropy(out, x) * 12 + 0.1 * kl
""",
        update="""
opt.zero_grad()
loss.backward()
opt.step()
""",
        steps=120,
    ),
)
