"""Faults of loops with accumulation, mixed precision, schedules and averaged weights."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "scaled gradients",
        "mixed precision",
        setup="""
import torch
from torch import nn

torch.manual_seed(24)
x = torch.randn(96, 12)
y = (x[:, 0] - x[:, 1] > 0).long() + 2 * (x[:, 2] * x[:, 3] > 0).long()
model = nn.Sequential(nn.Linear(12, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
""",
        forward="""
with torch.autocast("cpu", dtype=torch.bfloat16):
    out = model(x)
    loss = nn.functional.cross_entropy(out.float(), y)
""",
        update="""
optimizer.zero_grad()
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
""",
        steps=30,
        faults=(
            Fault(
                "clip of scaled gradients",
                "early call",
                (("scaler.unscale_(optimizer)\n", ""),),
                where=("clip", "unscale"),
                source="PyTorch AMP examples, gradient clipping; accelerate 641",
            ),
            Fault(
                "the optimizer steps without the scaler",
                "early call",
                (
                    (
                        "scaler.unscale_(optimizer)\nnn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
                        "scaler.step(optimizer)\nscaler.update()\n",
                        "optimizer.step()\n",
                    ),
                ),
                where=("step", "scale", "optimizer"),
                source="PyTorch forum, optimizer.step() instead of scaler.step(optimizer)",
            ),
            Fault(
                "unscaled after the clip",
                "early call",
                (
                    (
                        "scaler.unscale_(optimizer)\nnn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
                        "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\nscaler.unscale_(optimizer)\n",
                    ),
                ),
                where=("clip", "unscale"),
                source="accelerate 641, order of unscale and clip; PyTorch AMP examples",
            ),
            Fault(
                "weights of bfloat16 and a small rate",
                "never moves",
                (
                    ("nn.Linear(64, 4))\n", "nn.Linear(64, 4)).bfloat16()\n"),
                    ("lr=0.2, momentum=0.9", "lr=1e-5"),
                    ("out = model(x)", "out = model(x.bfloat16())"),
                ),
                where=("weight", r"\b0\b", "bfloat16", "round"),
                source="PyTorch forum, weights of bfloat16 do not change: the update is rounded away",
                hosts=LOOPS,
            ),
            Fault(
                "rate of 1e-12",
                "never moves",
                (("lr=0.2, momentum=0.9", "lr=1e-12"),),
                where=("weight", r"\b0\b", "rate", r"\blr\b"),
                source="Humbatova 2020, Suboptimal learning rate; Zhang 2018, Incorrect model parameter",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "accumulation of four batches",
        "accumulation",
        setup="""
import torch
import torch.nn as nn
import torch.nn.functional as F

class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(6, 40)
        self.mid = nn.Linear(40, 40)
        self.out = nn.Linear(40, 2)
    def forward(self, x):
        x = F.silu(self.inp(x))
        x = F.silu(self.mid(x)) + x
        return self.out(x)

torch.manual_seed(25)
data = torch.randn(128, 6)
goal = torch.stack([data[:, 0] * data[:, 1], data[:, 2].sin()], 1)
model = Mixer()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=25)
accumulation_steps = 4
""",
        forward="""
rows = torch.arange(32) + 32 * (step % 4)
loss = F.mse_loss(model(data[rows]), goal[rows]) / accumulation_steps
""",
        update="""
loss.backward()
if (step + 1) % accumulation_steps == 0:
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step()
""",
        steps=100,
        faults=(
            Fault(
                "not divided",
                "accumulation",
                (("goal[rows]) / accumulation_steps", "goal[rows])"),),
                where=("loss", "accumulation_steps", "backward"),
                source="Hugging Face and PyTorch forum, loss is not divided by the accumulation steps; Humbatova "
                "2020, Wrong loss function calculation",
                hosts=LOOPS,
            ),
            Fault(
                "zero_grad for each part",
                "early call",
                (
                    ("loss.backward()\nif", "optimizer.zero_grad()\nloss.backward()\nif"),
                    ("    optimizer.zero_grad()\n    scheduler", "    scheduler"),
                ),
                where=("zero_grad",),
                source="PyTorch forum, zero_grad inside gradient accumulation",
                hosts=LOOPS,
            ),
            Fault(
                "never zeroed",
                "accumulated gradients",
                (("    optimizer.zero_grad()\n", ""),),
                where=("zero_grad", "inp", "mid", "out"),
                source="Karpathy, most common mistakes: you forgot to .zero_grad() before .backward()",
                hosts=LOOPS,
            ),
            Fault(
                "scheduler before the optimizer",
                "early call",
                (
                    (
                        "    optimizer.step()\n    optimizer.zero_grad()\n    scheduler.step()\n",
                        "    scheduler.step()\n    optimizer.step()\n    optimizer.zero_grad()\n",
                    ),
                ),
                where=("scheduler",),
                source="transformers 1563; warning of PyTorch 1.1 on the order of the calls",
                hosts=LOOPS,
            ),
            Fault(
                "schedule whose period is one step",
                "rate too small",
                (("CosineAnnealingLR(optimizer, T_max=25)", "StepLR(optimizer, step_size=1, gamma=0.05)"),),
                where=("rate", r"\blr\b", "scheduler"),
                source="PyTorch forum, StepLR stepped per batch",
                hosts=LOOPS,
            ),
            Fault(
                "the step is never reached",
                "no step",
                (("if (step + 1) % accumulation_steps == 0", "if step % accumulation_steps == accumulation_steps"),),
                where=("step", "optimizer"),
                source="Islam 2019, Control and sequence bug",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "student and averaged teacher",
        "distillation",
        setup="""
import copy
import torch
from torch import nn

torch.manual_seed(26)
inputs = torch.randn(80, 5)
truth = (inputs.norm(dim=1) > 2.0).long()
student = nn.Sequential(nn.Linear(5, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 2))
teacher = copy.deepcopy(student)
teacher.requires_grad_(False)
teacher.eval()
optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)

