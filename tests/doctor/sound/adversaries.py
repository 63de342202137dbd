"""Generators with critics, and agents."""

from tests.doctor.program import Program

NONSATURATING = Program(
    "ring by a non-saturating GAN",
    "GAN",
    """
import math
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(100)
generator = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
discriminator = nn.Sequential(
    nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1),
)
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(discriminator.parameters(), lr=4e-3, betas=(0.5, 0.999))
""",
    """
angle = 2 * math.pi * torch.rand(64)
real = torch.stack([angle.cos(), angle.sin()], 1)
fake = generator(torch.randn(64, 2))
loss_d = F.softplus(-discriminator(real)).mean() + F.softplus(discriminator(fake.detach())).mean()
""",
    """
opt_d.zero_grad()
loss_d.backward()
opt_d.step()
loss_g = F.softplus(-discriminator(fake)).mean()
opt_g.zero_grad()
loss_g.backward()
opt_g.step()
""",
)

WASSERSTEIN = Program(
    "Wasserstein GAN with a gradient penalty",
    "GAN",
    """
import torch
from torch import nn

torch.manual_seed(101)
G = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 1))
critic = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=4e-3, betas=(0.0, 0.9))
opt_c = torch.optim.Adam(critic.parameters(), lr=3e-3, betas=(0.0, 0.9))

def penalty(real, fake):
    mix = torch.rand(len(real), 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    slope, = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()
""",
    """
for _ in range(2):
    real = 2.0 + 0.5 * torch.randn(48, 1)
    with torch.no_grad():
        fake = G(torch.randn(48, 3))
    loss_c = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
    opt_c.zero_grad()
    loss_c.backward()
    opt_c.step()
loss_g = -critic(G(torch.randn(48, 3))).mean()
""",
    """
opt_g.zero_grad()
loss_g.backward()
opt_g.step()
""",
    steps=25,
)

HINGE = Program(
    "images by a hinge GAN with spectral norm",
    "GAN",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm

torch.manual_seed(102)

class Painter(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Linear(8, 16 * 4)
        self.norm = nn.BatchNorm2d(16)
        self.up = nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1)

    def forward(self, z):
        return torch.tanh(self.up(F.relu(self.norm(self.start(z).view(-1, 16, 2, 2)))))

class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = spectral_norm(nn.Conv2d(1, 12, 3, padding=1))
        self.out = spectral_norm(nn.Linear(12 * 16, 1))

    def forward(self, image):
        return self.out(F.leaky_relu(self.conv(image), 0.1).flatten(1))

painter, judge = Painter(), Judge()
opt_p = torch.optim.Adam(painter.parameters(), lr=1e-3)
opt_j = torch.optim.Adam(judge.parameters(), lr=2e-3)
""",
    """
shade = torch.rand(32, 1, 1, 1) * 2 - 1
real = torch.cat([shade.expand(32, 1, 4, 2), -shade.expand(32, 1, 4, 2)], 3)
fake = painter(torch.randn(32, 8))
loss_j = F.relu(1 - judge(real)).mean() + F.relu(1 + judge(fake.detach())).mean()
opt_j.zero_grad()
loss_j.backward()
opt_j.step()
for p in judge.parameters():
    p.requires_grad_(False)
loss_p = -judge(fake).mean()
""",
    """
opt_p.zero_grad()
loss_p.backward()
opt_p.step()
for p in judge.parameters():
    p.requires_grad_(True)
""",
    steps=25,
)

REINFORCE = Program(
    "bandit by REINFORCE",
    "RL",
    """
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(110)
policy = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 3))
optimizer = torch.optim.Adam(policy.parameters(), lr=2e-2)
baseline = 0.0
""",
    """
states = torch.randn(64, 4)
chances = Categorical(logits=policy(states))
actions = chances.sample()
rewards = (actions == states[:, :3].argmax(1)).float()
loss = -(chances.log_prob(actions) * (rewards - baseline)).mean()
""",
    """
baseline = 0.9 * baseline + 0.1 * rewards.mean().item()
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
)

ACTOR_CRITIC = Program(
    "cart by advantage actor-critic",
    "RL",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(111)

class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 32)
        self.actor = nn.Linear(32, 2)
        self.critic = nn.Linear(32, 1)

    def forward(self, s):
        h = torch.relu(self.body(s))
        return torch.distributions.Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)

def move(state, action):
    position, speed = state.unbind(1)
    speed = speed + 0.2 * (action.float() * 2 - 1) - 0.1 * position
    position = position + 0.2 * speed
    return torch.stack([position, speed], 1), -position.abs().clamp(max=2)

agent = ActorCritic()
optimizer = torch.optim.RMSprop(agent.parameters(), lr=1e-2)
""",
    """
state = torch.randn(16, 2)
logs, values, rewards, entropies = [], [], [], []
for t in range(6):
    pi, value = agent(state)
    action = pi.sample()
    state, reward = move(state, action)
    logs.append(pi.log_prob(action))
    values.append(value)
    rewards.append(reward)
    entropies.append(pi.entropy())
with torch.no_grad():
    ahead = agent(state)[1]
returns = []
for reward in reversed(rewards):
    ahead = reward + 0.9 * ahead
    returns.insert(0, ahead)
returns, values = torch.stack(returns), torch.stack(values)
advantage = (returns - values).detach()
entropy = torch.stack(entropies).mean()
loss = -(torch.stack(logs) * advantage).mean() + 0.5 * F.mse_loss(values, returns) - 0.01 * entropy
""",
    """
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
optimizer.step()
""",
    steps=40,
)

PPO = Program(
    "continuous control by PPO",
    "RL",
    """
import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(112)
actor = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
log_std = nn.Parameter(torch.zeros(1))
value = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
parameters = [*actor.parameters(), log_std, *value.parameters()]
optimizer = torch.optim.Adam(parameters, lr=3e-3, eps=1e-5)
wish = torch.tensor([0.5, -1.0, 0.3])
""",
    """
with torch.no_grad():
    seen = torch.randn(64, 3)
    before = Normal(actor(seen), log_std.exp())
    action = before.sample()
    old_log = before.log_prob(action).sum(1)
    reward = -((action[:, 0] - seen @ wish) ** 2)
    advantage = reward - value(seen)[:, 0]
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
for epoch in range(3):
    now = Normal(actor(seen), log_std.exp())
    ratio = (now.log_prob(action).sum(1) - old_log).exp()
    clipped = ratio.clamp(0.8, 1.2)
    policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
    value_loss = (value(seen)[:, 0] - reward).pow(2).mean()
    loss = policy_loss + 0.5 * value_loss - 0.001 * now.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 0.5)
    optimizer.step()
""",
    """
mean_reward = reward.mean().item()
""",
    steps=20,
)

PROGRAMS = [NONSATURATING, WASSERSTEIN, HINGE, REINFORCE, ACTOR_CRITIC, PPO]
