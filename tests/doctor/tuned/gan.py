"""Faults of several networks in one step: GANs, VAEs, target networks, policy gradients, distillation."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "gan of a ring",
        "GAN",
        setup="""
import math
import torch
import torch.nn as nn

torch.manual_seed(14)
latent, batch = 4, 32
G = nn.Sequential(nn.Linear(latent, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
D = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1), nn.Sigmoid())
criterion = nn.BCELoss()
optimizer_G = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizer_D = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.999))
ones, zeros = torch.ones(batch, 1), torch.zeros(batch, 1)

def real_batch():
    angle = 2 * math.pi * torch.rand(batch)
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(batch, 2) + 1.5
""",
        forward="""
real = real_batch()
z = torch.randn(batch, latent)
fake = G(z)
optimizer_D.zero_grad()
loss_D_real = criterion(D(real), ones)
loss_D_fake = criterion(D(fake.detach()), zeros)
loss_D = (loss_D_real + loss_D_fake) / 2
loss_D.backward()
optimizer_D.step()
""",
        update="""
optimizer_G.zero_grad()
loss = criterion(D(fake), ones)
loss.backward()
optimizer_G.step()
""",
        faults=(
            Fault(
                "fake is not detached for the discriminator",
                "second backward",
                (("D(fake.detach())", "D(fake)"),),
                where=("fake", r"\bG\b", "loss_D"),
                source="PyTorch forum, Trying to backward through the graph a second time in a GAN",
            ),
            Fault(
                "retain_graph instead of a new D(fake)",
                "inplace",
                (
                    (
                        "loss_D_fake = criterion(D(fake.detach()), zeros)",
                        "guess = D(fake)\nloss_D_fake = criterion(guess, zeros)",
                    ),
                    ("loss_D.backward()", "loss_D.backward(retain_graph=True)"),
                    ("loss = criterion(D(fake), ones)", "loss = criterion(guess, ones)"),
                ),
                where=("guess", "fake", "weight", "step", r"\bD\b"),
                source="pytorch 36470; PyTorch forum, modified by an inplace operation in a GAN of PyTorch 1.5",
            ),
            Fault(
                "the generator is judged through detach",
                "several networks",
                (("loss = criterion(D(fake), ones)", "loss = criterion(D(fake.detach()), ones)"),),
                where=("detach", r"\bG\b", "fake"),
                source="PyTorch forum, the generator of a GAN does not learn: detach in its own loss",
            ),
            Fault(
                "the generator's optimizer holds the discriminator",
                "several networks",
                (("torch.optim.Adam(G.parameters()", "torch.optim.Adam(D.parameters()"),),
                where=("optimizer", r"\bG\b", r"\b0\b", r"\b2\b"),
                source="Islam 2019, Coding bug; PyTorch forum, wrong parameters in the optimizer of a GAN",
            ),
            Fault(
                "the discriminator keeps the gradient of the generator's loss",
                "several networks",
                (("optimizer_D.zero_grad()\n", ""),),
                where=(r"\bD\b", "zero_grad", "optimizer_D", r"\b0\b", r"\b2\b"),
                source="PyTorch DCGAN tutorial and forum, zero_grad of the discriminator",
                hosts=LOOPS,
            ),
            Fault(
                "the generator minimises the discriminator's loss",
                "sign",
                (("loss = criterion(D(fake), ones)", "loss = -criterion(D(fake), ones)"),),
                where=("neg", "loss"),
                source="Humbatova 2020, Wrong loss function calculation",
            ),
            Fault(
                "the generator makes no step",
                "no step",
                (("optimizer_G.step()\n", ""),),
                where=("optimizer_G", r"\bG\b", r"\b0\b", r"\b2\b"),
                source="Humbatova 2020, Missing API call",
            ),
        ),
    ),
    Program(
        "variational autoencoder",
        "VAE",
        setup="""
import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(15)
prototypes = (torch.rand(5, 25) > 0.5).float()
which = torch.arange(80) % 5
x = (torch.rand(80, 25) < prototypes[which] * 0.9 + 0.05).float()

