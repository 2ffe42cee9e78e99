"""python3 -m tern.gcn - trains a graph convolutional network that learns a vector per node instead of using features.

    python3 -m tern.gcn --data coauthor.npz
    tern run -n 2 python3 -m tern.gcn --data coauthor.npz --partition metis

Two layers: the first averages the vectors of a node and up to 16 sampled neighbours, the second what the first gives, and
multiplies it with a matrix. The vectors are rows of a table, updated by AdaGrad where they are. Each worker trains on the
nodes of its part, which METIS or chance gives it. Needs torch.
"""

import sys

import numpy as np
import torch
from torch import nn

import tern
import tern.torch as layers
from tern import _graphs, _training


class Batch:
    """Seeds, the nodes of the first layer they need, and the keys of the vectors those need."""

    def __init__(self, graph, seeds, fanout, seed):
        self.labels = torch.from_numpy(graph.labels[seeds])
        neighbours, offsets = graph.sample(seeds, fanout, seed)
        nodes = with_own(seeds, neighbours, offsets)
        middle, where = np.unique(nodes, return_inverse=True)
        self.where = torch.from_numpy(where)
        lengths = np.diff(offsets) + 1
        self.lengths = torch.from_numpy(lengths)
        self.seed_of = torch.from_numpy(np.repeat(np.arange(len(seeds)), lengths))
        neighbours, offsets = graph.sample(middle, fanout, seed + 1)
        self.keys = torch.from_numpy(with_own(middle, neighbours, offsets))
        self.offsets = torch.from_numpy(offsets[:-1] + np.arange(len(middle)))


def with_own(seeds, neighbours, offsets):
    """The neighbours of each seed with the seed itself before them."""
    return np.insert(neighbours, offsets[:-1], seeds)


def batches(graph, nodes, size, fanout, rng):
    """Cuts the nodes into batches, shuffled."""
    order = nodes[rng.permutation(len(nodes))]
    for begin in range(0, len(order), size):
        yield Batch(graph, order[begin:begin + size], fanout, int(rng.integers(2**62)))


class Network(nn.Module):
    """What follows the averages of vectors."""

    def __init__(self, length, n_classes, dropout):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(length))
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(length, n_classes)

    def hidden(self, means):
        return self.dropout(torch.relu(means + self.bias))

    def forward(self, means, batch):
        hidden = self.hidden(means)[batch.where]
        sums = torch.zeros(len(batch.lengths), hidden.shape[1]).index_add_(0, batch.seed_of, hidden)
        return self.last(sums / batch.lengths[:, None])


@torch.no_grad()
def accuracy(vectors, network, graph, nodes):
    """The share of nodes whose class is found, with all neighbours instead of a sample."""
    ends, own = graph.indptr, np.arange(graph.n)
    keys = with_own(own, graph.indices, ends)
    offsets = torch.from_numpy(ends[:-1] + own)
    mean = lambda rows: nn.functional.embedding_bag(torch.from_numpy(keys), rows, offsets, mode="mean")  # noqa: E731
    network.eval()
    found = network.last(mean(network.hidden(mean(vectors)))).argmax(dim=1).numpy()
    network.train()
    return float((found[nodes] == graph.labels[nodes]).mean())


class Trainer(_training.Trainer):
    """The network, with a vector per node of the graph, at home where that node is trained."""

    def __init__(self, options, node, graph, part):
        torch.manual_seed(options.seed)
        network = Network(options.dim, int(graph.labels.max()) + 1, options.dropout)
        worker = _training.open_worker(options, node)
        if options.plain:
            vectors = nn.EmbeddingBag(graph.n, options.dim, mode="mean", sparse=True)
            nn.init.normal_(vectors.weight, 0, options.init)
        else:
            homes = tern.Placement(np.arange(graph.n), part.astype(np.uint32)) if worker.node.count > 1 else None
            table = worker.node.table(
                "nodes", keys=graph.n, length=options.dim, policy=options.policy, placement=homes,
                init=tern.normal(0, options.init, seed=options.seed), update=tern.adagrad(options.rate))
            vectors = layers.EmbeddingBag(worker, graph.n, options.dim, mode="mean", table=table)
        super().__init__(options, node, worker, vectors, network, tern.adagrad, torch.optim.Adagrad)
        self.graph, self.loss = graph, nn.CrossEntropyLoss()

    def to_loss(self, batch):
        return self.loss(self.dense(self.rows(batch.keys, batch.offsets), batch), batch.labels)

    def score(self, nodes):
        self.pull()
        weight = self.rows.weight
        vectors = weight.data if self.options.plain else weight
        return {"accuracy": accuracy(vectors, self.module, self.graph, nodes)}


def parse(arguments):
    parser = _training.new_parser("tern.gcn", __doc__)
    add = parser.add_argument
    add("--data", required=True, metavar="FILE.npz", help="arrays indptr, indices and labels; or pickled matrices, with --trust")
    add("--trust", action="store_true", help="unpickle the file, which can run any program that is hidden in it")
    add("--partition", choices=("metis", "random"), default="random", help="how nodes are given to workers")
    add("--batch", type=int, default=32, help="graph nodes of a batch, per worker")
    add("--fanout", type=int, default=16, help="neighbours that are sampled, per node and layer")
    add("--dropout", type=float, default=0.5, help="share of the first layer that is left out, in training")
    _training.add_options(parser, epochs=8, dim=64, rate=0.1, dense_rate=0.02, init=0.1)
    return parser.parse_args(arguments)


def run(options, node):
    graph = _graphs.read(options.data, options.trust)
    order = np.random.default_rng(options.seed).permutation(graph.n)
    train, validation, test = np.split(order, [graph.n * 6 // 10, graph.n * 8 // 10])
    part = _graphs.partition(graph, node.count, options.partition, options.seed)
    if node.index == 0 and node.count > 1:
        share = _graphs.cut_share(graph, part)
        _training.show(options, {"partition": options.partition, "cut_share": share}, f"{100 * share:.1f} % of edges are cut")
    own = train[part[train] == node.index]
    trainer = Trainer(options, node, graph, part)

    def batches_of(epoch):
        rng = np.random.default_rng((options.seed, epoch, node.index))
        return batches(graph, own, trainer.batch_size(), options.fanout, rng)

    trainer.run(batches_of, len(own), validation, test)


def main(arguments=None):
    return _training.main("tern.gcn", parse(arguments), run)


if __name__ == "__main__":
    sys.exit(main())
