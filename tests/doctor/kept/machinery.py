"""Own Functions, checkpoints, mixed precision, accumulation, depth, graphs, pairs."""

from tests.doctor.program import Fault, Program

LOOPS = ("whole", "loop", "function")

SPIKES = Program(
    "own activation with a backward",
    "regression",
    """
import torch
from torch import nn

torch.manual_seed(40)

class Softsign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x, slope)
        return slope * x / (1 + x.abs())

    @staticmethod
    def backward(ctx, grad):
        x, slope = ctx.saved_tensors
        grad_x = grad * slope / (1 + x.abs()) ** 2
        grad_slope = (grad * x / (1 + x.abs())).sum(0)
        return grad_x, grad_slope

class SoftLayer(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)
        self.slope = nn.Parameter(torch.ones(n_out))

    def forward(self, x):
        return Softsign.apply(self.linear(x), self.slope)

model = nn.Sequential(SoftLayer(3, 16), SoftLayer(16, 16), nn.Linear(16, 1))
X = torch.rand(150, 3) * 4 - 2
y = (torch.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 2)[:, None]
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
""",
    """
batch = torch.randint(0, 150, (50,))
loss = ((model(X[batch]) - y[batch]) ** 2).mean()
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    faults=(
        Fault(
            "backward gives None for the input",
            "custom function",
            (("return grad_x, grad_slope", "return None, grad_slope"),),
            (r"Softsign", r"backward"),
            "pytorch 45405: a Function that returns None",
        ),
        Fault(
            "gradients in the wrong order",
            "custom function",
            (("return grad_x, grad_slope", "return grad_slope.expand_as(x), grad_x.sum(0)"),),
            (r"Softsign", r"backward"),
            "PyTorch's notes on extending autograd: one gradient for each input, in order",
        ),
        Fault(
            "derivative with the wrong power",
            "custom function",
            (("grad_x = grad * slope / (1 + x.abs()) ** 2", "grad_x = -grad * slope / (1 + x.abs())"),),
            (r"Softsign", r"backward"),
            "PyTorch's notes on extending autograd: check with gradcheck; Zhang 2018",
        ),
        Fault(
            "results kept on ctx",
            "kept graphs",
            (
                (
                    "ctx.save_for_backward(x, slope)\n        return slope * x / (1 + x.abs())",
                    "ctx.save_for_backward(x, slope)\n        ctx.y = slope * x / (1 + x.abs())\n        return ctx.y",
                ),
            ),
            (r"ctx", r"Softsign"),
            "pytorch 25340: outputs saved as attributes of ctx leak",
            LOOPS,
        ),
        Fault(
            "mean over rows before the difference",
            "wrong dimension",
            (("loss = ((model(X[batch]) - y[batch]) ** 2).mean()", "loss = (model(X[batch]) - y[batch]).mean() ** 2"),),
            (r"\bmean\b", r"\bpow\b", r"\*\* 2"),
            "Humbatova 2020: wrong loss function calculation, mean and square exchanged",
        ),
    ),
)

ADAPTED = Program(
    "adapters on a checkpointed stack",
    "LoRA",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

torch.manual_seed(41)
D = 16

class AdaptedLinear(nn.Module):
    def __init__(self, r=2):
        super().__init__()
        self.base = nn.Linear(D, D)
        for p in self.base.parameters():
            p.requires_grad = False
        self.A = nn.Parameter(torch.randn(D, r) / r**0.5)
        self.B = nn.Parameter(torch.zeros(r, D))

    def forward(self, x):
        return self.base(x) + x @ self.A @ self.B

class Stack(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.words = nn.Embedding(12, D)
        self.words.weight.requires_grad = False
        self.stages = nn.ModuleList(
            nn.Sequential(AdaptedLinear(), nn.GELU(), AdaptedLinear(), nn.LayerNorm(D)) for _ in range(n)
        )
        self.readout = nn.Linear(D, 3)

    def forward(self, tokens):
        h = self.words(tokens).mean(1)
        for stage in self.stages:
            h = h + checkpoint(stage, h, use_reentrant=False)
        return self.readout(h)

stack = Stack()
trainable = [p for p in stack.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=1e-2)
tokens = torch.randint(0, 12, (90, 5))
topic = (tokens.float().mean(1) / 4).long().clamp(0, 2)
""",
    """
rows = torch.randperm(90)[:45]
loss = F.cross_entropy(stack(tokens[rows]), topic[rows])
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    faults=(
        Fault(
            "reentrant checkpoint of frozen embeddings",
            "checkpoint",
            (("use_reentrant=False", "use_reentrant=True"),),
            (r"checkpoint", r"stages", r"stages\.0"),
            "transformers 42489, peft 137, 1142: LoRA with gradient checkpointing",
        ),
        Fault(
            "both adapter factors begin at zero",
            "initialization",
            (("self.A = nn.Parameter(torch.randn(D, r) / r**0.5)", "self.A = nn.Parameter(torch.zeros(D, r))"),),
            (r"\bA\b", r"\bB\b"),
            "Hu 2021: one factor of LoRA is random, the other zero; peft threads",
        ),
        Fault(
            "adapters are filtered away",
            "no optimizer",
            (
                (
                    "[p for p in stack.parameters() if p.requires_grad]",
                    '[p for n, p in stack.named_parameters() if "lora_" in n or "readout" in n]',
                ),
            ),
            (r"\bA\b", r"\bB\b", r"stages"),
            "peft threads: filter by a name that does not occur; TrainCheck",
        ),
        Fault(
            "base weights decay with a gradient of zero",
            "frozen but changing",
            (
                (
                    "trainable = [p for p in stack.parameters() if p.requires_grad]\n",
                    "trainable = list(stack.parameters())\nfor p in trainable:\n    p.grad = torch.zeros_like(p)\n",
                ),
                ("optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)"),
                ("lr=1e-2", "lr=1e-2, weight_decay=0.5"),
            ),
            (r"\bbase\b", r"\bwords\b"),
            "PyTorch forum: frozen parameters with a zero gradient go on changing by weight decay",
        ),
    ),
)

LOWBITS = Program(
    "slopes in half the bits",
    "regression",
    """
import torch
import torch.nn as nn

torch.manual_seed(42)
inputs = torch.randn(128, 8)
outputs = torch.tanh(inputs @ torch.randn(8, 2) / 2)

network = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(network.parameters(), lr=0.2)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
mse = nn.MSELoss()
""",
    """
optimizer.zero_grad()
with torch.autocast("cpu", dtype=torch.bfloat16):
    guess = network(inputs)
    loss = mse(guess.float(), outputs)
""",
    """
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
nn.utils.clip_grad_norm_(network.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
""",
    faults=(
        Fault(
            "clipped while still scaled",
            "early call",
            (("scaler.unscale_(optimizer)\n", ""),),
            (r"clip", r"unscale"),
            "PyTorch's recipe for amp: unscale_ before clipping; transformers threads",
        ),
        Fault(
            "the scaler updates and never steps",
            "no step",
            (("scaler.step(optimizer)\n", ""), ("scaler.update()", "scaler.update(256.0)")),
            (r"SGD", r"GradScaler", r"\bscaler\b", r"\b[02]\.weight"),
            "TrainCheck: steps that are left out",
        ),
        Fault(
            "weights in bfloat16 and a small rate",
            "never moves",
            (
                ("nn.SiLU(), nn.Linear(32, 2))", "nn.SiLU(), nn.Linear(32, 2)).bfloat16()"),
                ("lr=0.2", "lr=2e-4"),
                ("guess = network(inputs)", "guess = network(inputs.bfloat16())"),
            ),
            (r"bfloat16", r"\b[02]\.weight", r"> [02] \(Linear"),
            "PyTorch forum: pure bfloat16 training, updates below the rounding",
            LOOPS,
        ),
        Fault(
            "zeroed after backward",
            "early call",
            (
                ("optimizer.zero_grad()\nwith", "with"),
                ("scaler.unscale_(optimizer)", "scaler.unscale_(optimizer)\noptimizer.zero_grad()"),
            ),
            (r"zero_grad",),
            "PyTorch forum: order of zero_grad, backward and step",
        ),
    ),
)

PIECES = Program(
    "batches in four pieces",
    "accumulation",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(43)
truth = torch.randn(10, 4)

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(10, 40)
        self.act = nn.Hardswish()
        self.down = nn.Linear(40, 4)

    def forward(self, x):
        return self.down(self.act(self.up(x)))

mlp = Mlp()
optimizer = torch.optim.SGD(mlp.parameters(), lr=0.3, momentum=0.5)
ACCUMULATE = 4
""",
    """
x = torch.randn(16 * ACCUMULATE, 10)
y = (x @ truth).argmax(1)
optimizer.zero_grad()
for piece, label in zip(x.chunk(ACCUMULATE), y.chunk(ACCUMULATE)):
    loss = F.cross_entropy(mlp(piece), label)
    (loss / ACCUMULATE).backward()
""",
    """
optimizer.step()
""",
    faults=(
        Fault(
            "pieces are added and not divided",
            "accumulation",
            (
                ("    (loss / ACCUMULATE).backward()", "    loss.backward()"),
                ("ACCUMULATE = 4", "ACCUMULATE = 24"),
                ("16 * ACCUMULATE", "4 * ACCUMULATE"),
            ),
            (r"backward\(\)", r"\bdown\b", r"\bup\b", r"SGD"),
            "Unsloth and transformers 2024: loss of gradient accumulation; fairseq threads",
        ),
        Fault(
            "frozen after five steps, moved by momentum",
            "frozen but changing",
            (
                (
                    "optimizer.zero_grad()\nfor",
                    "if step == 5:\n    mlp.up.requires_grad_(False)\noptimizer.zero_grad(set_to_none=False)\nfor",
                ),
            ),
            (r"\bup\b",),
            "PyTorch forum: parameters with requires_grad=False go on changing by momentum",
            LOOPS,
        ),
        Fault(
            "zeroed in every piece",
            "early call",
            (
                (
                    "optimizer.zero_grad()\nfor piece, label in zip(x.chunk(ACCUMULATE), y.chunk(ACCUMULATE)):\n",
                    "for piece, label in zip(x.chunk(ACCUMULATE), y.chunk(ACCUMULATE)):\n    optimizer.zero_grad()\n",
                ),
            ),
            (r"zero_grad",),
            "PyTorch forum: zero_grad inside the accumulation",
        ),
        Fault(
            "losses summed over the pieces, one backward each",
            "second backward",
            (
                ("    (loss / ACCUMULATE).backward()", "    whole = whole + loss / ACCUMULATE\n    whole.backward()"),
                ("optimizer.zero_grad()\nfor", "optimizer.zero_grad()\nwhole = 0.0\nfor"),
            ),
            (r"\bwhole\b",),
            "PyTorch forum: backward of a running sum of losses in each iteration",
        ),
        Fault(
            "the loss is divided and not sent backward",
            "no step",
            (("    (loss / ACCUMULATE).backward()", "    loss / ACCUMULATE"),),
            (r"SGD", r"\bup\b", r"\bdown\b", r"loss / ACCUMULATE"),
            "Islam 2019: missing API call; TrainCheck",
        ),
    ),
)

DEEP = Program(
    "fourteen layers on a spiral",
    "classifier",
    """
import math
import torch
import torch.nn as nn

torch.manual_seed(44)
turns = torch.rand(200) * 2 + 0.3
arm = torch.arange(200) % 2
phi = turns * math.pi + arm * math.pi
xy = torch.stack([turns * phi.cos(), turns * phi.sin()], 1) + 0.05 * torch.randn(200, 2)

def mlp(widths, activation):
    layers = []
    for a, b in zip(widths[:-1], widths[1:]):
        layers += [nn.Linear(a, b), nn.BatchNorm1d(b), activation()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 2))

net = mlp([2] + [24] * 14, nn.ReLU)
for m in net.modules():
    if isinstance(m, nn.Linear):
        nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
        nn.init.zeros_(m.bias)
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
objective = nn.CrossEntropyLoss()
""",
    """
y_hat = net(xy)
loss = objective(y_hat, arm)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    faults=(
        Fault(
            "sigmoid in all of fourteen layers, no norm",
            "vanishing",
            (
                ("[nn.Linear(a, b), nn.BatchNorm1d(b), activation()]", "[nn.Linear(a, b), activation()]"),
                ("net = mlp([2] + [24] * 14, nn.ReLU)", "net = mlp([2] + [24] * 14, nn.Sigmoid)"),
                ('nn.init.kaiming_normal_(m.weight, nonlinearity="relu")', "nn.init.xavier_uniform_(m.weight)"),
            ),
            (r"sigmoid", r"\b0\.weight", r"> 0 \(Linear"),
            "AUTOTRAINER, DeepLocalize: vanishing gradient of deep sigmoid nets",
        ),
        Fault(
            "biases of minus thirty",
            "dead units",
            (
                ("[nn.Linear(a, b), nn.BatchNorm1d(b), activation()]", "[nn.Linear(a, b), activation()]"),
                ("nn.init.zeros_(m.bias)", "nn.init.constant_(m.bias, -30.0)"),
            ),
            (r"relu", r"> [01] \(", r"\b0\.(weight|bias)"),
            "AUTOTRAINER, Lu 2019: dying relu",
        ),
        Fault(
            "weights of deviation 5 without norm",
            "exploding",
            (
                ("[nn.Linear(a, b), nn.BatchNorm1d(b), activation()]", "[nn.Linear(a, b), activation()]"),
                ('nn.init.kaiming_normal_(m.weight, nonlinearity="relu")', "nn.init.normal_(m.weight, std=5.0)"),
            ),
            (r"> \d+ \(Linear", r"\b\d+\.weight"),
            "AUTOTRAINER: exploding gradient; Humbatova 2020: initialisation",
        ),
        Fault(
            "the whole net in a reentrant checkpoint",
            "checkpoint",
            (
                ("y_hat = net(xy)", "y_hat = torch.utils.checkpoint.checkpoint(net, xy, use_reentrant=True)"),
                ("import torch.nn as nn\n", "import torch.nn as nn\nimport torch.utils.checkpoint\n"),
            ),
            (r"checkpoint",),
            "PyTorch's warning: none of the inputs have requires_grad=True; Stack Overflow",
        ),
        Fault(
            "noise in the place of the points",
            "none found",
            (("y_hat = net(xy)", "y_hat = net(torch.randn_like(xy))"), ("[24] * 14", "[24] * 2")),
            (r"\bobjective\b", r"cross_entropy"),
            "Karpathy's recipe: input-independent baseline",
            LOOPS,
        ),
        Fault(
            "squared error of the number of the class",
            "target",
            (("loss = objective(y_hat, arm)", "loss = nn.functional.mse_loss(y_hat[:, 0], arm.float())"),),
            (r"mse", r"\barm\b"),
            "Humbatova 2020: wrong loss for a classification, labels as numbers",
        ),
    ),
)

CITATIONS = Program(
    "communities of a graph",
    "graph",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(45)
nodes = 60
community = torch.arange(nodes) % 3
same = community[:, None] == community[None, :]
edges = (torch.rand(nodes, nodes) < torch.where(same, 0.3, 0.03)).float()
adjacency = ((edges + edges.t()) > 0).float().fill_diagonal_(1.0)
degree = adjacency.sum(1)
propagate = adjacency / torch.sqrt(degree[:, None] * degree[None, :])
feats = F.one_hot(community, 3).float() + torch.randn(nodes, 3)
train_mask = torch.rand(nodes) < 0.6

class GCNConv(nn.Module):
    def __init__(self, in_feats, out_feats):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_feats, out_feats))
        self.bias = nn.Parameter(torch.zeros(out_feats))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, a, h):
        return a @ (h @ self.weight) + self.bias

class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GCNConv(3, 16)
        self.conv2 = GCNConv(16, 3)

    def forward(self, a, h):
        h = F.relu(self.conv1(a, h))
        h = F.dropout(h, 0.2, training=self.training)
        return self.conv2(a, h)

gcn = GCN()
optimizer = torch.optim.Adam(gcn.parameters(), lr=3e-2, weight_decay=5e-4)
""",
    """
out = gcn(propagate, feats)
loss = F.cross_entropy(out[train_mask], community[train_mask])
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    faults=(
        Fault(
            "lonely nodes divide by zero",
            "nan",
            (
                (
                    "adjacency = ((edges + edges.t()) > 0).float().fill_diagonal_(1.0)",
                    "lively = (torch.arange(nodes) > 2).float()\n"
                    "adjacency = ((edges + edges.t()) > 0).float() * lively * lively[:, None]",
                ),
            ),
            (r"propagate", r"matmul", r"\bmm\b", r"@", r"\bdiv\b"),
            "PyG and DGL threads: NaN from the degree of isolated nodes",
        ),
        Fault(
            "second convolution is the first detached",
            "cut",
            (
                (
                    "h = F.dropout(h, 0.2, training=self.training)",
                    "h = torch.tensor(F.dropout(h, 0.2, training=self.training).detach().tolist())",
                ),
            ),
            (r"detach", r"conv1", r"tolist", r"torch\.tensor"),
            "PyTorch forum: torch.tensor(x) of a result copies it out of the graph",
        ),
        Fault(
            "output of relu in the last convolution",
            "output activation",
            (("return self.conv2(a, h)", "return F.relu(self.conv2(a, h))"),),
            (r"relu", r"conv2"),
            "Humbatova 2020: wrong activation at the output",
        ),
        Fault(
            "layer made in forward",
            "unregistered",
            (
                ("self.conv2 = GCNConv(16, 3)", "self.width = 16"),
                ("return self.conv2(a, h)", "return GCNConv(self.width, 3)(a, h)"),
            ),
            (r"conv2", r"GCNConv"),
            "PyTorch forum: a layer created inside forward is new in each step",
        ),
        Fault(
            "all weights zero",
            "initialization",
            (("nn.init.xavier_uniform_(self.weight)", "nn.init.zeros_(self.weight)"),),
            (r"conv1", r"conv2"),
            "Karpathy: zero initialisation; Humbatova 2020: wrong weights initialisation",
        ),
        Fault(
            "decay swallows the convolutions",
            "regularization",
            (("weight_decay=5e-4", "weight_decay=25.0"),),
            (r"weight_decay", r"\bAdam\b", r"conv1", r"conv2"),
            "Humbatova 2020: hyperparameters, regularisation; DeepFD",
            LOOPS,
        ),
    ),
)

TWINS = Program(
    "same or different signatures",
    "metric learning",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(46)
styles = torch.randn(6, 20)

def draw(n=48):
    writer = torch.randint(6, (n,))
    other = torch.where(torch.rand(n) < 0.5, writer, torch.randint(6, (n,)))
    noise = 0.4 * torch.randn(2, n, 20)
    return styles[writer] + noise[0], styles[other] + noise[1], (writer == other).float()

class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(20, 48), nn.PReLU(), nn.Linear(48, 8))

    def forward(self, a, b):
        return self.embed(a), self.embed(b)

net = Siamese()
opt = torch.optim.Adamax(net.parameters(), lr=1e-2)
margin = 2.0
""",
    """
first, second, same = draw()
ea, eb = net(first, second)
distance = torch.sqrt((ea - eb).pow(2).sum(1) + 1e-8)
loss = (same * distance.pow(2) + (1 - same) * F.relu(margin - distance).pow(2)).mean()
""",
    """
opt.zero_grad()
loss.backward()
opt.step()
""",
    faults=(
        Fault(
            "root of an exact zero",
            "nan",
            (
                ("torch.sqrt((ea - eb).pow(2).sum(1) + 1e-8)", "torch.sqrt((ea - eb).pow(2).sum(1))"),
                ("noise = 0.4 * torch.randn(2, n, 20)", "noise = 0.4 * torch.randn(1, n, 20).expand(2, n, 20)"),
            ),
            (r"sqrt",),
            "pytorch issues on the gradient of a norm at 0; Stack Overflow: siamese loss is NaN",
        ),
        Fault(
            "pairs are always the same person",
            "data",
            (("other = torch.where(torch.rand(n) < 0.5, writer, torch.randint(6, (n,)))", "other = writer"),),
            (r"\bsame\b", r"\bdistance\b"),
            "Humbatova 2020: training data, unbalanced; collapse of metric learning without negatives",
        ),
        Fault(
            "pull and push exchanged",
            "sign",
            (
                (
                    "loss = (same * distance.pow(2) + (1 - same) * F.relu(margin - distance).pow(2)).mean()",
                    "loss = -(same * distance.pow(2)).mean()",
                ),
            ),
            (r"\bneg\b", r"\bmean\b", r"distance"),
            "Humbatova 2020: wrong loss function calculation; contrastive loss with swapped labels",
            LOOPS,
        ),
        Fault(
            "projector that forward leaves out",
            "unused",
            (
                (
                    "self.embed = nn.Sequential(nn.Linear(20, 48), nn.PReLU(), nn.Linear(48, 8))",
                    "self.embed = nn.Sequential(nn.Linear(20, 48), nn.PReLU(), nn.Linear(48, 8))\n"
                    "        self.projector = nn.Sequential(nn.Linear(8, 8), nn.PReLU(), nn.Linear(8, 8))",
                ),
            ),
            (r"projector",),
            "PyTorch forum, DDP: parameters that were not used in producing loss",
        ),
    ),
)

PROGRAMS = [SPIKES, ADAPTED, LOWBITS, PIECES, DEEP, CITATIONS, TWINS]