@torch.no_grad()
def update_teacher(decay=0.9):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.mul_(decay).add_(s, alpha=1 - decay)
    for t, s in zip(teacher.buffers(), student.buffers()):
        t.copy_(s)
""",
        forward="""
student.train()
noisy = inputs + 0.05 * torch.randn_like(inputs)
logits = student(noisy)
with torch.no_grad():
    soft = teacher(inputs).softmax(-1)
supervised = nn.functional.cross_entropy(logits, truth)
consistency = nn.functional.kl_div(logits.log_softmax(-1), soft, reduction="batchmean")
loss = supervised + 0.3 * consistency
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
update_teacher()
""",
        faults=(
            Fault(
                "kl_div of probabilities",
                "loss input",
                (("kl_div(logits.log_softmax(-1), soft", "kl_div(logits.softmax(-1), soft"),),
                where=("kl_div", "softmax"),
                source="PyTorch documentation of kl_div, input in log-space; Humbatova 2020, Wrong loss function "
                "calculation",
            ),
            Fault(
                "the teacher learns, too",
                "several networks",
                (
                    ("teacher.requires_grad_(False)\n", ""),
                    ("with torch.no_grad():\n    soft", "if True:\n    soft"),
                    (
                        "torch.optim.Adam(student.parameters(), lr=1e-2)",
                        "torch.optim.Adam([*student.parameters(), *teacher.parameters()], lr=1e-2)",
                    ),
                ),
                where=("teacher", "soft"),
                source="Islam 2019, Coding bug; PyTorch forum, distillation whose teacher is not frozen",
            ),
            Fault(
                "statistics of the teacher change by its own forward",
                "frozen but changing",
                (
                    ("teacher.eval()\n", ""),
                    ("    for t, s in zip(teacher.buffers(), student.buffers()):\n        t.copy_(s)\n", ""),
                ),
                where=("teacher", "batch_?norm", "running", r"\b1\b"),
                source="lightly 1438, virtex 16: batch norm statistics change though frozen",
            ),
            Fault(
                "the supervised loss is left out",
                "unused",
                (("loss = supervised + 0.3 * consistency", "loss = 0.3 * consistency"),),
                where=("supervised",),
                source="Humbatova 2020, Wrong loss function calculation",
            ),
            Fault(
                "label smoothing of 1",
                "target",
                (
                    (
                        "nn.functional.cross_entropy(logits, truth)",
                        "nn.functional.cross_entropy(logits, truth, label_smoothing=1.0)",
                    ),
                ),
                where=("smoothing", "cross_entropy", "target"),
                source="Humbatova 2020, Suboptimal hyperparameters tuning",
            ),
        ),
    ),
)
