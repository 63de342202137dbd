"""Faults of agents that learn from rewards: a maze, a pole, a thermostat."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "maze with replay and a target network",
        "RL",
        setup="""
import copy, random
from collections import deque, namedtuple
import torch
import torch.nn as nn

random.seed(2); torch.manual_seed(2)
Transition = namedtuple("Transition", "state action next_state reward done")
SIZE, GOAL = 4, (3, 3)
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))

class Maze:
    def reset(self):
        self.at, self.t = (random.randrange(SIZE), random.randrange(SIZE)), 0
        return self.observe()
    def observe(self):
        s = torch.zeros(2 * SIZE)
        s[self.at[0]] = s[SIZE + self.at[1]] = 1.0
        return s
    def step(self, a):
        r, c = self.at[0] + MOVES[a][0], self.at[1] + MOVES[a][1]
        if 0 <= r < SIZE and 0 <= c < SIZE:
            self.at = (r, c)
        self.t += 1
        done = self.at == GOAL or self.t > 20
        return self.observe(), (1.0 if self.at == GOAL else -0.05), done

class QNetwork(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(n_in, 48), nn.Linear(48, 48), nn.Linear(48, n_out)
    def forward(self, s):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(s)))))

policy_net = QNetwork(2 * SIZE, 4)
target_net = copy.deepcopy(policy_net)
target_net.eval()
optimizer = torch.optim.RMSprop(policy_net.parameters(), lr=2e-3)
memory = deque(maxlen=3000)
env, gamma = Maze(), 0.9
env.reset()

def act(state, eps):
    if random.random() < eps:
        return random.randrange(4)
    with torch.no_grad():
        return policy_net(state).argmax().item()

def play(n, eps):
    for _ in range(n):
        state = env.observe()
        a = act(state, eps)
        nxt, reward, done = env.step(a)
        memory.append(Transition(state, a, nxt, reward, float(done)))
        if done:
            env.reset()

play(300, 1.0)
""",
        forward="""
play(8, max(0.1, 1 - step / 60))
batch = Transition(*zip(*random.sample(list(memory), 48)))
s, s2 = torch.stack(batch.state), torch.stack(batch.next_state)
a = torch.tensor(batch.action).unsqueeze(1)
r, d = torch.tensor(batch.reward), torch.tensor(batch.done)
q = policy_net(s).gather(1, a).squeeze(1)
with torch.no_grad():
    q_next = target_net(s2).max(1).values
loss = nn.functional.smooth_l1_loss(q, r + gamma * q_next * (1 - d))
""",
        update="""
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_value_(policy_net.parameters(), 10.0)
optimizer.step()
if step % 10 == 9:
    target_net.load_state_dict(policy_net.state_dict())
""",
        steps=100,
        faults=(
            Fault(
                "targets of the network that learns",
                "several networks",
                (
                    (
                        "with torch.no_grad():\n    q_next = target_net(s2).max(1).values\n",
                        "q_next = policy_net(s2).max(1).values\n",
                    ),
                ),
                where=("target", "policy_net", "q_next", "fc1"),
                source="Nikanjam 2022, Faults in deep RL: missing target network; Stack Overflow, DQN target with a "
                "gradient",
            ),
            Fault(
                "the target network runs with a gradient",
                "several networks",
                (
                    (
                        "with torch.no_grad():\n    q_next = target_net(s2).max(1).values\n",
                        "q_next = target_net(s2).max(1).values\n",
                    ),
                ),
                where=("target", "q_next", "QNetwork"),
                source="Nikanjam 2022, Faults in deep RL; PyTorch DQN tutorial, no_grad around the target network",
            ),
            Fault(
                "the value of the best action, not of the one taken",
                "no gradient",
                (("q = policy_net(s).gather(1, a).squeeze(1)", "q = policy_net(s).argmax(1).float()"),),
                where=("argmax", "policy_net", "fc"),
                source="Stack Overflow, argmax in the loss of a DQN has no gradient; Nikanjam 2022, Wrong update rule",
            ),
            Fault(
                "rewards in a row against values in a column",
                "broadcast",
                (("gather(1, a).squeeze(1)", "gather(1, a)"),),
                where=("smooth_l1", "target", "loss"),
                source="Stack Overflow, DQN loss of (n, 1) and (n,); NeuraLint",
            ),
            Fault(
                "the optimizer has the target network",
                "no optimizer",
                (("torch.optim.RMSprop(policy_net.parameters()", "torch.optim.RMSprop(target_net.parameters()"),),
                where=("fc1", "fc2", "fc3", "policy_net", "QNetwork"),
                source="Nikanjam 2022, Faults in deep RL: wrong network is updated",
            ),
            Fault(
                "states without their numbers",
                "data",
                (("s[self.at[0]] = s[SIZE + self.at[1]] = 1.0", "s[0] = s[SIZE] = 1.0"),),
                where=("state", "rows", "input", "s"),
                source="Nikanjam 2022, Faults in deep RL: wrong state; Humbatova 2020, Wrong input",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "actor and critic balance a pole",
        "RL",
        setup="""
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