class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(25, 40)
        self.fc21 = nn.Linear(40, 4)
        self.fc22 = nn.Linear(40, 4)
        self.fc3 = nn.Linear(4, 40)
        self.fc4 = nn.Linear(40, 25)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar

def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x, reduction="sum") / len(x)
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / len(x)
    return BCE + 0.3 * KLD

model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-2)
""",
        forward="""
recon_batch, mu, logvar = model(x)
loss = loss_function(recon_batch, x, mu, logvar)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "z is sampled by torch.normal",
                "cut",
                (("        return mu + eps * std", "        return torch.normal(mu.detach(), std.detach())"),),
                where=("normal", r"\bmu\b", "detach", "std"),
                source="Kingma 2014, why the reparameterization is needed; PyTorch forum, sample against rsample",
            ),
            Fault(
                "the divergence is not in the loss",
                "unused",
                (("return BCE + 0.3 * KLD", "return BCE"),),
                where=("KLD",),
                source="Humbatova 2020, Wrong loss function calculation",
            ),
            Fault(
                "the divergence is maximised",
                "sign",
                (("KLD = -0.5 * torch.sum", "KLD = 0.5 * torch.sum"),),
                where=("KLD", "loss", "neg"),
                source="Humbatova 2020, Wrong loss function calculation",
                hosts=LOOPS,
            ),
            Fault(
                "log of a deviation that relu made 0",
                "nan",
                (("return self.fc21(h1), self.fc22(h1)", "return self.fc21(h1), torch.log(F.relu(self.fc22(h1)))"),),
                where=(r"\blog\b", "logvar", "fc22", "relu"),
                source="Islam 2019, Logic bug: log of 0",
            ),
            Fault(
                "relu before binary_cross_entropy",
                "output activation",
                (("torch.sigmoid(self.fc4(h3))", "torch.relu(self.fc4(h3)).clamp(0, 1)"),),
                where=("relu", "clamp", "fc4"),
                source="Humbatova 2020, Wrong type of activation function; DeepFD, activation",
            ),
            Fault(
                "divided by the size of the data set",
                "rate too small",
                (
                    ("return BCE + 0.3 * KLD", "return (BCE + 0.3 * KLD) / 4000"),
                    ("optim.Adam(model.parameters(), lr=1e-2)", "optim.SGD(model.parameters(), lr=1e-3)"),
                ),
                where=("rate", r"\blr\b", "optimizer", "loss"),
                source="Humbatova 2020, Suboptimal learning rate; Wrong loss function calculation",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "q learning with a target network",
        "RL",
        setup="""
import copy
import random
import torch
import torch.nn as nn

torch.manual_seed(16)
random.seed(16)
n_states, n_actions, gamma = 8, 2, 0.9

def transition(s, a):
    s2 = max(0, min(n_states - 1, s + (1 if a == 1 else -1)))
    return s2, float(s2 == n_states - 1), s2 == n_states - 1

memory = []
for s in range(n_states - 1):
    for a in range(n_actions):
        memory.append((s, a, *transition(s, a)))
states = torch.eye(n_states)[[m[0] for m in memory]]
actions = torch.tensor([m[1] for m in memory])
next_states = torch.eye(n_states)[[m[2] for m in memory]]
rewards = torch.tensor([m[3] for m in memory])
done = torch.tensor([m[4] for m in memory]).float()

policy_net = nn.Sequential(nn.Linear(n_states, 32), nn.ReLU(), nn.Linear(32, n_actions))
target_net = copy.deepcopy(policy_net)
for p in target_net.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(policy_net.parameters(), lr=5e-3)
""",
        forward="""
q = policy_net(states).gather(1, actions.unsqueeze(1)).squeeze(1)
with torch.no_grad():
    expected = rewards + gamma * (1 - done) * target_net(next_states).max(1).values
loss = nn.functional.smooth_l1_loss(q, expected)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
if step % 20 == 19:
    target_net.load_state_dict(policy_net.state_dict())
""",
        steps=60,
        faults=(
            Fault(
                "the target has a gradient",
                "target",
                (
                    (
                        "with torch.no_grad():\n    expected = rewards + gamma * (1 - done) * target_net(next_states)",
                        "if True:\n    expected = rewards + gamma * (1 - done) * policy_net(next_states)",
                    ),
                ),
                where=("expected", "target"),
                source="PyTorch forum, DQN whose target is not detached",
            ),
            Fault(
                "the target network is trained",
                "several networks",
                (
                    ("for p in target_net.parameters():\n    p.requires_grad = False\n", ""),
                    ("with torch.no_grad():\n", "if True:\n"),
                    (
                        "torch.optim.Adam(policy_net.parameters(), lr=5e-3)",
                        "torch.optim.Adam([*policy_net.parameters(), *target_net.parameters()], lr=5e-3)",
                    ),
                ),
                where=("target", "expected"),
                source="Islam 2019, Coding bug; PyTorch forum, gradients in the target network",
            ),
            Fault(
                "values of a column against a row",
                "broadcast",
                ((".gather(1, actions.unsqueeze(1)).squeeze(1)", ".gather(1, actions.unsqueeze(1))"),),
                where=(r"\bq\b", "14", "smooth_l1", "expected"),
                source="pytorch 16045, (n, 1) against (n,) in a loss; PyTorch DQN tutorial, unsqueeze of the target",
            ),
            Fault(
                "greedy actions in the loss",
                "no gradient",
                (
                    (
                        "q = policy_net(states).gather(1, actions.unsqueeze(1)).squeeze(1)",
                        "q = policy_net(states).argmax(1).float()",
                    ),
                ),
                where=("argmax", r"\bq\b"),
                source="PyTorch forum, argmax is not differentiable",
            ),
            Fault(
                "rewards of thousands",
                "input scale",
                (
                    (
                        "rewards = torch.tensor([m[3] for m in memory])",
                        "rewards = 20000 * torch.tensor([m[3] for m in memory])",
                    ),
                ),
                where=("target", "expected", "reward"),
                source="Humbatova 2020, Missing preprocessing step (rewards not scaled)",
            ),
        ),
    ),
    Program(
        "actor and critic on a bandit",
        "RL",
        setup="""
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(17)
class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 32)
        self.actor = nn.Linear(32, 3)
        self.critic = nn.Linear(32, 1)
    def forward(self, s):
        h = torch.relu(self.trunk(s))
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)

agent = ActorCritic()
optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
best = torch.randn(4, 3)
""",
        forward="""
s = torch.randn(128, 4)
policy, value = agent(s)
action = policy.sample()
reward = (action == (s @ best).argmax(1)).float()
advantage = reward - value.detach()
policy_loss = -(policy.log_prob(action) * advantage).mean()
value_loss = (reward - value).pow(2).mean()
loss = policy_loss + 0.5 * value_loss - 0.01 * policy.entropy().mean()
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=80,
        faults=(
            Fault(
                "the baseline is trained by the policy's loss",
                "several networks",
                (("advantage = reward - value.detach()", "advantage = reward - value"),),
                where=("advantage", "value", "critic"),
                source="PyTorch forum and examples, actor-critic whose advantage is not detached",
            ),
            Fault(
                "the policy's loss has the wrong sign",
                "sign",
                (("policy_loss = -(policy.log_prob", "policy_loss = (policy.log_prob"),),
                where=("policy_loss", "log_prob", "loss"),
                source="Islam 2019, Logic bug; PyTorch forum, policy gradient without the minus",
            ),
            Fault(
                "the log probability is an item",
                "cut",
                (
                    (
                        "-(policy.log_prob(action) * advantage).mean()",
                        "-(torch.tensor([policy.log_prob(action)[i].item() for i in range(128)]) * advantage).mean()",
                    ),
                ),
                where=("item", "tensor", "actor", "log_prob"),
                source="PyTorch forum, saved log probabilities lose their graph through item()",
            ),
            Fault(
                "the value's loss is not added",
                "unused",
                (("loss = policy_loss + 0.5 * value_loss - 0.01", "loss = policy_loss - 0.01"),),
                where=("value_loss", "critic"),
                source="Humbatova 2020, Wrong loss function calculation",
            ),
        ),
    ),
)
