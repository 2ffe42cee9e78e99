"""python3 -m tern.ctr - trains click-through models: Wide & Deep, and Deep & Cross.

    python3 -m tern.ctr --model wide-deep --data ml-1m
    tern run -n 2 python3 -m tern.ctr --model dcn --data train.csv --test test.csv --dense sync

The vectors of features are rows of a table, updated by AdaGrad where they are. The dense layers are kept in Tern
(`--dense async`), or their gradients averaged over the nodes at each step (`--dense sync`). `--plain` trains with torch alone;
under a launcher each process then trains on its own part and never speaks. Needs torch.
"""

import sys

import numpy as np
import torch
from torch import nn

import tern
import tern.torch as layers
from tern import _logs, _training

HIDDEN = (256, 128)
CROSS_LAYERS = 3


# ---- Models ----------------------------------------------------------------------------------------------------------


class WideDeep(nn.Module):
    """A linear model and a network, added up. Each row has the vector and, at its end, the feature's weight."""

    extra = 1  # floats of a row beyond the vector

    def __init__(self, n_fields, n_numbers, length):
        super().__init__()
        self.length = length
        self.deep = network(n_fields * length + n_numbers, 1)
        self.weights, self.bias = nn.Parameter(torch.zeros(n_numbers)), nn.Parameter(torch.zeros(()))

    def forward(self, rows, numbers):
        wide = rows[:, :, self.length].sum(dim=1) + numbers @ self.weights + self.bias
        deep = self.deep(torch.cat([rows[:, :, :self.length].flatten(1), numbers], dim=1))[:, 0]
        return wide + deep


class DeepCross(nn.Module):
    """Layers that multiply the input with itself, beside a network."""

    extra = 0

    def __init__(self, n_fields, n_numbers, length):
        super().__init__()
        width = n_fields * length + n_numbers
        self.cross = nn.ModuleList(nn.Linear(width, 1) for _ in range(CROSS_LAYERS))
        self.biases = nn.Parameter(torch.zeros(CROSS_LAYERS, width))
        self.deep = network(width, HIDDEN[-1])
        self.last = nn.Linear(width + HIDDEN[-1], 1)

    def forward(self, rows, numbers):
        first = x = torch.cat([rows.flatten(1), numbers], dim=1)
        for layer, bias in zip(self.cross, self.biases):
            x = first * layer(x) + bias + x
        return self.last(torch.cat([x, self.deep(first)], dim=1))[:, 0]


def network(n_in, n_out):
    sizes = (n_in, *HIDDEN) if n_out == 1 else (n_in, *HIDDEN[:-1])
    parts = [part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*parts, nn.Linear(sizes[-1], n_out))


MODELS = {"wide-deep": WideDeep, "dcn": DeepCross}


# ---- Batches ---------------------------------------------------------------------------------------------------------


class Batch:
    """Keys of an example's fields one after the other, and the bags behind them, so that one lookup gets all rows."""

    def __init__(self, log):
        self.n, self.n_fields = len(log), log.keys.shape[1]
        self.keys = torch.from_numpy(np.concatenate([log.keys.ravel(), *(keys for keys, _ in log.bags)]))
        self.offsets = [torch.from_numpy(offsets) for _, offsets in log.bags]
        self.numbers, self.labels = torch.from_numpy(log.numbers), torch.from_numpy(log.labels)

    def rows(self, found):
        """(n, fields, length) of the rows that were found; those of a bag are averaged."""
        at = self.n * self.n_fields
        fields = [found[:at].view(self.n, self.n_fields, -1)]
        for offsets in self.offsets:
            n = int(offsets[-1])
            lengths = offsets[1:] - offsets[:-1]
            bag = torch.repeat_interleave(torch.arange(self.n), lengths)
            sums = torch.zeros(self.n, found.shape[1]).index_add_(0, bag, found[at:at + n])
            fields.append((sums / lengths.clamp(min=1)[:, None])[:, None])
            at += n
        return torch.cat(fields, dim=1)


def batches(log, size, rng=None):
    """Cuts a log into batches, shuffled if there are random numbers."""
    order = rng.permutation(len(log)) if rng else np.arange(len(log))
    for begin in range(0, len(log), size):
        yield Batch(log.take(order[begin:begin + size]))


# ---- Scores ----------------------------------------------------------------------------------------------------------