rs = np.random.RandomState(6)
torch.manual_seed(6)

class Pole:
    def reset(self):
        self.s = rs.uniform(-0.1, 0.1, 2)
        self.t = 0
        return self.s.copy()
    def step(self, a):
        push = 1.0 if a == 1 else -1.0
        angle, speed = self.s
        speed = speed + 0.15 * (3 * angle + push)
        angle = angle + 0.15 * speed
        self.s = np.array([angle, speed])
        self.t += 1
        fell = abs(angle) > 0.8
        return self.s.copy(), 1.0, fell or self.t >= 40

class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(2, 32), nn.Tanh())
        self.actor = nn.Linear(32, 2)
        self.critic = nn.Linear(32, 1)
    def forward(self, obs):
        h = self.shared(obs)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)

env, agent = Pole(), Agent()
optim = torch.optim.Adam(agent.parameters(), lr=0.02)
discount, entropy_coef, value_coef = 0.95, 0.01, 0.5
episode_lengths = []

def rollout():
    obs, log_probs, values, rewards, entropies, done = env.reset(), [], [], [], [], False
    while not done:
        dist, value = agent(torch.as_tensor(obs, dtype=torch.float32))
        action = dist.sample()
        obs, reward, done = env.step(action.item())
        log_probs.append(dist.log_prob(action))
        values.append(value)
        rewards.append(reward)
        entropies.append(dist.entropy())
    returns, running = [], 0.0
    for reward in reversed(rewards):
        running = reward + discount * running
        returns.insert(0, running)
    return torch.stack(log_probs), torch.stack(values), torch.tensor(returns) / 10, torch.stack(entropies)
""",
        forward="""
log_probs, values, returns, entropies = rollout()
advantage = (returns - values).detach()
policy_loss = -(log_probs * advantage).mean()
value_loss = (returns - values).pow(2).mean()
loss = policy_loss + value_coef * value_loss - entropy_coef * entropies.mean()
""",
        update="""
optim.zero_grad()
loss.backward()
optim.step()
episode_lengths.append(len(returns))
def report():
    return [sum(episode_lengths[i:i + 10]) / 10 for i in range(0, len(episode_lengths) - 9, 20)]
""",
        steps=100,
        faults=(
            Fault(
                "the actor is paid for bad actions",
                "sign",
                (("policy_loss = -(log_probs * advantage)", "policy_loss = (log_probs * advantage)"),),
                where=("policy_loss", "log_prob", "loss"),
                source="Nikanjam 2022, Faults in deep RL: wrong sign of the policy gradient",
                hosts=LOOPS,
            ),
            Fault(
                "the advantage trains the critic against itself",
                "several networks",
                (("advantage = (returns - values).detach()", "advantage = returns - values"),),
                where=("advantage", "critic", "values", "detach"),
                source="Nikanjam 2022, Faults in deep RL; Stack Overflow, advantage.detach() in actor-critic",
            ),
            Fault(
                "values of a column against returns of a row",
                "broadcast",
                (("self.critic(h).squeeze(-1)", "self.critic(h)"),),
                where=("sub", "returns", "values", "value_loss"),
                source="Stack Overflow, actor-critic, (n,) minus (n, 1); NeuraLint",
            ),
            Fault(
                "probabilities as the scores of a distribution",
                "loss input",
                (("Categorical(logits=self.actor(h))", "Categorical(logits=torch.softmax(self.actor(h), -1))"),),
                where=("softmax", "actor", "Categorical"),
                source="PyTorch forum, Categorical(logits=softmax(x)); Humbatova 2020, redundant softmax",
            ),
            Fault(
                "log probabilities are kept as numbers",
                "cut",
                (("log_probs.append(dist.log_prob(action))", "log_probs.append(dist.log_prob(action).detach())"),),
                where=("actor", "detach", "log_prob"),
                source="Stack Overflow, REINFORCE, log_prob is detached; Nikanjam 2022",
            ),
        ),
    ),
    Program(
        "thermostat by the reparameterised policy",
        "RL",
        setup="""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal

