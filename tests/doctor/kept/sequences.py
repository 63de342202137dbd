"""Sequences, words and attention."""

from tests.doctor.program import Fault, Program

LOOPS = ("whole", "loop", "function")

SURNAMES = Program(
    "language of a surname",
    "recurrent classifier",
    """
import torch
import torch.nn as nn

torch.manual_seed(20)
letters = "abcdefghijklmnopqrstuvwxyz"
names = {
    "it": ["rossi", "bianchi", "ferrari", "russo", "gallo", "conti", "bruno", "ricci"],
    "pl": ["nowak", "kowalczyk", "wojcik", "krawczyk", "mazurek", "dudek", "wozniak", "pawlak"],
    "jp": ["sato", "suzuki", "tanaka", "watanabe", "yamamoto", "nakamura", "kobayashi", "kato"],
}
languages = list(names)

def line_to_tensor(line):
    tensor = torch.zeros(len(line), 1, len(letters))
    for position, letter in enumerate(line):
        tensor[position, 0, letters.index(letter)] = 1
    return tensor

class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        hidden = torch.tanh(self.i2h(torch.cat((input, hidden), 1)))
        return self.softmax(self.h2o(hidden)), hidden

    def init_hidden(self):
        return torch.zeros(1, self.hidden_size)

rnn = RNN(26, 32, 3)
criterion = nn.NLLLoss()
optimizer = torch.optim.SGD(rnn.parameters(), lr=0.05)
""",
    """
language = step % 3
name = names[languages[language]][(step // 3) % 8]
category = torch.tensor([language])
hidden = rnn.init_hidden()
for letter in line_to_tensor(name):
    output, hidden = rnn(letter, hidden)
loss = criterion(output, category)
""",
    """
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
    steps=90,
    faults=(
        Fault(
            "hidden state from one name to the next",
            "second backward",
            (
                ("hidden = rnn.init_hidden()\n", ""),
                ("optimizer = torch.optim", "hidden = rnn.init_hidden()\noptimizer = torch.optim"),
            ),
            (r"hidden",),
            "PyTorch forum: trying to backward through the graph a second time, RNN; pytorch 36470",
            LOOPS,
        ),
        Fault(
            "LogSoftmax over the batch of one",
            "wrong dimension",
            (("nn.LogSoftmax(dim=1)", "nn.LogSoftmax(dim=0)"),),
            (r"softmax",),
            "Stack Overflow: loss is always 0, softmax over the batch; Humbatova 2020",
        ),
        Fault(
            "Softmax before NLLLoss",
            "loss input",
            (("nn.LogSoftmax(dim=1)", "nn.Softmax(dim=1)"),),
            (r"softmax", r"nll"),
            "Stack Overflow: NLLLoss wants log-probabilities",
        ),
        Fault(
            "the recurrence has no nonlinearity",
            "no activation",
            (
                (
                    "hidden = torch.tanh(self.i2h(torch.cat((input, hidden), 1)))",
                    "hidden = self.i2h(torch.cat((input, hidden), 1))",
                ),
            ),
            (r"i2h", r"h2o"),
            "PyTorch's own tutorial on names had none for years; Humbatova 2020: missing activation",
        ),
        Fault(
            "only one language is read",
            "data",
            (("language = step % 3", "language = 0"),),
            (r"\bcategory\b", r"nll"),
            "Humbatova 2020: unbalanced training data; Karpathy: look at the data",
            LOOPS,
        ),
    ),
)

WAVES = Program(
    "next value of a wave",
    "sequence regression",
    """
import torch
import torch.nn as nn

torch.manual_seed(21)
time = torch.arange(900) * 0.15
signal = torch.sin(time) + 0.3 * torch.sin(2.7 * time)
streams = signal[:896].view(4, 224).t().unsqueeze(2)

class Forecaster(nn.Module):
    def __init__(self, hidden_dim=16):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden_dim, num_layers=2)
        self.readout = nn.Linear(hidden_dim, 1)

    def forward(self, x, state=None):
        out, state = self.lstm(x, state)
        return self.readout(out), state

forecaster = Forecaster()
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(forecaster.parameters(), lr=2e-2)
state = None
""",
    """
start = (step * 20) % 200
chunk = streams[start:start + 20]
goal = streams[start + 1:start + 21]
if state is not None:
    state = tuple(s.detach() for s in state)
prediction, state = forecaster(chunk, state)
loss = loss_fn(prediction, goal)
""",
    """
