"""Faults of deep stacks of layers: vanishing, exploding, dead and saturated units."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "twelve layers",
        "deep",
        setup="""
import torch
from torch import nn

torch.manual_seed(22)
x = torch.randn(64, 10)
y = torch.sin(x[:, 0]) + x[:, 1].abs()

def block(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, n_out), nn.ReLU())

def init(m):
    if isinstance(m, nn.Linear):
        nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
        nn.init.zeros_(m.bias)

layers = [block(10, 32)] + [block(32, 32) for _ in range(10)] + [nn.Linear(32, 1)]
model = nn.Sequential(*layers)
model.apply(init)
optimizer = torch.optim.SGD(model.parameters(), lr=2e-3, momentum=0.9)
""",
        forward="""
loss = (model(x).squeeze(1) - y).pow(2).mean()
""",
        update="""
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(model.parameters(), 10.0)
optimizer.step()
""",
        faults=(
            Fault(
                "sigmoids in all layers",
                "vanishing",
                (
                    ("nn.Linear(n_in, n_out), nn.ReLU()", "nn.Linear(n_in, n_out), nn.Sigmoid()"),
                    ('nonlinearity="relu"', 'nonlinearity="sigmoid"'),
                ),
                where=("sigmoid", r"0\.0\.weight", r"\b0\b", r"1\.0", "layers"),
                source="DeepDiagnosis and AUTOTRAINER, vanishing gradient; Humbatova 2020, Wrong type of activation "
                "function",
            ),
            Fault(
                "weights that are too large",
                "exploding",
                (('nn.init.kaiming_normal_(m.weight, nonlinearity="relu")', "nn.init.normal_(m.weight, std=1.5)"),),
                where=(r"\b0\b", "weight", "linear"),
                source="AUTOTRAINER, exploding gradient; Humbatova 2020, Wrong weights initialisation",
            ),
            Fault(
                "weights that are too small",
                "initialization",
                (('nn.init.kaiming_normal_(m.weight, nonlinearity="relu")', "nn.init.normal_(m.weight, std=0.01)"),),
                where=(r"\b0\b", "weight", "linear"),
                source="Humbatova 2020, Wrong weights initialisation; Glorot 2010",
            ),
            Fault(
                "relus that die of their bias",
                "dead units",
                (("nn.init.zeros_(m.bias)", "nn.init.constant_(m.bias, -2.0)"),),
                where=("relu", r"\b0\b", r"\b1\b", "bias"),
                source="DeepLocalize and AUTOTRAINER, dying relu",
            ),
            Fault(
                "summed loss and a rate of 0.5",
                "rate too large",
                (("- y).pow(2).mean()", "- y).pow(2).sum()"), ("lr=2e-3", "lr=0.5")),
                where=("rate", r"\blr\b", "optimizer", "sum"),
                source="Humbatova 2020, Suboptimal learning rate; Wrong loss function calculation",
                hosts=LOOPS,
            ),
            Fault(
                "the square root of an error of 0",
                "nan",
                (
                    (
                        "loss = (model(x).squeeze(1) - y).pow(2).mean()",
                        "error = model(x).squeeze(1) - y\nerror = error * (error.abs() > 0.1)\n"
                        "loss = error.pow(2).sqrt().mean()",
                    ),
                ),
                where=("sqrt", "error"),
                source="Stack Overflow and pytorch issues, gradient of sqrt at 0 is infinite",
            ),
            Fault(
                "reentrant checkpoint of the data",
                "checkpoint",
                (
                    ("import torch\n", "import torch\nfrom torch.utils.checkpoint import checkpoint_sequential\n"),
                    ("model(x).squeeze(1)", "checkpoint_sequential(model, 3, x, use_reentrant=True).squeeze(1)"),
                ),
                where=("checkpoint", "reentrant", r"0\.0\.weight", r"\b0\b"),
                source="PyTorch documentation of checkpoint: at least one input must require a gradient",
            ),
        ),
    ),
    Program(
        "embeddings of pairs",
        "contrastive",
        setup="""
import torch
import torch.nn.functional as F

torch.manual_seed(23)
words, dim = 24, 12
left = torch.arange(words)
right = left ^ 1
table_in = torch.randn(words, dim, requires_grad=True)
table_out = torch.randn(words, dim, requires_grad=True)
temperature = torch.tensor(1.0, requires_grad=True)
optimizer = torch.optim.Adagrad([table_in, table_out, temperature], lr=0.3)

def similarity(a, b):
    a = F.normalize(a, dim=1)
    b = F.normalize(b, dim=1)
    return a @ b.t() / temperature
""",
        forward="""
logits = similarity(table_in[left], table_out[right])
labels = torch.arange(words)
loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "normalised over the batch",
                "wrong dimension",
                (
                    ("a = F.normalize(a, dim=1)", "a = F.normalize(a, dim=0)"),
                    ("b = F.normalize(b, dim=1)", "b = F.normalize(b, dim=0)"),
                ),
                where=("normalize", "similarity", "div", "norm"),
                source="Humbatova 2020, Wrong layer properties; Stack Overflow, dim argument of normalize",
            ),
            Fault(
                "one table is a plain copy",
                "cut",
                (("table_out[right])", "table_out.data[right])"),),
                where=("table_out", r"\.data"),
                source="Zhang 2018, Confusion with computation model; PyTorch forum, .data and detach",
            ),
            Fault(
                "the temperature is in no optimizer",
                "no optimizer",
                (("[table_in, table_out, temperature]", "[table_in, table_out]"),),
                where=("temperature",),
                source="PyTorch forum, own parameter is not updated",
            ),
            Fault(
                "distance of equal rows",
                "nan",
                (
                    (
                        "    return a @ b.t() / temperature",
                        "    gap = (a[:, None] - a.detach()[None]).pow(2).sum(-1).sqrt()\n"
                        "    return a @ b.t() / temperature - 0.1 * gap",
                    ),
                ),
                where=("sqrt", "gap"),
                source="PyTorch forum, NaN gradient of a Euclidean distance of 0",
            ),
            Fault(
                "softmax, then cross_entropy",
                "loss input",
                (("    return a @ b.t() / temperature", "    return torch.softmax(a @ b.t() / temperature, dim=1)"),),
                where=("softmax", "similarity"),
                source="Karpathy, most common mistakes: softmaxed outputs to a loss that expects raw logits",
            ),
            Fault(
                "log_softmax, then nll of the exponential",
                "loss input",
                (("F.cross_entropy(logits, labels) +", "F.nll_loss(torch.softmax(logits, 1), labels) +"),),
                where=("softmax", "nll"),
                source="Humbatova 2020, Wrong loss function calculation; PyTorch forum, NLLLoss expects log "
                "probabilities",
            ),
            Fault(
                "computed once before the loop",
                "second backward",
                (
                    ("logits = similarity(table_in[left], table_out[right])\n", ""),
                    (
                        "    return a @ b.t() / temperature\n",
                        "    return a @ b.t() / temperature\n\nlogits = similarity(table_in[left], table_out[right])\n",
                    ),
                ),
                where=("logits", "similarity", "temperature"),
                source="PyTorch forum, a second time: a part of the graph is made before the loop",
                hosts=LOOPS,
            ),
        ),
    ),
)
