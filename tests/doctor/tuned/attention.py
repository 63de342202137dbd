"""Faults of attention: dimension and mask of the softmax, heads, positions, schedules with warm-up."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "tiny gpt",
        "attention",
        setup="""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from dataclasses import dataclass

torch.manual_seed(12)

@dataclass
class Config:
    vocab_size: int = 16
    block_size: int = 10
    n_embd: int = 32
    n_head: int = 4
    n_layer: int = 2

class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.register_buffer("bias", torch.tril(torch.ones(config.block_size, config.block_size)))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)

class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 2 * config.n_embd),
            nn.GELU(),
            nn.Linear(2 * config.n_embd, config.n_embd),
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x

class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def forward(self, idx, targets):
        pos = torch.arange(idx.size(1))
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))

config = Config()
model = GPT(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
warmup, max_steps = 5, 30

def get_lr(it):
    if it < warmup:
        return (it + 1) / warmup
    return 0.1 + 0.9 * (max_steps - it) / max_steps

scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, get_lr)
start = torch.randint(0, 16, (16, 1))
stride = torch.randint(1, 6, (16, 1))
sequences = (start + stride * torch.arange(11)) % 16
""",
        forward="""
idx, targets = sequences[:, :-1], sequences[:, 1:]
loss = model(idx, targets)
""",
        update="""
optimizer.zero_grad(set_to_none=True)
loss.backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
scheduler.step()
""",
        steps=30,
        faults=(
            Fault(
                "softmax over the queries",
                "attention",
                (("att = F.softmax(att, dim=-1)", "att = F.softmax(att, dim=-2)"),),
                where=("softmax", "att"),
                source="PyTorch forum, dim of the softmax in attention; Humbatova 2020, Wrong layer properties",
            ),
            Fault(
                "the mask hides everything",
                "attention",
                (('self.bias[:T, :T] == 0, float("-inf")', "self.bias[:T, :T] >= 0, -1e9"),),
                where=("mask", "att", "softmax"),
                source="Islam 2019, Logic bug; PyTorch forum, inverted attention mask",
            ),
            Fault(
                "the first row is masked with -inf",
                "nan",
                (
                    (
                        "torch.tril(torch.ones(config.block_size, config.block_size))",
                        "torch.tril(torch.ones(config.block_size, config.block_size), -1)",
                    ),
                ),
                where=("mask", "att", "softmax"),
                source="pytorch issues and forum, NaN of a softmax over a row of -inf",
            ),
            Fault(
                "scores are multiplied, not divided",
                "attention",
                (("* (1.0 / math.sqrt(k.size(-1)))", "* (100.0 * math.sqrt(k.size(-1)))"),),
                where=("softmax", "att"),
                source="Vaswani 2017, why scores are divided by the root of d; Islam 2019, Logic bug",
            ),
            Fault(
                "heads by view without transpose",
                "wrong dimension",
                (
                    (
                        "k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)",
                        "k = k.reshape(B, self.n_head, T, C // self.n_head)",
                    ),
                    (
                        "q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)",
                        "q = q.reshape(B, self.n_head, T, C // self.n_head)",
                    ),
                    (
                        "v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)",
                        "v = v.reshape(B, self.n_head, T, C // self.n_head)",
                    ),
                ),
                where=("view", r"\b[qkv]\b"),
                source="Karpathy, most common mistakes: you thought view() and permute() are the same thing",
            ),
            Fault(
                "transformer blocks in a plain list",
                "unregistered",
                (
                    (
                        "nn.ModuleList([Block(config) for _ in range(config.n_layer)])",
                        "[Block(config) for _ in range(config.n_layer)]",
                    ),
                ),
                where=(r"\bh\b", "block", "list", "attn", "mlp"),
                source="PyTorch forum, a list of modules is not registered",
            ),
            Fault(
                "warm-up by whole numbers",
                "rate too small",
                (
                    ("return (it + 1) / warmup", "return it // warmup"),
                    ("warmup, max_steps = 5, 30", "warmup, max_steps = 500, 30"),
                ),
                where=("rate", r"\blr\b", "scheduler", "optimizer"),
                source="Humbatova 2020, Suboptimal learning rate; Islam 2019, Coding bug",
                hosts=LOOPS,
            ),
            Fault(
                "positions are not added",
                "unused",
                (("x = self.wte(idx) + self.wpe(pos)", "x = self.wte(idx)"),),
                where=("wpe",),
                source="pytorch/tutorials 2522, why is this parameter not trained; Islam 2019, Data flow bug",
            ),
            Fault(
                "residual stream without norms grows",
                "exploding",
                (
                    ("x = x + self.mlp(self.ln_2(x))", "x = x + 40 * self.mlp(x)"),
                    ("x = x + self.attn(self.ln_1(x))", "x = x + 40 * self.attn(x)"),
                    ("n_layer: int = 2", "n_layer: int = 6"),
                    ("self.lm_head(self.ln_f(x))", "self.lm_head(x)"),
                ),
                where=(r"\bh\b", "mlp", "attn", "block", r"\bx\b"),
                source="AUTOTRAINER and DeepDiagnosis, exploding tensor; Humbatova 2020, Missing layer (normalisation)",
            ),
            Fault(
                "sampled tokens in the loss",
                "cut",
                (
                    (
                        "return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))",
                        "return ((self.wte(logits.argmax(-1)) - self.wte(targets)) ** 2).mean()",
                    ),
                ),
                where=("argmax", "logits", "lm_head"),
                source="Karpathy's recipe, use backprop to chart dependencies; PyTorch forum, argmax is not "
                "differentiable",
            ),
            Fault(
                "feed-forward without gelu",
                "no activation",
                (("            nn.GELU(),\n", ""),),
                where=("mlp", "linear"),
                source="Humbatova 2020, Missing activation layer; DeepFD, activation",
            ),
        ),
    ),
    Program(
        "set classifier with MultiheadAttention",
        "attention",
        setup="""