optimizer.zero_grad(set_to_none=True)
loss.backward()
torch.nn.utils.clip_grad_norm_(forecaster.parameters(), 1.0)
optimizer.step()
""",
    faults=(
        Fault(
            "state is not detached",
            "second backward",
            (("if state is not None:\n    state = tuple(s.detach() for s in state)\n", ""),),
            (r"state", r"lstm"),
            "PyTorch forum and FAQ: hidden state kept over batches",
            LOOPS,
        ),
        Fault(
            "state is kept, and the graph with retain_graph",
            "inplace",
            (
                ("if state is not None:\n    state = tuple(s.detach() for s in state)\n", ""),
                ("loss.backward()", "loss.backward(retain_graph=True)"),
            ),
            (r"\bstate\b", r"lstm", r"Adam"),
            "PyTorch forum: retain_graph=True, then modified by an inplace operation",
            LOOPS,
        ),
        Fault(
            "one stream whose goal has no last dimension",
            "broadcast",
            (("loss = loss_fn(prediction, goal)", "loss = loss_fn(prediction[:, 0], goal[:, 0, 0])"),),
            (r"mse", r"goal", r"prediction"),
            "PyTorch issue 16045; Islam 2019: shape",
        ),
        Fault(
            "view instead of a transposition",
            "wrong dimension",
            (
                ("streams = signal[:896].view(4, 224).t().unsqueeze(2)", "streams = signal[:896].view(4, 224, 1)"),
                ("chunk = streams[start:start + 20]\n", "chunk = streams[:, start:start + 20].reshape(20, -1, 1)\n"),
                ("goal = streams[start + 1:start + 21]\n", "goal = streams[:, start + 1:start + 21].transpose(0, 1)\n"),
            ),
            (r"reshape", r"view"),
            "Karpathy's common mistakes: view and permute confused",
        ),
        Fault(
            "outputs copied into a tensor made by numpy",
            "cut",
            (
                (
                    "loss = loss_fn(prediction, goal)",
                    "smooth = torch.from_numpy(prediction.detach().numpy()).requires_grad_()\n"
                    "loss = loss_fn(smooth, goal)",
                ),
            ),
            (r"numpy", r"detach"),
            "PyTorch forum: can't call numpy() on Tensor that requires grad, the advice to detach",
        ),
        Fault(
            "relu on values of both signs",
            "output activation",
            (("return self.readout(out), state", "return torch.relu(self.readout(out)), state"),),
            (r"relu", r"readout"),
            "DeepFD: activation, regression with relu at the end",
        ),
    ),
)

REVERSE = Program(
    "reversing a sentence",
    "transformer",
    """
import math
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(22)
VOCAB, LENGTH, DIM, HEADS = 8, 6, 32, 4

class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, x, keep):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(DIM // HEADS)
        scores = scores.masked_fill(~keep[:, None, None, :], float("-inf"))
        weights = scores.softmax(dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, t, DIM))

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attn = SelfAttention()
        self.mlp = nn.Sequential(nn.Linear(DIM, 64), nn.GELU(), nn.Linear(64, DIM))

    def forward(self, x, keep):
        x = x + self.attn(self.ln1(x), keep)
        return x + self.mlp(self.ln2(x))

class Reverser(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, DIM, padding_idx=0)
        self.position = nn.Embedding(LENGTH, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm = nn.LayerNorm(DIM)
        self.unembed = nn.Linear(DIM, VOCAB)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight
        for layer in self.layers:
            x = layer(x, tokens != 0)
        return self.unembed(self.norm(x))

def sentences(n=24):
    tokens = torch.randint(1, VOCAB, (n, LENGTH))
    tokens[: n // 4, -2:] = 0
    return tokens, torch.where(tokens == 0, 0, tokens.flip(1).roll(0, 1))

gpt = Reverser()
optimizer = torch.optim.AdamW(gpt.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.01)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1.0, (i + 1) / 5))
""",
    """
tokens, answer = sentences()
logits = gpt(tokens)
loss = F.cross_entropy(logits.view(-1, VOCAB), answer.view(-1), ignore_index=0)
""",
    """
