"""Embeddings of tern.nd in Tern tables: a wide-and-deep model of made-up clicks, alone and on several nodes."""

import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT

from tern import nd

S = nd.symbol

MODEL = """
import json, os, sys
import numpy as np
from tern import nd

S = nd.symbol
FIELDS, IDS, LENGTH, BATCH = 4, 200, 8, 100


def clicks(n, seed):
    '''Ids that are Zipf's, and clicks whose probabilities are a known function of them.'''
    truth = np.random.default_rng(0)
    weights, factors = truth.normal(0, 1.2, (FIELDS, IDS)), truth.normal(0, 0.7, (FIELDS, IDS, 2))
    rng = np.random.default_rng(seed)
    ids = np.minimum(rng.zipf(1.3, (n, FIELDS)) - 1, IDS - 1)
    fields = np.arange(FIELDS)
    z = weights[fields, ids].sum(1) + (factors[0, ids[:, 0]] * factors[1, ids[:, 1]]).sum(1) - 0.5
    p = 1 / (1 + np.exp(-z))
    return (ids + fields * IDS).astype(np.int64), (rng.uniform(size=n) < p).astype(np.int64), p


def auc(score, label):
    order = np.argsort(score, kind="stable")
    rank = np.empty(len(order))
    rank[order] = np.arange(1, len(order) + 1)
    ones = label.sum()
    return (rank[label == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(label) - ones))


def wide_and_deep():
    ids, rows = nd.variable("ids"), FIELDS * IDS
    wide = S.sum(S.embedding(ids, rows=rows, length=1, name="wide"), axis=1)
    deep = S.FullyConnected(S.embedding(ids, rows=rows, length=LENGTH, name="deep"), 32, "fc1")
    z = S.add(S.FullyConnected(S.relu(deep), 1, "fc2"), wide)
    return S.SoftmaxOutput(S.concat(S.multiply(z, S.constant(value=0.0)), z, axis=1), name="softmax")


def score(module, ids, labels):
    found = [module.forward(ids=ids[i:i + BATCH], training=False).numpy()[:, 1].copy() for i in range(0, len(ids), BATCH)]
    return auc(np.concatenate(found), labels)
"""

SEVERAL = MODEL + """
ahead, node, nodes = int(sys.argv[1]), int(os.environ.get("TERN_NODE", 0)), int(os.environ.get("TERN_NODES", 1))
ids, labels, _ = clicks(20000, 1)
test_ids, test_labels, p = clicks(4000, 2)
with nd.Node() as own:
    tables = {"wide_weight": nd.Embedding("wide", 1, rows=FIELDS * IDS, node=own),
              "deep_weight": nd.Embedding("deep", LENGTH, deviation=0.1, node=own)}
    module = nd.Module(wide_and_deep())
    module.init_params(seed=1)
    module.bind(ids=((BATCH, FIELDS), "int64"), tables=tables)
    train = nd.Iterator(ids, labels, BATCH, seed=3 + node, part=node, parts=nodes)
    for table in tables.values():
        if ahead:
            train.look_ahead(table, range(FIELDS), ahead)
    module.init_optimizer("sgd", {"rate": 0.2}, scale=1 / BATCH)
    for _ in range(3):
        module.fit(train)
        own.barrier()
    accesses = [table.accesses() for table in tables.values()]
    print(json.dumps({"auc": score(module, test_ids, test_labels), "true": auc(p, test_labels), "accesses": accesses}))
    own.barrier()
    module.close()
    for table in tables.values():
        table.close()
"""


def test_embedding_is_take():
    rng = np.random.default_rng(1)
    w, ids = rng.normal(size=(7, 3)).astype(np.float32), rng.integers(0, 7, (4, 5))
    assert np.array_equal(nd.embedding(ids, w, rows=7, length=3).numpy(), w[ids])
    module = nd.Module(S.sum(S.square(S.embedding(nd.variable("ids"), rows=7, length=3, name="emb"))))
    module.bind(ids=ids)
    module.parameter("emb_weight").assign(w)
    module.forward(ids=ids)
    module.backward()
    wanted = np.zeros_like(w)
    np.add.at(wanted, ids, 2 * w[ids])
    np.testing.assert_allclose(module.gradient("emb_weight").numpy(), wanted, rtol=1e-6)
    with pytest.raises(nd.Error, match=r"weights must have the shape \(7, 3\), not \(6, 3\)"):
        nd.embedding(ids, w[:6], rows=7, length=3)
    with pytest.raises(nd.Error, match="embedding: index 7 at place 0"):
        nd.embedding(np.array([7]), w, rows=7, length=3).numpy()


