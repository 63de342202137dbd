"""Faults of training with a teacher, an average, adapters, and of loops with scaling and accumulation."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "soft labels of a big net",
        "distillation",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(41)
centres = 1.6 * torch.randn(5, 8)
def sample(n):
    y = torch.randint(0, 5, (n,))
    return centres[y] + torch.randn(n, 8), y

def mlp(*sizes, p=0.0):
    mods = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        mods += [nn.Linear(a, b), nn.ReLU(), nn.Dropout(p)]
    return nn.Sequential(*mods, nn.Linear(sizes[-2], sizes[-1]))

big = mlp(8, 128, 128, 5, p=0.2)
pre = torch.optim.Adam(big.parameters(), lr=3e-3)
for _ in range(80):
    xb, yb = sample(128)
    pre.zero_grad()
    F.cross_entropy(big(xb), yb).backward()
    pre.step()

class Distiller(nn.Module):
    def __init__(self, teacher, student, T=3.0, alpha=0.7):
        super().__init__()
        self.teacher, self.student = teacher, student
        self.T, self.alpha = T, alpha
        self.teacher.requires_grad_(False)
    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self
    def forward(self, x, y):
        with torch.no_grad():
            soft = F.softmax(self.teacher(x) / self.T, dim=1)
        logits = self.student(x)
        kd = F.kl_div(F.log_softmax(logits / self.T, dim=1), soft, reduction="batchmean") * self.T ** 2
        return self.alpha * kd + (1 - self.alpha) * F.cross_entropy(logits, y)

small = mlp(8, 24, 5)
distiller = Distiller(big, small).train()
optimizer = torch.optim.SGD(small.parameters(), lr=0.1, momentum=0.9, nesterov=True)
""",
        forward="""
xb, yb = sample(64)
loss = distiller(xb, yb)
""",
        update="""
loss.backward()
optimizer.step()
optimizer.zero_grad()
""",
        steps=70,
        faults=(
            Fault(
                "probabilities of the student in the divergence",
                "loss input",
                (
                    (
                        "F.kl_div(F.log_softmax(logits / self.T, dim=1), soft",
                        "F.kl_div(F.softmax(logits / self.T, dim=1), soft",
                    ),
                ),
                where=("softmax", "kl_div"),
                source="PyTorch forum, kl_div expects log-probabilities; Humbatova 2020",
            ),
            Fault(
                "the student's logits are detached for the divergence",
                "cut",
                (
                    (
                        "F.kl_div(F.log_softmax(logits / self.T, dim=1)",
                        "F.kl_div(F.log_softmax(logits.detach() / self.T, dim=1)",
                    ),
                ),
                where=("detach", "kl_div", "log_softmax"),
                source="PyTorch forum, the wrong net is detached in a distillation; TrainCheck",
            ),
            Fault(
                "the student is handed over in eval mode",
                "eval mode",
                (
                    ("small = mlp(8, 24, 5)", "small = mlp(8, 24, 5, p=0.1)"),
                    ("distiller = Distiller(big, small).train()", "distiller = Distiller(big, small).eval()"),
                ),
                where=("student", "eval", "Distiller"),
                source="PyTorch forum, the student is in eval mode; TrainCheck",
            ),
            Fault(
                "the teacher is stepped too",
                "several networks",
                (
                    ("        self.teacher.requires_grad_(False)\n", ""),
                    (
                        "with torch.no_grad():\n            soft = F.softmax(self.teacher(x) / self.T, dim=1)\n",
                        "soft = F.softmax(self.teacher(x) / self.T, dim=1)\n",
                    ),
                    ("torch.optim.SGD(small.parameters()", "torch.optim.SGD(distiller.parameters()"),
                ),
                where=("teacher", "target", "soft"),
                source="PyTorch forum, the teacher of a distillation is trained; TrainCheck",
            ),
            Fault(
                "the optimizer steps the finished teacher",
                "no optimizer",
                (("optimizer = torch.optim.SGD(small.parameters()", "optimizer = torch.optim.SGD(big.parameters()"),),
                where=("student", r"\b0\b", "weight"),
                source="torchtest; PyTorch forum, wrong parameters are passed to the optimizer",
            ),
        ),
    ),
    Program(
        "few labels and a mean teacher",
        "semi-supervised",
        setup="""
import copy
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(43)
def rings(n):
    y = torch.randint(0, 2, (n,))
    angle = 6.28 * torch.rand(n)
    r = 1.0 + 1.2 * y + 0.15 * torch.randn(n)
    return torch.stack([r * angle.cos(), r * angle.sin()], 1), y

labeled_x, labeled_y = rings(40)
unlabeled_x, _ = rings(400)

def build():
    return nn.Sequential(nn.Linear(2, 40), nn.BatchNorm1d(40), nn.ReLU(),
                         nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 2))

student = build()
teacher = copy.deepcopy(student)
for param in teacher.parameters():
    param.detach_()
optimizer = torch.optim.Adam(student.parameters(), lr=0.01, weight_decay=1e-4)

@torch.no_grad()
def update_ema(student, teacher, alpha, global_step):
    alpha = min(1 - 1 / (global_step + 1), alpha)
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.mul_(alpha).add_(s, alpha=1 - alpha)

def ramp_up(step, length=40):
    return min(1.0, step / length)

def jitter(x):
    return x + 0.1 * torch.randn_like(x)
""",
        forward="""
u = unlabeled_x[torch.randint(0, 400, (64,))]
student_out = student(jitter(torch.cat([labeled_x, u])))
with torch.no_grad():
    teacher_prob = F.softmax(teacher(jitter(torch.cat([labeled_x, u]))), dim=1)
class_loss = F.cross_entropy(student_out[:40], labeled_y)
consistency = F.mse_loss(F.softmax(student_out, dim=1), teacher_prob)
loss = class_loss + 2.0 * ramp_up(step) * consistency
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
update_ema(student, teacher, 0.95, step)
""",
        steps=80,
        faults=(
            Fault(
                "the student's hidden layer starts with zeros",
                "initialization",
                (
                    (
                        "teacher = copy.deepcopy(student)\n",
                        "for p in student[3].parameters():\n    nn.init.zeros_(p)\nteacher = copy.deepcopy(student)\n",
                    ),
                ),
                where=(r"\b3\b", "weight", "zeros_"),
                source="DeepFD, improper weight initialization; Humbatova 2020, Wrong weights initialisation",
            ),
            Fault(
                "labels of the rings are shuffled",
                "data",
                (
                    (
                        "labeled_x, labeled_y = rings(40)\n",
                        "labeled_x, labeled_y = rings(40)\nlabeled_y = labeled_y[torch.randperm(40)]\n",
                    ),
                ),
                where=("labeled_y", "target", "label"),
                source="Humbatova 2020, Wrong labels for training data; DEFault, shuffled labels",
                hosts=LOOPS,
            ),
            Fault(
                "a batch of one sample in training",
                "normalization",
                (
                    (
                        "student_out = student(jitter(torch.cat([labeled_x, u])))",
                        "student_out = torch.cat([student(row[None]) for row in jitter(torch.cat([labeled_x, u]))])",
                    ),
                ),
                where=("BatchNorm", r"\b1\b", "student"),
                source="Stack Overflow, Expected more than 1 value per channel when training",
            ),
            Fault(
                "the rate is a whole one",
                "rate too large",
                (("lr=0.01, weight_decay=1e-4", "lr=1.0, weight_decay=1e-4"),),
                where=(r"\blr\b", "rate", "Adam"),
                source="DeepFD, learning rate too high; Humbatova 2020, Suboptimal learning rate",
                hosts=LOOPS,
            ),
            Fault(
                "only the consistency is minimised",
                "unused",
                (("loss = class_loss + 2.0 *", "loss = 2.0 *"),),
                where=("class_loss", "cross_entropy"),
                source="Humbatova 2020, Wrong loss function calculation: a forgotten term",
            ),
        ),
    ),
    Program(
        "adapters in a frozen transformer",
        "LoRA",
        setup="""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(47)
class LoRALinear(nn.Module):
    def __init__(self, base, r=4, lora_alpha=8):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad = False
        self.lora_A = nn.Parameter(torch.empty(r, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.scaling = lora_alpha / r
    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling

class TinyEncoder(nn.Module):
    def __init__(self, vocab=20, d=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.classifier = nn.Linear(d, 3)
    def forward(self, ids):
        x = self.emb(ids)
        att = F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))
        x = self.n1(x + att)
        x = self.n2(x + self.ff(x))
        return self.classifier(x.mean(1))

def get_peft(model):
    for p in model.parameters():
        p.requires_grad = False
    model.q, model.v = LoRALinear(model.q), LoRALinear(model.v)
    model.classifier = nn.Linear(32, 2)
    return model

def task(n):
    ids = torch.randint(0, 20, (n, 8))
    return ids, (ids < 7).sum(1).gt(2).long()

model = get_peft(TinyEncoder())
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=1e-2)
""",
        forward="""
ids, y = task(64)
loss = F.cross_entropy(model(ids), y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=70,
        faults=(
            Fault(
                "both matrices of the adapters are zero",
                "initialization",
                (("nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))", "nn.init.zeros_(self.lora_A)"),),
                where=("lora_A", "lora_B"),
                source="LoRA issues, A and B both zero; Humbatova 2020, Wrong weights initialisation",
            ),
            Fault(
                "everything is frozen after the adapters are put in",
                "frozen",
                (
                    (
                        "    for p in model.parameters():\n        p.requires_grad = False\n    model.q, model.v",
                        "    model.q, model.v",
                    ),
                    (
                        "model = get_peft(TinyEncoder())\n",
                        "model = get_peft(TinyEncoder())\nmodel.requires_grad_(False)\n"
                        "model.classifier.requires_grad_(True)\n",
                    ),
                ),
                where=("lora_A", "lora_B"),
                source="peft issues, requires_grad of the adapters is False; PyTorch forum",
            ),
            Fault(
                "the new head is not in the optimizer",
                "no optimizer",
                (
                    (
                        "[p for p in model.parameters() if p.requires_grad]",
                        '[p for n, p in model.named_parameters() if "lora" in n]',
                    ),
                ),
                where=("classifier",),
                source="peft issues, modules_to_save: the classifier is not trained",
            ),
            Fault(
                "the adapters are computed without a gradient",
                "cut",
                (
                    (
                        "return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling",
                        "return self.base(x) + (x @ self.lora_A.data.T @ self.lora_B.data.T) * self.scaling",
                    ),
                ),
                where=("lora_A", "lora_B", "data"),
                source="PyTorch forum, .data cuts the graph; TrainCheck",
            ),
            Fault(
                "decay of a tenth of the weights in each step",
                "regularization",
                (
                    (
                        "torch.optim.AdamW(trainable, lr=1e-2)",
                        "torch.optim.AdamW(trainable, lr=1e-2, weight_decay=30.0)",
                    ),
                ),
                where=("weight_decay", "decay", "lora", "classifier"),
                source="Humbatova 2020, Wrong regularisation; DeepFD",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "gradients of four batches in half precision",
        "mixed precision",
        setup="""
import torch
import torch.nn as nn

torch.manual_seed(53)
class TrainArgs:
    gradient_accumulation_steps = 4
    max_grad_norm = 1.0
    learning_rate = 8e-3
    num_update_steps = 25

class ResidualMLP(nn.Module):
    def __init__(self, d=10, width=48):
        super().__init__()
        self.stem = nn.Linear(d, width)
        self.blocks = nn.ModuleList([self.block(width), self.block(width)])
        self.head = nn.Linear(width, 1)
    def block(self, width):
        return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = h + block(h)
        return self.head(h).squeeze(-1)

args = TrainArgs()
w_true = torch.randn(10)
x_all = torch.randn(512, 10)
y_all = torch.tanh(x_all @ w_true / 3) + 0.3 * x_all[:, 0] * x_all[:, 1]
net = ResidualMLP()
decay = [p for p in net.parameters() if p.ndim > 1]
no_decay = [p for p in net.parameters() if p.ndim <= 1]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": no_decay, "weight_decay": 0.0}],
                              lr=args.learning_rate)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=args.num_update_steps)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