optimizer.zero_grad(set_to_none=True)
loss.backward()
nn.utils.clip_grad_norm_(gpt.parameters(), 1.0)
optimizer.step()
warmup.step()
""",
    faults=(
        Fault(
            "softmax over the queries",
            "attention",
            (("scores.softmax(dim=-1)", "scores.softmax(dim=-2)"), ('float("-inf")', "-1e9")),
            (r"softmax", r"attn"),
            "Humbatova 2020: wrong layer type or argument; Stack Overflow: softmax of attention over the wrong dim",
        ),
        Fault(
            "the mask hides everything it should keep",
            "attention",
            (
                (
                    'scores.masked_fill(~keep[:, None, None, :], float("-inf"))',
                    'scores.masked_fill(keep[:, None, None, :], float("-inf"))',
                ),
            ),
            (r"mask", r"softmax", r"attn"),
            "PyTorch issues on key_padding_mask: inverted meaning of the mask, all rows masked, NaN",
        ),
        Fault(
            "scores multiplied by the root",
            "attention",
            (
                (
                    "q @ k.transpose(-2, -1) / math.sqrt(DIM // HEADS)",
                    "20 * q @ k.transpose(-2, -1) * math.sqrt(DIM // HEADS)",
                ),
            ),
            (r"softmax", r"attn", r"scores"),
            "Vaswani 2017: unscaled scores saturate the softmax; Karpathy's nanoGPT",
        ),
        Fault(
            "cross entropy of transposed logits",
            "wrong dimension",
            (
                (
                    "logits.view(-1, VOCAB), answer.view(-1)",
                    "logits.transpose(0, 1).reshape(-1, VOCAB), answer.view(-1)",
                ),
            ),
            (r"transpose", r"reshape"),
            "Karpathy's recipe: information mixed over the batch dimension",
        ),
        Fault(
            "layers in a tuple",
            "unregistered",
            (("nn.ModuleList(Layer() for _ in range(2))", "tuple(Layer() for _ in range(2))"),),
            (r"layers",),
            "PyTorch forum: modules in a Python container are not in parameters()",
        ),
        Fault(
            "log_softmax before cross_entropy",
            "loss input",
            (
                (
                    "return self.unembed(self.norm(x))",
                    "return F.log_softmax(self.unembed(self.norm(x)), dim=-1)",
                ),
            ),
            (r"log_softmax", r"unembed"),
            "PyTorch forum: CrossEntropyLoss has log_softmax in it",
        ),
        Fault(
            "warm-up that never ends",
            "rate too small",
            (("min(1.0, (i + 1) / 5)", "min(1.0, (i + 1) / 5_000_000)"),),
            (r"LambdaLR", r"\blr\b", r"AdamW", r"warmup"),
            "fairseq and transformers threads: steps and epochs of the warm-up confused",
            LOOPS,
        ),
        Fault(
            "optimizer counts tokens of argmax",
            "cut",
            (
                (
                    "loss = F.cross_entropy(logits.view(-1, VOCAB), answer.view(-1), ignore_index=0)",
                    "words = logits.argmax(-1)\nloss = F.mse_loss(gpt.token(words), gpt.token(answer))",
                ),
            ),
            (r"argmax",),
            "Stack Overflow: argmax has no gradient",
        ),
    ),
)

REVIEWS = Program(
    "mood of a review",
    "text classifier",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(23)
vocabulary = 60

def review(i):
    mood = i % 2
    words = torch.randint(0, 40, (int(torch.randint(4, 10, (1,))),))
    hints = torch.randint(40, 50, (3,)) + 10 * mood
    return torch.cat([words, hints]), mood

corpus = [review(i) for i in range(160)]

def collate(items):
    texts, moods = zip(*items)
    lengths = torch.tensor([0] + [len(t) for t in texts[:-1]])
    return torch.cat(texts), lengths.cumsum(0), torch.tensor(moods, dtype=torch.float)

class Mood(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocabulary, 16, mode="mean")
        self.hidden = nn.Linear(16, 16)
        self.bn = nn.BatchNorm1d(16)
        self.score = nn.Linear(16, 1)

    def forward(self, text, offsets):
        x = self.embedding(text, offsets)
        x = torch.relu(self.bn(self.hidden(x)))
        return self.score(x).squeeze(1)

reader = Mood()
bce = nn.BCEWithLogitsLoss()
opt = torch.optim.Adam(reader.parameters(), lr=2e-2)
reviews = DataLoader(corpus, batch_size=40, shuffle=True, collate_fn=collate)
""",
    """
reader.train()
seen, total = 0.0, 0
for text, offsets, mood in reviews:
    opt.zero_grad()
    loss = bce(reader(text, offsets), mood)
    loss.backward()
    opt.step()
    seen += loss.item() * len(mood)
    total += len(mood)
""",
    """
epoch_loss = seen / total
reader.eval()
with torch.no_grad():
    text, offsets, mood = collate(corpus[:40])
    accuracy = ((reader(text, offsets) > 0) == mood.bool()).float().mean().item()
""",
    steps=12,
    faults=(
        Fault(
            "batches of two reviews under batch norm",
            "normalization",
            (
                ("batch_size=40", "batch_size=2"),
                ("corpus = [review(i) for i in range(160)]", "corpus = [review(i) for i in range(40)]"),
            ),
            (r"\bbn\b", r"BatchNorm"),
            "DeepFD: batch size; Full Stack Deep Learning: batch norm with tiny batches",
            ("whole", "loop", "step", "function"),
        ),
        Fault(
            "zeroed once an epoch",
            "accumulated gradients",
            (
                ("    opt.zero_grad()\n    loss = bce", "    loss = bce"),
                ("reader.train()\n", "reader.train()\nopt.zero_grad()\n"),
            ),
            (r"zero_grad", r"embedding", r"hidden", r"score"),
            "Stack Overflow: zero_grad outside of the loop over batches; Karpathy's common mistakes",
            ("whole", "loop", "step", "function"),
        ),
        Fault(
            "train is called once",
            "eval mode",
            (("reader.train()\n", ""),),
            (r"\bbn\b", r"eval", r"reader"),
            "Karpathy's common mistakes; Stack Overflow: model.eval() in the validation, no model.train() after",
            LOOPS,
        ),
        Fault(
            "frozen vectors that were never loaded",
            "frozen",
            (
                (
                    "reader = Mood()",
                    "reader = Mood()\nreader.embedding.weight.requires_grad_(False)\n"
                    "nn.init.constant_(reader.embedding.weight, 0.0)",
                ),
            ),
            (r"embedding",),
            "Stack Overflow: embeddings frozen by from_pretrained, never loaded",
            ("whole", "loop", "step", "function"),
        ),
        Fault(
            "rate of 40",
            "rate too large",
            (("lr=2e-2", "lr=40.0"),),
            (r"\blr\b", r"Adam"),
            "DeepFD: learning rate too high",
            LOOPS,
        ),
    ),
)

