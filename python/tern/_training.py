"""What tern.ctr and tern.gcn share: their options, how the layers are trained, and the figures of an epoch.

A model reads rows of a table and feeds them to dense layers. Both are trained in one of three ways: by torch alone
(`--plain`), in Tern (`--dense async`), or the rows in Tern and the dense layers by torch with gradients that are averaged
over the nodes at each step (`--dense sync`).
"""

import argparse
import json
import os
import sys
import time

import numpy as np
import torch

import tern
import tern.torch as layers


# ---- Options ---------------------------------------------------------------------------------------------------------


def new_parser(program, description):
    return argparse.ArgumentParser(prog=f"python3 -m {program}", description=description.split("\n\n")[0],
                                   formatter_class=argparse.ArgumentDefaultsHelpFormatter)


def add_options(parser, **defaults):
    """The options that the models share, behind their own."""
    add = parser.add_argument
    add("--epochs", type=int, help="times to go through the training data")
    add("--dim", type=int, help="floats of a vector")
    add("--rate", type=float, help="learning rate of the vectors (AdaGrad)")
    add("--dense-rate", type=float, help="learning rate of the dense layers")
    add("--init", type=float, help="standard deviation of the vectors at first")
    add("--dense", choices=("async", "sync"), default="async",
        help="keep dense layers in Tern, or average their gradients at each step")
    add("--average", choices=("tern", "gloo"), default="tern", help="who averages, with --dense sync")
    add("--policy", default=None, help="how the cluster manages the keys")
    add("--ahead", type=int, default=100, help="batches for which intent is signalled ahead")
    add("--plain", action="store_true", help="torch alone")
    add("--silent", action="store_true", help="each process trains its part in tables of its own, and never speaks: the speed "
        "that no way of managing keys exceeds")
    add("--seed", type=int, default=1, help="of all random numbers")
    add("--threads", type=int, default=1, help="of torch, per process")
    add("--json", action="store_true", help="print a JSON object per epoch")
    parser.set_defaults(**defaults)


def main(program, options, run):
    """Opens a node and calls run(options, node); returns the exit status."""
    torch.set_num_threads(options.threads)
    if options.average == "gloo":
        torch.distributed.init_process_group("gloo")
    try:
        with tern.Node() as node:
            run(options, node)
    except tern.Error as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    return 0


def open_worker(options, node):
    """The worker that trains: of a node that is in no cluster, with --silent."""
    if not options.silent:
        return node.worker()
    return tern.Node(group=f"silent-{os.getpid()}", node=0, nodes=1).worker()


# ---- Training --------------------------------------------------------------------------------------------------------


class Trainer:
    """Trains `rows`, a layer of Tern's or with --plain of torch's, and a module that takes its rows.

    `update` and `optimizer` make the dense layers' updater in Tern and their optimizer in torch. A model's subclass has
    to_loss(batch), where a batch has `keys`, and score(part), which returns a dict.
    """

    def __init__(self, options, node, worker, rows, module, update, optimizer):
        self.options, self.node, self.worker, self.rows, self.module = options, node, worker, rows, module
        self.optimizers, self.averager, self.dense = [], None, module
        if options.plain:
            self.optimizers.append(torch.optim.Adagrad(rows.parameters(), lr=options.rate))
        if not options.plain and options.dense == "async":
            self.dense = layers.Dense(module, worker, update=update(options.dense_rate), policy=options.policy)
        else:
            self.optimizers.append(optimizer(module.parameters(), lr=options.dense_rate))
            if not options.plain:
                self.averager = layers.Averager(module, worker.node, by=options.average)

    def batch_size(self):
        """Of one node's batches."""
        return self.options.batch

    def pull(self):
        """Reads the newest dense layers."""
        if isinstance(self.dense, layers.Dense):
            self.dense.pull()

    def _finish_step(self):
        if self.averager:
            self.averager.average()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if isinstance(self.dense, layers.Dense):
            self.dense.step()

    def _step(self, batch):
        loss = self.to_loss(batch)
        loss.backward()
        self._finish_step()
        return loss.item()

    def _train(self, batches, n_examples):
        """Trains on each batch; returns the sum of the losses and the number of batches."""
        n_steps = self._most(-(-n_examples // self.batch_size())) if self.averager else 0
        if not self.options.plain:
            batches = layers.Loader(batches, keys=lambda batch: batch.keys, layer=self.rows, ahead=self.options.ahead)
        losses = [self._step(batch) for batch in batches]
        for _ in range(len(losses), n_steps):  # the others still average: this node's part is zero
            self._finish_step()
        return sum(losses), len(losses)

    def _most(self, number):
        """The largest of all nodes' numbers."""
        numbers = np.zeros(self.node.count, np.int64)
        numbers[self.node.index] = number
        return int(self.node.all_reduce(numbers).max())

    def _counts(self):
        """Remote accesses, all accesses and bytes sent for the table of rows so far, at this node."""
        if self.options.plain:
            return np.zeros(3)
        stats = self.rows.table.stats()
        return np.array([stats["remote_keys"], stats["pulled_keys"] + stats["pushed_keys"],
                         stats["request_bytes"] + stats["reply_bytes"] + stats["sent_bytes"]], np.float64)

    def epoch(self, batches, n_examples):
        """Trains on this node's batches of `n_examples`, and returns the figures of all nodes together, without what an
        evaluation reads."""
        self.node.barrier()
        before, begin = self._counts(), time.perf_counter()
        loss, n_batches = self._train(batches, n_examples)
        self.node.quiesce()
        seconds = time.perf_counter() - begin
        sums = np.array([loss, n_batches, n_examples, *(self._counts() - before)])
        loss, n_batches, n_examples, n_remote, n_accesses, n_bytes = self.node.all_reduce(sums).tolist()
        figures = {"loss": loss / max(n_batches, 1), "seconds": seconds, "examples_per_s": n_examples / seconds,
                   "nodes": self.node.count}
        if not self.options.plain:
            figures |= {"remote_share": n_remote / max(n_accesses, 1), "bytes_per_batch": n_bytes / max(n_batches, 1),
                        "memory_bytes": self.rows.table.stats()["memory_bytes"]}
        return figures

    def run(self, batches_of, n_examples, validation, test):
        """Trains for all epochs on the batches that batches_of(epoch) makes. Node 0 shows the score of the validation part
        (None: there is none) after each epoch, and of the test part at the end."""
        for epoch in range(1, self.options.epochs + 1):
            line = {"epoch": epoch, **self.epoch(batches_of(epoch), n_examples)}
            if self.node.index == 0:
                scores = self._scores("validation", validation)
                text = f"epoch {epoch}: loss {line['loss']:.4f}, {line['examples_per_s']:.0f} examples/s"
                show(self.options, line | scores, ", ".join([text, *in_words(scores)]))
        self.node.barrier()
        if self.node.index == 0:
            scores = self._scores("test", test)
            how = {"data": self.options.data, "plain": self.options.plain, "dense": self.options.dense,
                   "nodes": self.node.count}
            show(self.options, how | scores, ", ".join(in_words(scores)))
        self.node.barrier()
        self.worker.close()
        if self.worker.node is not self.node:
            self.worker.node.close()

    def _scores(self, name, part):
        return {} if part is None else {f"{name}_{score}": value for score, value in self.score(part).items()}


def in_words(scores):
    return [f"{name.replace('_', ' ').replace('auc', 'AUC')} {value:.4f}" for name, value in scores.items()]


def show(options, line, text):
    print(json.dumps(line) if options.json else text, flush=True)
