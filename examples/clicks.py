#!/usr/bin/env python3
"""Wide and deep on made-up clicks: clicks.py [--torch] [--rows 200000] [--ids 250000] [--epochs 2] [--seed 1].

4 fields with 250,000 Zipf ids each, a million rows of two sparse tables. The probability of each click is known, so the AUC of the true
probabilities, which no model can pass, is printed beside the model's. --torch trains the same program in torch: layers, first
values, batches and steps are those of tern.nd (nn.Embedding with Adagrad, dense layers with SGD), random numbers are torch's.
"""

import argparse
import time

import numpy as np

FIELDS, LENGTH, HIDDEN, BATCH, SPARSE_RATE, DENSE_RATE = 4, 8, 32, 100, 0.05, 0.2


def clicks(n, ids, seed):
    """Ids, clicks, and their probabilities: a weight per id, and the product of two vectors per pair of the first fields."""
    truth, rng = np.random.default_rng(0), np.random.default_rng(seed)
    weights, factors = truth.normal(0, 1.2, (FIELDS, ids)), truth.normal(0, 0.7, (2, ids, 2))
    drawn = rng.zipf(1.3, (n, FIELDS)) - 1
    drawn = np.where((drawn < ids) & (drawn >= 0), drawn, rng.integers(0, ids, drawn.shape))
    z = weights[np.arange(FIELDS), drawn].sum(1) + (factors[0, drawn[:, 0]] * factors[1, drawn[:, 1]]).sum(1) - 0.5
    p = 1 / (1 + np.exp(-z))
    return (drawn + np.arange(FIELDS) * ids).astype(np.int64), (rng.uniform(size=n) < p).astype(np.int64), p


def auc(score, label):
    rank = np.empty(len(score))
    rank[np.argsort(score, kind="stable")] = np.arange(1, len(score) + 1)
    ones = label.sum()
    return (rank[label == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(label) - ones))


def train_tern(ids, labels, tests, options):
    from tern import nd

    S, rows = nd.symbol, FIELDS * options.ids
    x = nd.variable("ids")
    wide = S.sum(S.embedding(x, rows=rows, length=1, name="wide"), axis=1)
    deep = S.relu(S.FullyConnected(S.embedding(x, rows=rows, length=LENGTH, name="deep"), HIDDEN, "fc1"))
    z = S.add(S.FullyConnected(deep, 1, "fc2"), wide)
    model = S.SoftmaxOutput(S.concat(S.multiply(z, S.constant(value=0.0)), z, axis=1), name="softmax")
    with nd.Node() as node:
        tables = {"wide_weight": nd.Embedding("wide", 1, rate=SPARSE_RATE, node=node),
                  "deep_weight": nd.Embedding("deep", LENGTH, rate=SPARSE_RATE, deviation=0.1, seed=options.seed, node=node)}
        module = nd.Module(model)
        module.init_params(nd.Xavier(), seed=options.seed)
        module.bind(ids=((BATCH, FIELDS), "int64"), tables=tables)
        module.init_optimizer("sgd", {"learning_rate": DENSE_RATE})
        batches = nd.Iterator(ids, labels, BATCH, seed=options.seed)
        for _ in range(options.epochs):
            module.fit(batches)
            yield np.concatenate([module.forward(ids=tests[i:i + BATCH], training=False).numpy()[:, 1].copy()
                                  for i in range(0, len(tests), BATCH)])
        module.close()
        for table in tables.values():
            table.close()


def train_torch(ids, labels, tests, options):
    import torch

    torch.manual_seed(options.seed)
    n, rows = torch.nn, FIELDS * options.ids
    wide, deep = n.Embedding(rows, 1, sparse=True), n.Embedding(rows, LENGTH, sparse=True)
    n.init.zeros_(wide.weight)
    n.init.normal_(deep.weight, 0, 0.1)
    net = n.Sequential(n.Flatten(), n.Linear(FIELDS * LENGTH, HIDDEN), n.ReLU(), n.Linear(HIDDEN, 1))
    for layer in (net[1], net[3]):
        n.init.xavier_uniform_(layer.weight)
        n.init.zeros_(layer.bias)
    loss = n.BCEWithLogitsLoss()
    sparse = torch.optim.Adagrad([wide.weight, deep.weight], lr=SPARSE_RATE)
    dense = torch.optim.SGD(net.parameters(), lr=DENSE_RATE)
    ids, labels, tests = torch.from_numpy(ids), torch.from_numpy(labels).float(), torch.from_numpy(tests)

    def logits(x):
        return net(deep(x))[:, 0] + wide(x).sum((1, 2))

    for _ in range(options.epochs):
        for batch in torch.randperm(len(ids)).split(BATCH):
            sparse.zero_grad()
            dense.zero_grad()
            loss(logits(ids[batch]), labels[batch]).backward()
            sparse.step()
            dense.step()
        with torch.no_grad():
            yield logits(tests).numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200000, help="of the training set; a tenth of them to test")
    parser.add_argument("--ids", type=int, default=250000, help="of each of the four fields")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--torch", action="store_true", help="the same program in torch")
    options = parser.parse_args()
    ids, labels, _ = clicks(options.rows, options.ids, 1)
    tests, test_labels, p = clicks(options.rows // 10 // BATCH * BATCH, options.ids, 2)
    true = auc(p, test_labels)
    for epoch, score in enumerate((train_torch if options.torch else train_tern)(ids, labels, tests, options), 1):
        found = auc(score, test_labels)
        print(f"epoch {epoch}: test AUC {found:.4f}, {found / true:.4f} of the true model's {true:.4f}; "
              f"{time.process_time():.1f} s of processor time", flush=True)


if __name__ == "__main__":
    main()
