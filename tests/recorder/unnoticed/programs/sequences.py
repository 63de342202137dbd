"""Recurrent networks and transformers."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import rnn

from tests.recorder.unnoticed.registry import program


@program("RNN by hand, character by character, with detached states")
def rnn_by_hand():
    text = "hello world"
    letters = sorted(set(text))
    place = {one: at for at, one in enumerate(letters)}
    size = len(letters)
    wx, wh, wy = (torch.randn(a, b) * 0.1 for a, b in ((size, 8), (8, 8), (8, size)))
    weights = [one.requires_grad_() for one in (wx, wh, wy)]
    state = torch.zeros(8)
    losses = []
    for _ in range(2):
        loss = torch.zeros(())
        state = state.detach()
        for one, following in zip(text, text[1:], strict=False):  # noqa: RUF007
            state = torch.tanh(functional.one_hot(torch.tensor(place[one]), size).float() @ wx + state @ wh)
            loss = loss + functional.cross_entropy((state @ wy)[None], torch.tensor([place[following]]))
        for weight in weights:
            weight.grad = None
        loss.backward()
        with torch.no_grad():
            for weight in weights:
                weight.add_(weight.grad, alpha=-0.1)
        losses.append(loss.item())
    return weights, losses


@program("nn.RNN, GRU and LSTM with an embedding, states carried and detached")
def recurrent_layers():
    made = []
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        table, net = nn.Embedding(7, 4, padding_idx=0), kind(4, 5, num_layers=2, batch_first=True, dropout=0.2)
        state = None
        for _ in range(2):
            out, state = net(table(torch.randint(0, 7, (3, 6))), state)
            out.pow(2).mean().backward()
            state = tuple(one.detach() for one in state) if isinstance(state, tuple) else state.detach()
        made.append((table, net, out, state))
    return made


@program("packed sequences: pack_padded_sequence, pad_packed_sequence, both directions")
def packed():
    net = nn.LSTM(3, 4, bidirectional=True, batch_first=True)
    x = torch.randn(3, 5, 3, requires_grad=True)
    sequences = rnn.pack_padded_sequence(x, [5, 2, 4], batch_first=True, enforce_sorted=False)
    out, (h, c) = net(sequences)
    padded, lengths = rnn.pad_packed_sequence(out, batch_first=True, padding_value=-1.0)
    padded.sum().backward()
    return net, out, padded, lengths, h, c, x.grad


@program("cells in a loop: LSTMCell, GRUCell, RNNCell")
def cells():
    lstm, gru, plain = nn.LSTMCell(3, 4), nn.GRUCell(4, 4), nn.RNNCell(4, 4)
    h = c = torch.zeros(2, 4)
    outs = []
    for _ in range(3):
        h, c = lstm(torch.randn(2, 3), (h, c))
        outs.append(plain(gru(h, c)))
    torch.stack(outs).sum().backward()
    return lstm, gru, plain, outs


@program("sequence to sequence with attention and teacher forcing by random()")
def translation():
    import random

    source, target = nn.Embedding(9, 4), nn.Embedding(8, 4)
    encoder, decoder = nn.GRU(4, 6), nn.GRUCell(10, 6)
    out = nn.Linear(6, 8)
    words, wanted = torch.randint(0, 9, (5, 2)), torch.randint(0, 8, (4, 2))
    memory, h = encoder(source(words))
    h, word, loss, maps = h[0], torch.zeros(2, dtype=torch.long), 0, []
    for step in range(4):
        weight = torch.softmax((memory * h).sum(-1), 0)
        maps.append(weight.detach().numpy())
        h = decoder(torch.cat([target(word), (weight.unsqueeze(-1) * memory).sum(0)], 1), h)
        logits = out(h)
        loss += functional.cross_entropy(logits, wanted[step])
        word = wanted[step] if random.random() < 0.5 else logits.topk(1)[1].squeeze(1).detach()
    loss.backward()
    return source, encoder, decoder, out, loss, maps


@program("a small GPT by hand: causal mask, layer norm, generation with multinomial")
def gpt():
    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.key, self.query, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
            self.register_buffer("mask", torch.tril(torch.ones(8, 8)))
            self.norm, self.mlp = (
                nn.LayerNorm(width),
                nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width)),
            )

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
            weight = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
            weight = weight.masked_fill(self.mask[:t, :t] == 0, float("-inf")).softmax(-1)
            x = x + (weight @ v).transpose(1, 2).contiguous().view(b, t, c)
            return x + self.mlp(self.norm(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(11, 8), nn.Embedding(8, 8)
            self.blocks = nn.ModuleList([Block(8, 2) for _ in range(2)])
            self.head = nn.Linear(8, 11)
            self.apply(self._start)

        def _start(self, module):
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)

        def forward(self, index, targets=None):
            x = self.words(index) + self.places(torch.arange(index.shape[1]))
            for block in self.blocks:
                x = block(x)
            logits = self.head(x)
            loss = None if targets is None else functional.cross_entropy(logits.view(-1, 11), targets.view(-1))
            return logits, loss

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = torch.randint(0, 11, (40,))
    for _ in range(2):
        at = torch.randint(0, 30, (4,))
        x = torch.stack([data[i : i + 8] for i in at])
        y = torch.stack([data[i + 1 : i + 9] for i in at])
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    index = torch.zeros(1, 1, dtype=torch.long)
    model.eval()
    for _ in range(6):
        logits, _ = model(index[:, -8:])
        index = torch.cat([index, torch.multinomial(logits[:, -1].softmax(-1), 1)], 1)
    print("generated", index.tolist())
    return model, loss, index


@program("attention weights that are visualised: a forward hook keeps them as an array")
def attention_visualised():
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    maps = []
    layer.register_forward_hook(lambda module, args, out: maps.append(out[1].detach().numpy()))
    x = torch.randn(2, 5, 8)
    out, weights = layer(x, x, x, average_attn_weights=False)
    plain, averaged = layer(x, x, x)
    (out.sum() + plain.sum()).backward()
    return out, weights, averaged, maps, layer


@program("scaled_dot_product_attention: causal, with masks, dropout, grouped heads")
def fused_attention():
    q, k, v = (torch.randn(2, 4, 5, 8, requires_grad=True) for _ in range(3))
    mask = torch.rand(5, 5) > 0.3
    mask[:, 0] = True
    outs = [
        functional.scaled_dot_product_attention(q, k, v),
        functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        functional.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        functional.scaled_dot_product_attention(q, k, v, attn_mask=torch.randn(5, 5), scale=0.1),
        functional.scaled_dot_product_attention(q, k, v, dropout_p=0.5),
        functional.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True),
    ]
    sum(one.sum() for one in outs).backward()
    with torch.no_grad():
        quiet = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        plain = functional.scaled_dot_product_attention(q, k, v)
    return outs, quiet, plain, q.grad, k.grad, v.grad


def _transformer_inputs():
    x = torch.randn(2, 4, 8)
    padding = torch.tensor([[False, False, True, True], [False, False, False, True]])
    return x, padding, nn.Transformer.generate_square_subsequent_mask(4)


@program("TransformerEncoder in eval under no_grad with a padding mask: torch's fast path")
def encoder_fast_path():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    net = nn.TransformerEncoder(layer, 2).eval()
    x, padding, causal = _transformer_inputs()
    with torch.no_grad():
        masked = net(x, src_key_padding_mask=padding)
        plain = net(x)
        ahead = net(x, mask=causal, is_causal=True)
    with torch.inference_mode():
        inference = net(x, src_key_padding_mask=padding)
    return masked, plain, ahead, inference, net(x, src_key_padding_mask=padding)


@program("TransformerEncoderLayer and MultiheadAttention in eval, without a mask")
def layer_fast_path():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu", norm_first=True).eval()
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x, padding, causal = _transformer_inputs()
    with torch.no_grad():
        made = layer(x), layer(x, src_key_padding_mask=padding), layer(x, causal)
        more = attention(x, x, x), attention(x, x, x, key_padding_mask=padding, need_weights=False)
        last = attention(x, x, x, attn_mask=causal, need_weights=True)
    for one in (*layer.parameters(), *attention.parameters()):
        one.requires_grad_(False)
    return made, more, last, layer(x), attention(x, x, x, need_weights=False)


@program("a whole nn.Transformer with all its masks, trained and then evaluated")
def transformer():
    net = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, batch_first=True)
    x, padding, causal = _transformer_inputs()
    out = net(x, x * 2, tgt_mask=causal, src_key_padding_mask=padding, memory_key_padding_mask=padding)
    out.pow(2).mean().backward()
    net.eval()
    with torch.no_grad():
        later = net(x, x, tgt_mask=causal, src_key_padding_mask=padding, tgt_is_causal=True)
    return net, out, later


@program("mismatched mask types, of which torch warns")
def mask_types():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x, padding, causal = _transformer_inputs()
    out = attention(x, x, x, key_padding_mask=padding, attn_mask=causal)[0]
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 1)
    second = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, norm_first=True), 1, enable_nested_tensor=True)
    return out, net(x), second(x)


@program("an embedding of bags, and a padded batch by pad_sequence")
def bags():
    table = nn.EmbeddingBag(10, 3, mode="mean")
    text = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9])
    out = table(text, torch.tensor([0, 3, 5]))
    padded = rnn.pad_sequence([torch.ones(2), torch.ones(4), torch.ones(1)], batch_first=True)
    weighted = functional.embedding_bag(
        text[None], table.weight, per_sample_weights=torch.rand(1, 8, requires_grad=True), mode="sum"
    )
    (out.sum() + weighted.sum()).backward()
    return table, out, padded, weighted


@program("CTC loss with lengths in tensors and in tuples")
def ctc():
    logits = torch.randn(12, 2, 5, requires_grad=True)
    targets = torch.randint(1, 5, (2, 4))
    first = functional.ctc_loss(logits.log_softmax(2), targets, (12, 10), (4, 2))
    second = nn.CTCLoss(zero_infinity=True)(
        logits.log_softmax(2), targets, torch.tensor([12, 12]), torch.tensor([3, 4])
    )
    (first + second).backward()
    return first, second, logits.grad