def auc(labels, scores):
    """The area under the ROC curve; equal scores count half."""
    order = np.argsort(scores, kind="stable")
    _, first, counts = np.unique(scores[order], return_index=True, return_counts=True)
    ranks = np.empty(len(scores))
    ranks[order] = np.repeat(first + (counts + 1) / 2, counts)
    n_positive = int(labels.sum())
    n_negative = len(labels) - n_positive
    if not n_positive or not n_negative:
        return float("nan")
    return float((ranks[labels > 0].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


@torch.no_grad()
def evaluate(embedding, dense, log):
    """AUC and log loss."""
    logits = [dense(batch.rows(embedding(batch.keys)), batch.numbers) for batch in batches(log, 8192)]
    logits = torch.cat(logits) if logits else torch.zeros(0)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(log.labels))
    return auc(log.labels, logits.numpy()), loss.item()


# ---- Training --------------------------------------------------------------------------------------------------------


def split(log, seed):
    """80 % to train, 10 % to validate, 10 % to test, at random."""
    order = np.random.default_rng(seed).permutation(len(log))
    ends = [len(log) * 8 // 10, len(log) * 9 // 10]
    return [log.take(rows) for rows in np.split(order, ends)]


def number_keys(logs):
    """Numbers hashed keys from 0, for torch alone."""
    distinct = np.unique(np.concatenate([log.keys.ravel() for log in logs]))
    for log in logs:
        log.keys = np.searchsorted(distinct, log.keys)
        log.n_features = len(distinct)


def number_of_rows(options, log, length):
    """The keys of a dense table; None, a sparse one, if that would exceed the memory limit: it has what is used alone."""
    n_bytes = (log.n_features or 0) * (2 * 4 * length + 8)  # with AdaGrad's state
    return None if options.memory_limit and n_bytes > options.memory_limit else log.n_features


class Trainer(_training.Trainer):
    """The model, with a vector per feature."""

    def __init__(self, options, node, log):
        torch.manual_seed(options.seed)
        kind, worker = MODELS[options.model], _training.open_worker(options, node)
        length = options.dim + kind.extra
        module = kind(log.keys.shape[1] + len(log.bags), log.numbers.shape[1], options.dim)
        if options.plain:
            embedding = nn.Embedding(log.n_features, length, sparse=True)
            nn.init.normal_(embedding.weight, 0, options.init)
        else:
            embedding = layers.Embedding(
                worker, number_of_rows(options, log, length), length, name="features", policy=options.policy,
                init=tern.normal(0, options.init, seed=options.seed), update=tern.adagrad(options.rate),
                memory_limit=options.memory_limit)
        super().__init__(options, node, worker, embedding, module, tern.adam, torch.optim.Adam)
        self.loss = nn.BCEWithLogitsLoss()

    def batch_size(self):
        # Nodes that wait for each other at each step have one batch together.
        return max(1, self.options.batch // self.node.count) if self.averager else self.options.batch

    def to_loss(self, batch):
        return self.loss(self.dense(batch.rows(self.rows(batch.keys)), batch.numbers), batch.labels)

    def score(self, log):
        self.pull()
        area, loss = evaluate(self.rows, self.module, log)
        return {"auc": area, "log_loss": loss}


def parse(arguments):
    parser = _training.new_parser("tern.ctr", __doc__)
    add = parser.add_argument
    add("--model", choices=sorted(MODELS), default="wide-deep", help="the model")
    add("--data", required=True, metavar="PATH", help="a MovieLens folder, a .csv of Criteo, a .libfm file or made-up:NxM")
    add("--test", metavar="PATH", help="what to test on, after training on all of --data; without it --data is split into "
        "80 %% to train, 10 %% to validate and 10 %% to test")
    add("--batch", type=int, default=1024, help="examples of a batch; with --dense sync of all nodes together")
    add("--memory-limit", type=int, default=0, metavar="BYTES", help="of the table of features, per node; 0: none")
    _training.add_options(parser, epochs=3, dim=16, rate=0.2, dense_rate=1e-3, init=0.01)
    return parser.parse_args(arguments)


def read(options):
    """The parts to train, to validate (None: there is none) and to test on."""
    log = _logs.read(options.data)
    if not options.test:
        return split(log, options.seed)
    test = _logs.read(options.test)
    if log.n_features is not None:
        log.n_features = test.n_features = max(log.n_features, test.n_features)
    return log, None, test


def run(options, node):
    train, validation, test = read(options)
    if options.plain and train.n_features is None:
        number_keys([log for log in (train, validation, test) if log is not None])
    trainer = Trainer(options, node, train)
    own = train.take(np.arange(node.index, len(train), node.count))

    def batches_of(epoch):
        return batches(own, trainer.batch_size(), np.random.default_rng((options.seed, epoch, node.index)))

    trainer.run(batches_of, len(own), validation, test)


def main(arguments=None):
    return _training.main("tern.ctr", parse(arguments), run)


if __name__ == "__main__":
    sys.exit(main())