""",
        forward="""
rows = torch.randint(0, 512, (32,))
with torch.autocast("cpu", dtype=torch.bfloat16):
    pred = net(x_all[rows])
loss = nn.functional.mse_loss(pred.float(), y_all[rows])
""",
        update="""
scaler.scale(loss / args.gradient_accumulation_steps).backward()
if (step + 1) % args.gradient_accumulation_steps == 0:
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), args.max_grad_norm)
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    optimizer.zero_grad(set_to_none=True)
""",
        steps=100,
        faults=(
            Fault(
                "accumulated gradients are never cleared",
                "accumulated gradients",
                (("    optimizer.zero_grad(set_to_none=True)\n", ""),),
                where=("zero_grad", "stem", "head", "blocks", "optimizer"),
                source="PyTorch forum, gradient accumulation without zero_grad(); TrainCheck",
                hosts=LOOPS,
            ),
            Fault(
                "the rate falls with each small batch",
                "early call",
                (("    scheduler.step()\n", ""), ("if (step + 1) % args", "scheduler.step()\nif (step + 1) % args")),
                where=("scheduler", "step"),
                source="Hugging Face forum, scheduler.step() in each batch of an accumulation; PyTorch docs",
                hosts=LOOPS,
            ),
            Fault(
                "gradients are cleared in each small batch",
                "accumulation",
                (
                    (
                        "scaler.scale(loss / args.gradient_accumulation_steps).backward()",
                        "optimizer.zero_grad()\nscaler.scale(loss / args.gradient_accumulation_steps).backward()",
                    ),
                ),
                where=("zero_grad",),
                source="PyTorch forum, zero_grad() in each batch of an accumulation: only the last one counts",
                hosts=LOOPS,
            ),
            Fault(
                "gradients of four batches are clipped before they are unscaled",
                "early call",
                (
                    (
                        "    scaler.unscale_(optimizer)\n    nn.utils.clip_grad_norm_(net.parameters(), "
                        "args.max_grad_norm)\n",
                        "    nn.utils.clip_grad_norm_(net.parameters(), args.max_grad_norm)\n"
                        "    scaler.unscale_(optimizer)\n",
                    ),
                ),
                where=("clip", "unscale"),
                source="PyTorch AMP examples, gradient clipping; accelerate 641",
            ),
            Fault(
                "the weights of all matrices have a rate of 0",
                "rate too small",
                (('{"params": decay, "weight_decay": 0.01}', '{"params": decay, "weight_decay": 0.01, "lr": 0.0}'),),
                where=(r"\blr\b", "rate", "weight", "stem"),
                source="Humbatova 2020, Suboptimal learning rate; fast.ai forum, a group of rate 0",
                hosts=LOOPS,
            ),
        ),
    ),
)