torch.manual_seed(14)

class GaussianPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(2, 32), nn.ReLU())
        self.mu, self.log_std = nn.Linear(32, 1), nn.Linear(32, 1)
    def forward(self, s):
        h = self.trunk(s)
        dist = Normal(self.mu(h), self.log_std(h).clamp(-3, 1).exp())
        u = dist.rsample()
        a = torch.tanh(u)
        logp = dist.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)
        return a.squeeze(1), logp.squeeze(1)

class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    def forward(self, s, a):
        return self.net(torch.cat([s, a.unsqueeze(1)], 1)).squeeze(1)

policy, critic = GaussianPolicy(), Critic()
pi_opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
q_opt = torch.optim.Adam(critic.parameters(), lr=5e-3)
alpha = 0.05

def reward_of(s, a):
    return 1 - (s[:, 0] + a - s[:, 1]).pow(2)
""",
        forward="""
s = 0.5 * torch.randn(64, 2).clamp(-1.5, 1.5)
with torch.no_grad():
    a, _ = policy(s)
q_loss = F.mse_loss(critic(s, a), reward_of(s, a))
""",
        update="""
q_opt.zero_grad()
q_loss.backward()
q_opt.step()
for p in critic.parameters():
    p.requires_grad_(False)
new_a, logp = policy(s)
pi_loss = (alpha * logp - critic(s, new_a)).mean()
pi_opt.zero_grad()
pi_loss.backward()
pi_opt.step()
for p in critic.parameters():
    p.requires_grad_(True)
loss = q_loss.detach()
""",
        steps=120,
        faults=(
            Fault(
                "actions without a gradient",
                "cut",
                (("u = dist.rsample()", "u = dist.sample()"),),
                where=("sample", "mu", "log_std", "normal"),
                source="Stack Overflow, sample() and rsample(); Nikanjam 2022",
            ),
            Fault(
                "the critic stays frozen after the policy's turn",
                "no gradient",
                (("\nfor p in critic.parameters():\n    p.requires_grad_(True)\n", "\n"),),
                where=("critic", "net", "requires_grad"),
                source="PyTorch forum, requires_grad is not set back; Nikanjam 2022",
                hosts=LOOPS,
            ),
            Fault(
                "the policy's loss is not stepped by its optimizer",
                "no step",
                (("pi_loss.backward()\npi_opt.step()", "pi_loss.backward()\nq_opt.step()"),),
                where=("trunk", "mu", "log_std", "GaussianPolicy", "policy"),
                source="Nikanjam 2022, Faults in deep RL: wrong network is updated",
                hosts=LOOPS,
            ),
            Fault(
                "policy looks for the worst value",
                "sign",
                (("(alpha * logp - critic(s, new_a)).mean()", "(alpha * logp + critic(s, new_a)).mean()"),),
                where=("pi_loss", "critic", "add"),
                source="Nikanjam 2022, Faults in deep RL: wrong sign of the policy gradient",
                hosts=LOOPS,
            ),
            Fault(
                "deviations are detached",
                "cut",
                (("self.log_std(h).clamp(-3, 1).exp()", "self.log_std(h).clamp(-3, 1).exp().detach()"),),
                where=("log_std", "detach"),
                source="PyTorch forum, a part of a distribution is detached; TrainCheck",
            ),
        ),
    ),
)
