"""Wrong solutions: edits of the solution's text, and a part of the message that names the mistake.

An edit is (old, new), or several of them; the old text must occur.
"""

Edits = tuple[tuple[str, str], ...]


def one(old: str, new: str, message: str) -> tuple[Edits, str]:
    return ((old, new),), message


PLANTED: dict[str, list[tuple[Edits, str]]] = {
    "softmax-and-masks": [
        (
            (
                ("-torch.inf).masked_fill(empty, 0.0)", "-1e9)"),
                (".masked_fill(~allowed, 0.0)", ""),
            ),
            "such as -1e9",
        ),
        one(
            "scores.softmax(-1).masked_fill(~allowed, 0.0)",
            "scores.exp().masked_fill(~allowed, 0.0)",
            "the division by the sum is missing",
        ),
        (
            (
                ("masked_fill(~allowed, -torch.inf).masked_fill(empty, 0.0)", "clone()"),
                (".masked_fill(~allowed, 0.0)", ""),
            ),
            "the mask is forgotten",
        ),
        one("softmax(-1).masked_fill(~allowed, 0.0)", "softmax(-2)", "over the queries"),
        one(".masked_fill(~allowed, -torch.inf).masked_fill(empty, 0.0)", ".clone()", "after the"),
        (
            ((".masked_fill(empty, 0.0)", ""), (".masked_fill(~allowed, 0.0)", "")),
            "0/0 = NaN",
        ),
        (
            (("-torch.inf", "0.0"), ("softmax(-1).masked_fill(~allowed, 0.0)", "softmax(-1)")),
            "exp(0) = 1",
        ),
    ],
    "scaled-dot-product": [
        one(" / math.sqrt", " * math.sqrt", "multiplied by sqrt(K)"),
        (
            (
                (" / math.sqrt(q.shape[-1])", ""),
                (".softmax(-1)", ".softmax(-1) / math.sqrt(q.shape[-1])"),
            ),
            "divide the scores, before the softmax",
        ),
        one(
            ".masked_fill(~allowed, -torch.inf).softmax(-1)",
            ".softmax(-1) * allowed",
            "applied after the softmax",
        ),
        one("-torch.inf", "0.0", "exp(0) = 1"),
        one(" / math.sqrt(q.shape[-1])", "", "the scale is missing"),
        one("math.sqrt(q.shape[-1])", "q.shape[-1]", "divided by K"),
        one(".masked_fill(~allowed, -torch.inf)", "", "the mask is forgotten"),
        one("softmax(-1)", "softmax(-2)", "over the queries"),
        one("q.shape[-1]", "k.shape[2]", "number of keys"),
        one("~allowed", "allowed", "the mask is inverted"),
    ],
    "multi-head": [
        one(
            "context.transpose(1, 2).flatten(2)",
            "context.permute(0, 2, 3, 1).flatten(2)",
            "merged feature by feature",
        ),
        one(
            ".unflatten(-1, (heads, -1)).transpose(1, 2)",
            ".reshape(len(x), heads, x.shape[1], -1)",
            "reshaped to B H T K at once",
        ),
        one(
            "context.transpose(1, 2).flatten(2)",
            "context.reshape(len(q), -1, q.shape[-1] * heads)",
            "without swapping the axes back",
        ),
        one("(heads, -1)).transpose(1, 2)", "(1, -1)).transpose(1, 2)", "only one head"),
        (
            (
                (".unflatten(-1, (heads, -1)).transpose(1, 2)", ".unflatten(-1, (heads, -1))"),
                ("context.transpose(1, 2)", "context"),
            ),
            "over the heads",
        ),
        one("kernel(q, k, v)", "kernel(q, k, k)", "the keys are used as values"),
    ],
    "additive-score": [
        one("torch.tanh(queries + keys)", "(queries + keys)", "tanh is missing"),
        (
            (("q @ w2", "q @ W"), ("k @ w1", "k @ w2"), ("q @ W", "q @ w1")),
            "W1 and W2 are swapped",
        ),
        one("torch.tanh(queries + keys) @ v", "torch.tanh((queries + keys) @ v)", "tanh is after"),
        one("queries + keys) @ v", "queries + keys).sum(-1)", "v is not used"),
        one(
            "torch.tanh(queries + keys) @ v",
            "(torch.tanh(queries + keys) @ v).transpose(1, 2)",
            "the axes are swapped",
        ),
        one("queries + keys", "queries * keys", "are multiplied"),
    ],
    "kv-cache": [
        one("dim=2", "dim=1", "along the heads"),
        one(".softmax(-1)", ".softmax(-2)", "over the queries"),
        one("if cache is not None:", "if False:", "the cache is not used"),
        one(
            "return weights @ v, (k, v)",
            "return weights @ v, (k[:, :, -1:], v[:, :, -1:])",
            "has the new token only",
        ),
        (
            (("(cache[0], k)", "(k, cache[0])"), ("(cache[1], v)", "(v, cache[1])")),
            "before the old ones",
        ),
        one("(k, v)\n", "(k, k)\n", "the keys are returned as values"),
        one("(k, v)\n", "(v, k)\n", "are swapped"),
        one(" / q.shape[-1] ** 0.5", "", "the scale is missing"),
    ],
    "layer-norm": [
        one("(variance + eps).sqrt()", "(variance.sqrt() + eps)", "under the root"),
        one(
            "gain * (x - mean) / (variance + eps).sqrt() + shift",
            "shift * (x - mean) / (variance + eps).sqrt() + gain",
            "gain and shift are swapped",
        ),
        one("(x - mean).square().mean(-1, keepdim=True)", "x.var(-1, keepdim=True)", "D - 1"),
        one(".sqrt()", "", "the square root is missing"),
        (
            (("mean(-1, keepdim=True)", "mean(1, keepdim=True)"),),
            "over the positions",
        ),
        one(
            "gain * (x - mean) / (variance + eps).sqrt() + shift",
            "(x - mean) / (variance + eps).sqrt()",
            "gain and shift are not applied",
        ),
        one("variance + eps", "variance", "eps is not added"),
        one("gain * (x - mean)", "gain * x", "the mean is not subtracted"),
    ],
    "sinusoidal-positions": [
        one("/ 10_000 **", "* 10_000.0 **", "is multiplied by"),
        one("(angles.sin(), angles.cos())", "(angles.cos(), angles.sin())", "swapped"),
        one(
            "torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)",
            "torch.cat((angles.sin(), angles.cos()), dim=-1)",
            "they alternate",
        ),
        one("torch.arange(length)", "torch.arange(1, length + 1)", "off by one"),
        one("even / dim", "2 * even / dim", "twice too large"),
        one("torch.arange(0, dim, 2)", "torch.arange(dim // 2)", "it must be 2i/D"),
        one("10_000", "1_000", "the base is 1,000"),
    ],
    "rotary-positions": [
        one("angles.cos(), angles.sin()", "angles.sin(), angles.cos()", "sine and cosine are"),
        one(
            "a * cos - b * sin, a * sin + b * cos",
            "a * cos + b * sin, b * cos - a * sin",
            "other direction",
        ),
        one("a * cos - b * sin", "a * cos + b * sin", "a sign is wrong"),
        one("2 * torch.arange(half)", "torch.arange(half)", "the exponent is i/K"),
        one("positions[:, None]", "torch.arange(x.shape[1])[:, None]", "`positions` is not used"),
        one("positions[:, None]", "(positions[:, None] + 1)", "off by one"),
        (
            (
                ("x[..., :half], x[..., half:]", "x[..., 0::2], x[..., 1::2]"),
                ("torch.cat(", "torch.stack("),
                ("dim=-1)", "dim=-1).flatten(-2)"),
            ),
            "features 2i and 2i + 1",
        ),
    ],
    "transformer-block": [
        (
            (
                ("attention(norm1(x))", "norm1(attention(x))"),
                ("feedforward(norm2(x))", "norm2(feedforward(x))"),
            ),
            "the outputs of the sublayers",
        ),
        (
            (("x + attention", "attention"), ("x + feedforward", "feedforward")),
            "both residual connections are missing",
        ),
        one("x + feedforward", "feedforward", "around the feed-forward layer"),
        one("x + attention", "attention", "around the attention"),
        (
            (
                ("x + attention(norm1(x))", "norm1(x + attention(x))"),
                ("x + feedforward(norm2(x))", "norm2(x + feedforward(x))"),
            ),
            "this is post-norm",
        ),
        one("norm2(x)", "norm1(x)", "norm1 is used twice"),
        (
            (("attention(norm1(x))", "attention(x)"), ("feedforward(norm2(x))", "feedforward(x)")),
            "the norms are not applied",
        ),
    ],
    "byte-pair-encoding": [
        one("+= words[word]", "+= 1", "the counts of the words are not used"),
        one("-pairs[pair], pair", "pairs[pair], pair", "the rarest pair"),
        one(
            "min(pairs, key=lambda pair: (-pairs[pair], pair))",
            "max(pairs, key=lambda pair: (pairs[pair], pair))",
            "the last in alphabetical order",
        ),
        one("range(merges)", "range(merges + 1)", "one merge too many"),
        one("range(merges)", "range(merges - 1)", "one merge too few"),
        one(
            "    if not pairs:",
            "    line = list(split.items())\n"
            "        for (_, a), (word, b) in zip(line, line[1:]):\n"
            "            pairs[a[-1], b[0]] += words[word]\n"
            "        if not pairs:",
            "across the border",
        ),
    ],
    "patch-embedding": [
        one(
            "permute(0, 2, 4, 1, 3, 5)", "permute(0, 1, 2, 3, 4, 5)", "reshaped to patches at once"
        ),
        one("permute(0, 2, 4, 1, 3, 5)", "permute(0, 4, 2, 1, 3, 5)", "column by column"),
        one("permute(0, 2, 4, 1, 3, 5)", "permute(0, 2, 4, 1, 5, 3)", "inside a patch are swapped"),
        one("permute(0, 2, 4, 1, 3, 5)", "permute(0, 2, 4, 3, 5, 1)", "the channel is last"),
        one(" + bias", "", "the bias is not added"),
    ],
    "label-smoothing": [
        (
            (
                ("(1 - smoothing) * true", "smoothing * true"),
                ("- smoothing * log_p", "- (1 - smoothing) * log_p"),
            ),
            "e and 1 - e are swapped",
        ),
        one("-(1 - smoothing) * true - smoothing * log_p.mean(-1)", "-true", "is not used"),
        one("log_p.mean(-1)).mean()", "log_p.mean(-1)).sum()", "are summed"),
        one("log_p.mean(-1)", "log_p.sum(-1)", "not divided by the vocabulary size"),
        one("(1 - smoothing) * true", "true", "the factor 1 - e"),
        one("log_softmax", "softmax", "the logarithm is missing"),
        one("logits.log_softmax(-1)", "logits", "the softmax is missing"),
    ],
    "teacher-forcing": [
        one(
            "labels.append(target + [eos] + end)",
            "labels.append([bos] + target + end)",
            "labels are not shifted",
        ),
        one(
            "inputs.append([bos] + target + end)",
            "inputs.append(target + [eos] + end)",
            "inputs are not shifted",
        ),
        one("[eos]", "[pad]", "</s> is missing"),
        one("return inputs, labels", "return labels, inputs", "are swapped"),
        one("target + [eos] + end", "target + end + [eos]", "after the padding"),
        one("end = [pad] * (length - len(target))", "end = []", "the padding is missing"),
    ],
    "greedy-search": [
        one("tokens[1:]", "tokens", "contains bos"),
        (
            (
                (
                    "        if token == eos:\n            break\n        tokens.append(token)",
                    "        tokens.append(token)\n        if token == eos:\n            break",
                ),
            ),
            "contains eos",
        ),
        one("token == eos", "token == -1", "does not stop at eos"),
        one("next_log_p(tokens)", "next_log_p(tokens[-1:])", "only the last token"),
        one("argmax", "argmin", "least probable"),
        one("<= max_length", "< max_length", "one token too few"),
        one("<= max_length", "<= max_length + 1", "one token too many"),
    ],
    "beam-search": [
        one(", reverse=True", "", "least probable prefixes"),
        one("[:width]", "[:1]", "this is greedy search"),
        one("score + log_p", "log_p", "that of the last token only"),
        one("if not live:", "if not live or finished:", "stops at the first finished"),
        one(
            "key=lambda c: c[0])\n",
            "key=lambda c: c[0] / (len(c[1]) - 1))\n",
            "divided by the length",
        ),
        one("if token != eos", "", "contains eos"),
        one("best[1:]", "best", "contains bos"),
    ],
    "bleu": [
        one("min(0.0, 1 - r / c)", "1 - r / c", "long outputs are penalised"),
        one(
            "sum((ours & theirs).values())",
            "sum(c for g, c in ours.items() if g in theirs)",
            "clipping is missing",
        ),
        one("math.exp(min(0.0, 1 - r / c) + log_p)", "math.exp(log_p)", "penalty is missing"),
        one("r / c", "c / r", "are swapped"),
        (
            (("range(1, 5)", "range(1, 4)"), ("/ 4", "/ 3")),
            "4-grams are missing",
        ),
        one("sum(ours.values())", "sum(theirs.values())", "that is recall"),
        one("100 * ", "", "the factor 100 is missing"),
    ],
    "masked-tokens": [
        one("torch.where(chosen, ids, -100)", "torch.where(chosen, ids, 0)", "have label 0"),
        one("torch.where(chosen, ids, -100)", "ids", "theirs is -100"),
        one(
            "return inputs, labels",
            "return inputs, torch.where(chosen, inputs, -100)",
            "use the original ids",
        ),
        (
            (
                ("chosen & (chances < 0.8)", "chosen"),
                ("torch.where(replaced, others, inputs)", "inputs"),
            ),
            "for 80 % of them only",
        ),
        one(" & (chances < 0.9)", "", "no chosen token stays unchanged"),
        one(
            "labels = torch.where(chosen,",
            "labels = torch.where(chosen & (chances < 0.8),",
            "only masked tokens have labels",
        ),
    ],
    "lora": [
        one("alpha / len(a)", "alpha * len(a)", "multiplied by the rank"),
        one("alpha / len(a)", "alpha / len(a) ** 0.5", "square root of the rank"),
        one("alpha / len(a) * change", "change", "alpha / r is missing"),
        one("alpha / len(a) * change", "alpha * change", "divide it by the rank"),
        one("x @ weight.T + bias + alpha", "alpha", "only the adapter"),
        one(" + bias", "", "the bias is not added"),
        one(" + alpha / len(a) * change", "", "the adapter is not added"),
    ],
    "dino-centring": [
        one("(logits - centre) / temperature", "logits / temperature", "centre is not subtracted"),
        one(
            "momentum * centre + (1 - momentum) * ",
            "(1 - momentum) * centre + momentum * ",
            "momentum is inverted",
        ),
        one(
            "(logits - centre) / temperature", "logits / temperature - centre", "after the division"
        ),
        one("/ temperature", "* temperature", "divide by it"),
        one("softmax(-1)", "softmax(0)", "over the batch"),
        one("logits.mean(0)", "probabilities.mean(0)", "not of probabilities"),
    ],
    "attention-rollout": [
        one("0.5 * layer.mean(0) + 0.5 * identity", "layer.mean(0)", "residual connection"),
        one(
            "(0.5 * layer.mean(0) + 0.5 * identity) @ result",
            "result @ (0.5 * layer.mean(0) + 0.5 * identity)",
            "wrong order",
        ),
        one("0.5 * layer.mean(0) + 0.5 * identity", "layer.mean(0) + identity", "halves"),
        one("in weights:", "in weights[-1:]:", "only the last layer"),
        one("in weights:", "in weights[:-1]:", "off by one"),
        one("layer.mean(0)", "layer[0]", "only the first head"),
    ],
}