def test_rows_are_pulled_and_their_gradients_pushed():
    """The rows learn by adagrad on the gradients summed by id, scaled."""
    ids = np.array([[3, 1 << 40], [3, 9]])
    with nd.Embedding("rows", 2, rate=0.5) as table:
        net = S.sum(S.multiply(S.embedding(nd.variable("ids"), rows=1 << 30, length=2, name="emb"), nd.variable("x")))
        module = nd.Module(net)
        module.init_optimizer("sgd", scale=0.25)
        x = np.arange(1, 9, dtype=np.float32).reshape(2, 2, 2)
        module.bind(tables={"emb_weight": table}, ids=ids, x=x)
        assert module.names == []
        total = {3: x[0, 0] + x[1, 0], 1 << 40: x[0, 1], 9: x[1, 1]}
        rows, squares = {i: np.zeros(2) for i in total}, {i: np.zeros(2) for i in total}
        for _ in range(3):
            out = float(module.forward(ids=ids, x=x))
            assert out == pytest.approx(sum(float((rows[int(i)] * v).sum()) for i, v in zip(ids.ravel(), x.reshape(4, 2))),
                                        rel=1e-5)
            module.backward()
            module.update()
            for i, g in total.items():
                squares[i] += (0.25 * g) ** 2
                rows[i] -= 0.5 * 0.25 * g / np.sqrt(squares[i] + 1e-8)
        assert table.accesses() == (18, 0)  # three ids, pulled and pushed three times
        with pytest.raises(nd.Error, match="emb: id -1 at place 2"):
            module.forward(ids=np.array([[0, 1], [-1, 2]]), x=x).numpy()
        assert np.isfinite(float(module.forward(ids=ids, x=x)))
        with pytest.raises(nd.Error, match="1 modules use the embedding"):
            table.close()
        module.close()
        for net, what in ((S.embedding(nd.variable("ids"), rows=9, length=3, name="emb"), "of 3 f32, and its table 0"),
                          (S.embedding(S.negative(nd.variable("ids")), rows=9, length=2, name="emb"), "must be an input"),
                          (S.embedding(nd.variable("ids"), rows=9, length=2, name="e"), "no embedding .* 'emb_weight'")):
            with pytest.raises(nd.Error, match=what):
                nd.Module(net).bind(tables={"emb_weight": table}, ids=ids)
        data = np.zeros((5, 2), np.int64)
        with pytest.raises(nd.Error, match="columns of data of type i64 with 2 columns"):
            nd.Iterator(data, data[:, 0], 5).look_ahead(table, range(1, 3))


def test_wide_and_deep_alone(run):
    done = run(SEVERAL.replace("sys.argv[1]", "4"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["auc"] > 0.975 * found["true"]


def test_wide_and_deep_on_two_nodes(run, tern_command):
    """Rows that are signalled ahead are here when they are used."""
    remote = {}
    for ahead in (0, 8):
        done = run(SEVERAL.replace("sys.argv[1]", str(ahead)), [tern_command, "run", "-n", "2", "--no-prefix", "--"],
                   TERN_SHARE="0")
        assert done.returncode == 0, done.stderr
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(found) == 2 and all(f["auc"] > 0.96 * f["true"] for f in found)
        remote[ahead] = sum(r for f in found for _, r in f["accesses"]) / sum(n for f in found for n, _ in f["accesses"])
    assert remote[0] > 0.2 and remote[8] < 0.5 * remote[0], remote


def example(*options):
    """What examples/clicks.py says of its last epoch: the AUC, and its share of the true model's."""
    command = [sys.executable, ROOT / "examples/clicks.py", "--rows=40000", "--ids=2000", "--epochs=1", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    words = done.stdout.splitlines()[-1].split()
    return float(words[4].rstrip(",")), float(words[5])


def test_the_example_of_clicks():
    found, share = example()
    assert found > 0.8 and share > 0.92


@pytest.mark.torch
def test_clicks_as_in_torch():
    pytest.importorskip("torch")
    assert abs(example()[0] - example("--torch")[0]) < 0.005
