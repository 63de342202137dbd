"""Fresh faults: reinforcement learning, physics and metric learning."""

from tests.doctor.program import Fault, Host, Program

ONE_CELL: tuple[Host, ...] = ("whole", "loop", "step", "function")
LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "signal REINFORCE",
        "reinforcement learning",
        setup="""
import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(12)
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 4))
critic = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(list(policy.parameters()) + list(critic.parameters()), lr=0.02)
rewards = []
""",
        forward="""
observation = torch.randn(64, 4)
best = observation.argmax(dim=1)
distribution = Categorical(logits=policy(observation))
action = distribution.sample()
reward = (action == best).float()
value = critic(observation).squeeze(1)
advantage = reward - value.detach()
policy_loss = -(distribution.log_prob(action) * advantage).mean()
value_loss = (value - reward).pow(2).mean()
objective = policy_loss + 0.5 * value_loss - 0.01 * distribution.entropy().mean()
""",
        update="""
optimizer.zero_grad()
objective.backward()
optimizer.step()
missed = 1 - reward.mean()
rewards.append(reward.mean().item())
""",
        steps=100,
        faults=(
            Fault(
                "reinforce sign",
                "sign",
                (("policy_loss = -(distribution", "policy_loss = (distribution"),),
                where=("sign", "policy_loss", "maximi", "log_prob"),
                source="StackOverflow / Spinning Up, policy gradient without the minus",
                hosts=LOOPS,
            ),
            Fault(
                "reinforce log-probability detached",
                "cut",
                (("distribution.log_prob(action) *", "distribution.log_prob(action).detach() *"),),
                where=("log_prob", "detach"),
                source="PyTorch forum, log_prob stored as a number",
            ),
            Fault(
                "reinforce probabilities as logits",
                "loss input",
                (("nn.Tanh(), nn.Linear(32, 4))", "nn.Tanh(), nn.Linear(32, 4), nn.Softmax(dim=1))"),),
                where=("softmax", "policy", "logits"),
                source="PyTorch forum, Categorical(logits=softmax(...)); UMLAUT kind",
                hosts=LOOPS,
            ),
            Fault(
                "reinforce policy not in the optimizer",
                "no optimizer",
                (("list(policy.parameters()) + list(critic.parameters())", "list(critic.parameters())"),),
                where=("policy",),
                source="PyTorch forum, actor not in the optimizer",
            ),
        ),
    ),
    Program(
        "corridor DQN",
        "reinforcement learning",
        setup="""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)
N = 512
state = torch.rand(N, 2) * 2 - 1
action = torch.randint(0, 3, (N,))
move = torch.tensor([[-0.4, 0.0], [0.4, 0.0], [0.0, 0.4]])[action]
next_state = (state + move).clamp(-1, 1)
away = (next_state - torch.tensor([0.5, 0.5])).norm(dim=1)
reward = 2 - away
done = (away < 0.3).float()
gamma = 0.5

class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(2, 48)
        self.l2 = nn.Linear(48, 48)
        self.l3 = nn.Linear(48, 3)

    def forward(self, s):
        return self.l3(F.relu(self.l2(F.relu(self.l1(s)))))

policy_net = QNetwork()
target_net = copy.deepcopy(policy_net)
target_net.requires_grad_(False)
optimizer = torch.optim.Adam(policy_net.parameters(), lr=5e-3)
""",
        forward="""
batch = torch.randint(0, N, (128,))
q = policy_net(state[batch]).gather(1, action[batch].unsqueeze(1)).squeeze(1)
with torch.no_grad():
    next_q = target_net(next_state[batch]).max(dim=1).values
expected = reward[batch] + gamma * (1 - done[batch]) * next_q
loss = F.smooth_l1_loss(q, expected)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
if step % 10 == 9:
    target_net.load_state_dict(policy_net.state_dict())
""",
        steps=100,
        faults=(
            Fault(
                "dqn column against row",
                "broadcast",
                (("action[batch].unsqueeze(1)).squeeze(1)", "action[batch].unsqueeze(1))"),),
                where=("128", "smooth_l1", r"\bq\b", "expected"),
                source="PyTorch DQN forum, (n, 1) against (n,) in smooth_l1_loss",
            ),
            Fault(
                "dqn optimizer of the target network",
                "no optimizer",
                (("torch.optim.Adam(policy_net.parameters()", "torch.optim.Adam(target_net.parameters()"),),
                where=("policy_net", "target_net", r"\bl[123]\b"),
                source="StackOverflow, DQN optimizer holds the wrong network",
            ),
            Fault(
                "dqn best action in the loss",
                "cut",
                (
                    (
                        "q = policy_net(state[batch]).gather(1, action[batch].unsqueeze(1)).squeeze(1)",
                        "q = policy_net(state[batch]).argmax(dim=1).float()",
                    ),
                ),
                where=("argmax",),
                source="PyTorch forum, argmax in a DQN loss",
            ),
            Fault(
                "dqn rewards of thousands",
                "input scale",
                (("reward = 2 - away", "reward = 5000 * (2 - away)"),),
                where=("reward", "expected", "target"),
                source="DQN advice (clip rewards); Humbatova 2020, Missing preprocessing",
                hosts=LOOPS,
            ),
            Fault(
                "dqn sigmoid values",
                "output activation",
                (
                    (
                        "return self.l3(F.relu(self.l2(F.relu(self.l1(s)))))",
                        "return torch.sigmoid(self.l3(F.relu(self.l2(F.relu(self.l1(s))))))",
                    ),
                ),
                where=("sigmoid", "l3"),
                source="StackOverflow, activation on the Q output; Humbatova 2020, Wrong activation",
            ),
        ),
    ),
    Program(
        "oscillator PINN",
        "PINN",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(9)
omega = 2.0
t = torch.linspace(0, 2, 60).view(-1, 1).requires_grad_(True)
t0 = torch.zeros(1, 1, requires_grad=True)

class PINN(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.fcs = nn.Sequential(nn.Linear(1, width), nn.Tanh())
        self.fch = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        self.fce = nn.Linear(width, 1)

    def forward(self, x):
        return self.fce(self.fch(self.fcs(x)))

pinn = PINN()
optimizer = torch.optim.Adam(pinn.parameters(), lr=0.01)
""",
        forward="""
u0 = pinn(t0)
du0 = torch.autograd.grad(u0, t0, torch.ones_like(u0), create_graph=True)[0]
boundary = (u0 - 1).pow(2).mean() + 0.1 * du0.pow(2).mean()
u = pinn(t)
dudt = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]
d2udt2 = torch.autograd.grad(dudt, t, torch.ones_like(dudt), create_graph=True)[0]
physics = (d2udt2 + omega**2 * u).pow(2).mean()
loss = boundary + 0.02 * physics
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=100,
        faults=(
            Fault(
                "pinn first derivative without create_graph",
                "no gradient",
                (
                    (
                        "dudt = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]",
                        "dudt = torch.autograd.grad(u, t, torch.ones_like(u), retain_graph=True)[0]",
                    ),
                ),
                where=("create_graph", "dudt", "does not require grad"),
                source="PyTorch forum, second derivative needs create_graph=True",
            ),
            Fault(
                "pinn second derivative without a graph",
                "cut",
                (
                    (
                        "d2udt2 = torch.autograd.grad(dudt, t, torch.ones_like(dudt), create_graph=True)[0]",
                        "d2udt2 = torch.autograd.grad(dudt, t, torch.ones_like(dudt), retain_graph=True)[0]",
                    ),
                ),
                where=("create_graph", "d2udt2"),
                source="PyTorch forum, loss of a gradient without create_graph",
            ),
            Fault(
                "pinn second derivative as data",
                "cut",
                (("physics = (d2udt2 + omega**2 * u)", "physics = (d2udt2.data + omega**2 * u)"),),
                where=("d2udt2", "data"),
                source="StackOverflow, .data in a PINN residual",
            ),
            Fault(
                "pinn boundary left out",
                "unused",
                (("loss = boundary + 0.02 * physics", "loss = 0.02 * physics"),),
                where=("boundary", "u0"),
                source="Humbatova 2020, Wrong loss function calculation: missing term",
            ),
            Fault(
                "pinn rate of 1e-6",
                "rate too small",
                (("lr=0.01", "lr=1e-6"),),
                where=(r"\blr\b", "rate"),
                source="AUTOTRAINER 2021, slow convergence",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "siamese signatures",
        "metric learning",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(14)
writers = torch.randn(10, 16)
who = torch.randint(0, 10, (200,))
style = writers[who] + 0.5 * torch.randn(200, 16)

class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 8))

    def forward(self, x):
        return self.net(x)

embed = Embedder()
optimizer = torch.optim.Adam(embed.parameters(), lr=3e-3)
margin = 2.0
""",
        forward="""
first = torch.randint(0, 200, (128,))
partner = [torch.nonzero(who == who[i]).flatten() for i in first[:64]]
second = torch.cat([torch.stack([p[torch.randint(len(p), (1,))[0]] for p in partner]), torch.randint(0, 200, (64,))])
same = (who[first] == who[second]).float()
gap = embed(style[first]) - embed(style[second])
distance = (gap.pow(2).sum(dim=1) + 1e-6).sqrt()
loss = (same * distance.pow(2) + (1 - same) * F.relu(margin - distance).pow(2)).mean()
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=80,
        faults=(
            Fault(
                "siamese root of zero",
                "nan",
                (("(gap.pow(2).sum(dim=1) + 1e-6).sqrt()", "gap.pow(2).sum(dim=1).sqrt()"),),
                where=("sqrt", "distance"),
                source="PyTorch forum, nan gradient of sqrt at 0 in contrastive losses",
                hosts=LOOPS,
            ),
            Fault(
                "siamese distance over the batch",
                "wrong dimension",
                (("gap.pow(2).sum(dim=1)", "gap.pow(2).sum()"),),
                where=("sum", "distance", "gap"),
                source="Humbatova 2020, Wrong tensor shape; forum on pairwise distances",
            ),
            Fault(
                "siamese pairs mixed up",
                "data",
                (("same = (who[first] == who[second]).float()", "same = (who[first] == who[second.flip(0)]).float()"),),
                where=("same", "label", "target", "pairs"),
                source="Humbatova 2020, Wrong labels for training data",
                hosts=LOOPS,
            ),
            Fault(
                "siamese distance from a list",
                "cut",
                (
                    (
                        "distance = (gap.pow(2).sum(dim=1) + 1e-6).sqrt()",
                        "distance = torch.tensor([g.norm().item() for g in gap], requires_grad=True)",
                    ),
                ),
                where=("distance", "item", "gap"),
                source="PyTorch forum, requires_grad=True on a new tensor silences the error; nothing learns",
            ),
            Fault(
                "siamese one kind of pair",
                "target",
                (("same = (who[first] == who[second]).float()", "same = torch.ones(128)"),),
                where=("same", "constant", "target", "margin"),
                source="Humbatova 2020, Unbalanced training data; collapse in metric learning",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "two views InfoNCE",
        "contrastive",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(19)
source = torch.randn(256, 6)
mix = torch.randn(6, 20)
augment = lambda z: z @ mix + 0.7 * torch.randn(len(z), 20)

backbone = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32))
projector = nn.Sequential(nn.ReLU(), nn.Linear(32, 16))
groups = [{"params": backbone.parameters()}, {"params": projector.parameters()}]
optimizer = torch.optim.SGD(groups, lr=0.2, momentum=0.9)
temperature = 0.2
""",
        forward="""
z = source[torch.randperm(256)[:96]]
left = F.normalize(projector(backbone(augment(z))), dim=1)
right = F.normalize(projector(backbone(augment(z))), dim=1)
similarity = left @ right.t() / temperature
loss = F.cross_entropy(similarity, torch.arange(96))
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=80,
        faults=(
            Fault(
                "infonce normalised over the batch",
                "wrong dimension",
                (
                    (
                        "left = F.normalize(projector(backbone(augment(z))), dim=1)",
                        "left = F.normalize(projector(backbone(augment(z))), dim=0)",
                    ),
                    (
                        "right = F.normalize(projector(backbone(augment(z))), dim=1)",
                        "right = F.normalize(projector(backbone(augment(z))), dim=0)",
                    ),
                ),
                where=("normalize", "norm", "left", "right"),
                source="StackOverflow, dim of F.normalize",
            ),
            Fault(
                "infonce all labels zero",
                "target",
                (("torch.arange(96)", "torch.zeros(96, dtype=torch.long)"),),
                where=("target", "label", "class", "constant", "cross_entropy"),
                source="SimCLR issue, labels of zeros without the positive in column 0",
            ),
            Fault(
                "infonce temperature upside down",
                "none found",
                (("left @ right.t() / temperature", "left @ right.t() * temperature"),),
                where=("similarity", "temperature", "cross_entropy"),
                source="StackOverflow, temperature multiplied",
            ),
            Fault(
                "infonce backbone with rate zero",
                "rate too small",
                (('{"params": backbone.parameters()}', '{"params": backbone.parameters(), "lr": 0.0}'),),
                where=("backbone", r"\blr\b", "rate"),
                source="PyTorch forum, a parameter group with lr 0",
            ),
        ),
    ),
)

PROBES = {
    "signal REINFORCE": "o=torch.randn(2000,4)\nscore=(policy(o).argmax(1)==o.argmax(1)).float().mean()",
    "corridor DQN": """
q=policy_net(torch.rand(1000,2)*2-1); g=torch.Generator().manual_seed(0)
s=torch.rand(1000,2,generator=g)*2-1; mv=torch.tensor([[-0.4,0.0],[0.4,0.0],[0.0,0.4]])
r=torch.stack([-((s+m).clamp(-1,1)-.5).norm(dim=1) for m in mv],1)
score=(policy_net(s).argmax(1)==r.argmax(1)).float().mean()
""",
    "oscillator PINN": "score=(pinn(t)-torch.cos(omega*t)).pow(2).mean()",
    "siamese signatures": """
e=embed(style); dd=torch.cdist(e,e)+1e9*torch.eye(200); score=(who[dd.argmin(1)]==who).float().mean()
""",
    "two views InfoNCE": """
a=F.normalize(projector(backbone(augment(source))),dim=1);b=F.normalize(projector(backbone(augment(source))),dim=1)
score=((a@b.t()).argmax(1)==torch.arange(256)).float().mean()
""",
}
