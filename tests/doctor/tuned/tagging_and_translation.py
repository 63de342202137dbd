"""Faults of networks for text: tags of packed sequences, dates with teacher forcing, sums with a small GPT."""

from tests.doctor.program import Fault, Host, Program

LOOPS: tuple[Host, ...] = ("whole", "loop", "function")

PROGRAMS = (
    Program(
        "tags of packed sentences",
        "sequence tagging",
        setup="""
import random
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

random.seed(4)
torch.manual_seed(4)
LEXICON = {"the": "D", "a": "D", "dog": "N", "cat": "N", "tree": "N", "sees": "V", "likes": "V", "runs": "V",
           "old": "A", "green": "A", "very": "R"}
SHAPES = ["D N V", "D A N V D N", "D R A N V", "N V D A N", "D N V D R A N"]
by_tag = {}
for w, t in LEXICON.items():
    by_tag.setdefault(t, []).append(w)
word2ix = {"<pad>": 0, **{w: i + 1 for i, w in enumerate(LEXICON)}}
tag2ix = {t: i for i, t in enumerate(["D", "N", "V", "A", "R"])}
PAD_TAG = -100

def sentence():
    tags = random.choice(SHAPES).split()
    return [random.choice(by_tag[t]) for t in tags], tags

corpus = [sentence() for _ in range(300)]

def collate(batch):
    words = [torch.tensor([word2ix[w] for w in ws]) for ws, _ in batch]
    tags = [torch.tensor([tag2ix[t] for t in ts]) for _, ts in batch]
    lengths = torch.tensor([len(w) for w in words])
    return (pad_sequence(words, batch_first=True), lengths,
            pad_sequence(tags, batch_first=True, padding_value=PAD_TAG))

class BiLSTMTagger(nn.Module):
    def __init__(self, vocab, n_tags, emb=16, hid=20):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab, emb, padding_idx=0)
        self.lstm = nn.LSTM(emb, hid, batch_first=True, bidirectional=True)
        self.hidden2tag = nn.Linear(2 * hid, n_tags)

    def forward(self, sent, lengths):
        embeds = self.word_embeddings(sent)
        packed = pack_padded_sequence(embeds, lengths, batch_first=True, enforce_sorted=False)
        packed_out, _ = self.lstm(packed)
        out, _ = pad_packed_sequence(packed_out, batch_first=True)
        return self.hidden2tag(out)

tagger = BiLSTMTagger(len(word2ix), len(tag2ix))
loss_function = nn.CrossEntropyLoss(ignore_index=PAD_TAG)
optimizer = torch.optim.SGD(tagger.parameters(), lr=0.5, momentum=0.8)
""",
        forward="""
words, lengths, tags = collate(random.sample(corpus, 24))
scores = tagger(words, lengths)
loss = loss_function(scores.reshape(-1, scores.size(-1)), tags.reshape(-1))
""",
        update="""
tagger.zero_grad()
loss.backward()
optimizer.step()
""",
        steps=60,
        faults=(
            Fault(
                "states leave the lstm as numpy numbers",
                "cut",
                (
                    (
                        "out, _ = pad_packed_sequence(packed_out, batch_first=True)\n",
                        "out, _ = pad_packed_sequence(packed_out, batch_first=True)\n"
                        "        out = torch.tensor(out.tolist())\n",
                    ),
                ),
                where=("lstm", "tolist", "tensor"),
                source="PyTorch forum, torch.tensor(out) makes a new leaf; TrainCheck",
            ),
            Fault(
                "pretrained vectors are frozen",
                "frozen",
                (
                    (
                        "nn.Embedding(vocab, emb, padding_idx=0)",
                        "nn.Embedding.from_pretrained(torch.zeros(vocab, emb), padding_idx=0)",
                    ),
                ),
                where=("word_embeddings", "from_pretrained"),
                source="Stack Overflow, Embedding.from_pretrained freezes by default",
            ),
            Fault(
                "tags of all sentences by position",
                "wrong dimension",
                (
                    (
                        "loss_function(scores.reshape(-1, scores.size(-1))",
                        "loss_function(scores.transpose(0, 1).reshape(-1, scores.size(-1))",
                    ),
                ),
                where=("transpose", "reshape", "scores"),
                source="PyTorch forum, transposed scores are flattened beside targets that are not; NeuraLint",
                hosts=LOOPS,
            ),
            Fault(
                "probabilities over the batch",
                "loss input",
                (("return self.hidden2tag(out)", "return torch.softmax(self.hidden2tag(out), dim=0)"),),
                where=("softmax", "hidden2tag"),
                source="Stack Overflow, softmax over the batch before CrossEntropyLoss; Islam 2019",
            ),
            Fault(
                "corpus of one sentence form",
                "data",
                (("random.sample(corpus, 24)", "[corpus[0]] * 24"),),
                where=("words", "rows", "batch", "sent"),
                source="Humbatova 2020, Unbalanced or too small training data; DEFault",
                hosts=LOOPS,
            ),
            Fault(
                "the step of the tagger is not called",
                "no step",
                (("loss.backward()\noptimizer.step()", "loss.backward()\noptimizer.step"),),
                where=("step", "optimizer"),
                source="Stack Overflow, optimizer.step without brackets; PyTorch forum",
                hosts=LOOPS,
            ),
        ),
    ),
    Program(
        "dates with teacher forcing",
        "seq2seq",
        setup="""
import random
import torch
from torch import nn, optim
import torch.nn.functional as F

random.seed(8); torch.manual_seed(8)
PAD, SOS, EOS = 0, 1, 2
ALPHABET = "0123456789-abcdefghijklmnopqrstuvwxyz "
c2i = {c: i + 3 for i, c in enumerate(ALPHABET)}
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun"]

def make_pair():
    m, d = random.randrange(6), random.randrange(1, 29)
    source = random.choice([f"{d} {MONTHS[m]}", f"{MONTHS[m]} {d:02d}"])
    return [c2i[c] for c in source], [c2i[c] for c in f"{m + 1}-{d:02d}"]

def batchify(pairs):
    longest = max(len(s) for s, _ in pairs)
    src = torch.tensor([s + [PAD] * (longest - len(s)) for s, _ in pairs])
    tgt = torch.tensor([t + [EOS] for _, t in pairs])
    return src, tgt

class EncoderRNN(nn.Module):
    def __init__(self, n, hidden):
        super().__init__()
        self.embedding = nn.Embedding(n, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
    def forward(self, src):
        return self.gru(self.embedding(src))

class AttnDecoderRNN(nn.Module):
    def __init__(self, n, hidden):
        super().__init__()
        self.embedding = nn.Embedding(n, hidden)
        self.gru = nn.GRUCell(2 * hidden, hidden)
        self.out = nn.Linear(2 * hidden, n)
    def attend(self, h, memory, mask):
        scores = (memory @ h.unsqueeze(2)).squeeze(2) / memory.size(2) ** 0.5
        scores = scores.masked_fill(~mask, -1e9)
        weights = F.softmax(scores, dim=1)
        return (weights.unsqueeze(1) @ memory).squeeze(1)
    def forward(self, token, h, memory, mask):
        context = self.attend(h, memory, mask)
        h = self.gru(torch.cat([self.embedding(token), context], 1), h)
        return self.out(torch.cat([h, self.attend(h, memory, mask)], 1)), h

VOCAB, H = len(ALPHABET) + 3, 32
encoder, decoder = EncoderRNN(VOCAB, H), AttnDecoderRNN(VOCAB, H)
encoder_optimizer = optim.Adam(encoder.parameters(), lr=0.01)
decoder_optimizer = optim.Adam(decoder.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
teacher_forcing_ratio = 0.7

def run_batch(src, tgt):
    memory, hidden = encoder(src)
    h = hidden[0]
    token = torch.full((len(src),), SOS)
    loss = 0.0
    use_teacher = random.random() < teacher_forcing_ratio
    for t in range(tgt.size(1)):
        logits, h = decoder(token, h, memory, src != PAD)
        loss = loss + criterion(logits, tgt[:, t])
        token = tgt[:, t] if use_teacher else logits.argmax(1).detach()
    return loss / tgt.size(1)
""",
        forward="""
src, tgt = batchify([make_pair() for _ in range(32)])
loss = run_batch(src, tgt)
""",
        update="""
encoder_optimizer.zero_grad()
decoder_optimizer.zero_grad()
loss.backward()
encoder_optimizer.step()
decoder_optimizer.step()
""",
        steps=100,
        faults=(
            Fault(
                "attention looks at the padding alone",
                "attention",
                (("masked_fill(~mask, -1e9)", "masked_fill(mask, -1e9)"),),
                where=("mask", "softmax", "scores"),
                source="Stack Overflow, inverted padding mask; Jain 2023, Mask errors of transformers",
            ),
            Fault(
                "attention over the sentences of the batch",
                "attention",
                (("weights = F.softmax(scores, dim=1)", "weights = F.softmax(scores, dim=0)"),),
                where=("softmax", "dim"),
                source="Stack Overflow, softmax over the batch in an attention; NeuraLint",
            ),
            Fault(
                "the hidden state goes through .data",
                "cut",
                (
                    (
                        "    memory, hidden = encoder(src)\n    h = hidden[0]\n",
                        "    memory, hidden = encoder(src)\n    memory, h = memory.data, hidden[0].data\n",
                    ),
                ),
                where=("encoder", "data", "EncoderRNN", "embedding"),
                source="PyTorch forum, hidden.data cuts the encoder off; TrainCheck",
            ),
            Fault(
                "the optimizer of the decoder does not step",
                "no step",
                (("decoder_optimizer.step()\n", ""),),
                where=("decoder", "out", "AttnDecoderRNN"),
                source="PyTorch forum, one of two optimizers is not stepped; seq2seq tutorial",
                hosts=LOOPS,
            ),
            Fault(
                "the decoder's gradients are never cleared",
                "accumulated gradients",
                (("decoder_optimizer.zero_grad()\n", ""),),
                where=("decoder", "out", "gru", "embedding", "AttnDecoderRNN"),
                source="PyTorch forum, one of two optimizers is not cleared; TrainCheck",
                hosts=LOOPS,
            ),
            Fault(
                "the loss of each character is a number",
                "no gradient",
                (
                    (
                        "loss = loss + criterion(logits, tgt[:, t])",
                        "loss = torch.tensor(loss + criterion(logits, tgt[:, t]).item(), requires_grad=True)",
                    ),
                ),
                where=("item", "tensor", "encoder", "decoder", "loss"),
                source="Stack Overflow, loss.item() and a new tensor with requires_grad=True",
            ),
        ),
    ),
    Program(
        "sums with a small gpt",
        "transformer",
        setup="""
import math
from dataclasses import dataclass
import torch
import torch.nn as nn
from torch.nn import functional as F

@dataclass
class GPTConfig:
    block_size: int = 10
    vocab_size: int = 12
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 32
    dropout: float = 0.0

class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head, self.n_embd = config.n_head, config.n_embd
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.resid_dropout = nn.Dropout(config.dropout)
        self.register_buffer("bias", torch.tril(torch.ones(config.block_size, config.block_size)))
    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))

class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn = CausalSelfAttention(config)
        self.mlp = nn.Sequential(nn.Linear(config.n_embd, 4 * config.n_embd), nn.GELU(),
                                 nn.Linear(4 * config.n_embd, config.n_embd), nn.Dropout(config.dropout))
    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))

class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.apply(self._init_weights)
        self.lm_head.weight = self.wte.weight
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.05)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    def forward(self, idx, targets):
        pos = torch.arange(idx.size(1))
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

def get_batch(n):
    a, b = torch.randint(0, 50, (2, n))
    c = a + b
    plus, equals = torch.full_like(a, 10), torch.full_like(a, 11)
    digits = torch.stack([a // 10, a % 10, plus, b // 10, b % 10, equals, c % 10, c // 10], 1)
    x, y = digits[:, :-1], digits[:, 1:].clone()
    y[:, :5] = -1
    return x, y

torch.manual_seed(1337)
config = GPTConfig()
model = GPT(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.95), weight_decay=0.01)
warmup_iters, max_iters = 10, 120

def get_lr(it):
    if it < warmup_iters:
        return 4e-3 * (it + 1) / warmup_iters
    ratio = (it - warmup_iters) / (max_iters - warmup_iters)
    return 4e-4 + 0.5 * (1 + math.cos(math.pi * ratio)) * (4e-3 - 4e-4)
""",
        forward="""
for group in optimizer.param_groups:
    group["lr"] = get_lr(step)
xb, yb = get_batch(64)
loss = model(xb, yb)
""",
        update="""
optimizer.zero_grad(set_to_none=True)
loss.backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
""",
        steps=120,
        faults=(
            Fault(
                "only the future is seen",
                "attention",
                (("self.bias[:T, :T] == 0", "self.bias[:T, :T] == 1"),),
                where=("mask", "softmax", "att"),
                source="Jain 2023, Mask errors of transformers; minGPT issues, inverted causal mask",
            ),
            Fault(
                "heads are cut from the batch and time",
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
                where=("view", "attn", "reshape"),
                source="PyTorch forum, view instead of view and transpose mixes time and heads",
            ),
            Fault(
                "attention over the heads",
                "attention",
                (("att = F.softmax(att, dim=-1)", "att = F.softmax(att, dim=1)"),),
                where=("softmax", "dim"),
                source="NeuraLint; Stack Overflow, softmax over the heads of an attention",
            ),
            Fault(
                "positions are made and not added",
                "unused",
                (("x = self.wte(idx) + self.wpe(pos)", "x = self.wte(idx)"),),
                where=("wpe",),
                source="PyTorch forum, find_unused_parameters; TrainCheck",
            ),
            Fault(
                "a rate of one half for the transformer",
                "rate too large",
                (
                    ("return 4e-3 * (it + 1) / warmup_iters", "return 0.5"),
                    ("return 4e-4 + 0.5 *", "return 0.5 + 0.5 *"),
                ),
                where=(r"\blr\b", "rate", "Adam"),
                source="Humbatova 2020, Suboptimal learning rate; nanoGPT issues, divergence",
                hosts=LOOPS,
            ),
            Fault(
                "the warm-up multiplies by zero",
                "rate too small",
                (
                    ("return 4e-3 * (it + 1) / warmup_iters", "return 4e-3 * (it // warmup_iters)"),
                    (
                        "return 4e-4 + 0.5 * (1 + math.cos(math.pi * ratio)) * (4e-3 - 4e-4)",
                        "return 4e-3 * (warmup_iters // it)",
                    ),
                ),
                where=(r"\blr\b", "rate"),
                source="Stack Overflow, integer division makes the learning rate 0",
                hosts=LOOPS,
            ),
        ),
    ),
)