import torch
from torch import nn

torch.manual_seed(13)
n, length, dim = 48, 7, 16
sets = torch.randn(n, length, dim)
lengths = torch.randint(3, length + 1, (n,))
padding = torch.arange(length)[None] >= lengths[:, None]
sets[padding] = 0
key = torch.randn(dim)
scores = (sets @ key).masked_fill(padding, -1e9)
label = (scores.max(1).values > scores.max(1).values.median()).float()

class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 1, dim) * 0.3)
        self.attention = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x, mask):
        pooled, _ = self.attention(self.query.expand(len(x), -1, -1), x, x, key_padding_mask=mask)
        return self.mlp(self.norm(pooled[:, 0]))[:, 0]

pool = Pool()
optimizer = torch.optim.Adam([
    {"params": pool.attention.parameters(), "lr": 1e-2},
    {"params": [pool.query], "lr": 1e-2},
    {"params": [*pool.norm.parameters(), *pool.mlp.parameters()], "lr": 5e-3},
])
""",
        forward="""
logit = pool(sets, padding)
loss = nn.functional.binary_cross_entropy_with_logits(logit, label)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "every key is padding",
                "attention",
                (("pooled, _ = self.attention(", "mask = mask | ~mask\n        pooled, _ = self.attention("),),
                where=("attention", "mask"),
                source="pytorch issues and forum, key_padding_mask of all True gives NaN",
            ),
            Fault(
                "a group of rate 0",
                "rate too small",
                (
                    (
                        '{"params": pool.attention.parameters(), "lr": 1e-2}',
                        '{"params": pool.attention.parameters(), "lr": 0.0}',
                    ),
                ),
                where=("attention", r"\blr\b", "group"),
                source="Humbatova 2020, Suboptimal learning rate",
                hosts=LOOPS,
            ),
            Fault(
                "the query is in no group",
                "no optimizer",
                (('    {"params": [pool.query], "lr": 1e-2},\n', ""),),
                where=("query",),
                source="PyTorch forum, own parameter is not updated; pytorch/tutorials 2522",
            ),
            Fault(
                "logits against a column",
                "broadcast",
                (
                    (
                        "loss = nn.functional.binary_cross_entropy_with_logits(logit, label)",
                        "prob = torch.sigmoid(logit)[:, None]\nloss = ((prob - label) ** 2).mean()",
                    ),
                ),
                where=("48", "prob", "sub"),
                source="FARM 229, (n, 1) against (n,) in a loss; Humbatova 2020, Wrong tensor shape",
            ),
            Fault(
                "query and attention are frozen",
                "frozen",
                (
                    (
                        "nn.Parameter(torch.randn(1, 1, dim) * 0.3)",
                        "nn.Parameter(torch.randn(1, 1, dim) * 0.3, requires_grad=False)",
                    ),
                    (
                        "        self.norm = nn.LayerNorm(dim)\n",
                        "        self.norm = nn.LayerNorm(dim)\n        self.attention.requires_grad_(False)\n",
                    ),
                ),
                where=("query", "attention"),
                source="Lightning 19955, why is this parameter not trained",
            ),
            Fault(
                "functional dropout of 0.97",
                "dropout",
                (("self.norm(pooled[:, 0])", "nn.functional.dropout(self.norm(pooled[:, 0]), 0.97)"),),
                where=("dropout",),
                source="Humbatova 2020, Wrong layer properties (dropout rate)",
            ),
        ),
    ),
)