PROBE = Program(
    "first bits of a long string",
    "recurrent classifier",
    """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(24)
T, H = 30, 24

def bits(n):
    x = torch.randint(0, 2, (n, T)).float()
    return x, (x[:, 0] + 2 * x[:, 1]).long()

W_in = nn.Parameter(torch.randn(1, H) * 0.7)
U = nn.Parameter(torch.linalg.qr(torch.randn(H, H)).Q)
bias = nn.Parameter(torch.zeros(H))
W_out = nn.Parameter(torch.randn(H, 4) / H**0.5)
gates = [W_in, U, bias, W_out]
optimizer = torch.optim.Adam(gates, lr=1e-2)

def run(x):
    h = torch.zeros(len(x), H)
    for t in range(T):
        h = torch.tanh(h @ U + (x[:, t : t + 1] * 2 - 1) @ W_in * (t < 2) + bias)
    return h @ W_out
""",
    """
x, first = bits(48)
loss = F.cross_entropy(run(x), first)
""",
    """
optimizer.zero_grad()
loss.backward()
nn.utils.clip_grad_norm_(gates, 1.0)
optimizer.step()
""",
    faults=(
        Fault(
            "recurrent weights of norm one fifth",
            "vanishing",
            (
                (
                    "nn.Parameter(torch.linalg.qr(torch.randn(H, H)).Q)",
                    "nn.Parameter(0.2 * torch.linalg.qr(torch.randn(H, H)).Q)",
                ),
            ),
            (r"\bU\b", r"tanh", r"W_in"),
            "Pascanu 2013, AUTOTRAINER: vanishing gradient in a recurrent net",
        ),
        Fault(
            "linear recurrence that grows",
            "exploding",
            (
                (
                    "h = torch.tanh(h @ U + (x[:, t : t + 1] * 2 - 1) @ W_in * (t < 2) + bias)",
                    "h = torch.relu(h @ U + (x[:, t : t + 1] * 2 - 1) @ W_in * (t < 2) + bias)",
                ),
                ("nn.Parameter(torch.linalg.qr(torch.randn(H, H)).Q)", "nn.Parameter(torch.randn(H, H).abs() / 4)"),
            ),
            (r"\bU\b", r"relu", r"\bh @ U\b"),
            "Pascanu 2013, DeepDiagnosis: exploding tensor in a recurrent net",
        ),
        Fault(
            "state changed after it was read",
            "inplace",
            (
                (
                    "h = torch.tanh(h @ U + (x[:, t : t + 1] * 2 - 1) @ W_in * (t < 2) + bias)\n",
                    "h = torch.tanh(h @ U + (x[:, t : t + 1] * 2 - 1) @ W_in * (t < 2) + bias)\n        h += 0.01\n",
                ),
            ),
            (r"tanh", r"add_", r"\+=", r"\bh\b", r"iadd"),
            "PyTorch forum: += on a result that tanh has saved",
        ),
        Fault(
            "the carry is left out of the optimizer",
            "no optimizer",
            (("torch.optim.Adam(gates, lr=1e-2)", "torch.optim.Adam([W_in, bias, W_out], lr=1e-2)"),),
            (r"\bU\b",),
            "TrainCheck; Stack Overflow: a parameter forgotten in the list",
        ),
    ),
)

PROGRAMS = [SURNAMES, WAVES, REVERSE, REVIEWS, PROBE]
