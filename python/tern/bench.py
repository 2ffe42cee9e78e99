"""python3 -m tern.bench - measures the package, each figure beside its baseline in the same run.

Rows are uniform keys of a million unless stated. Each figure is the median of five, which take turns with those of the
baseline; times of one thread are its CPU time, so that other programs disturb them less. `--json` prints one object per line:
what was measured, both times, their ratio, and the ratio it should have. The exit status is 1 when `--check` is given and a
ratio is not met. Two parts are only measured if they are named: `nd` compares tern.nd with numpy and torch, and `nodes`
compares jobs of tern.ctr:

    python3 -m tern.bench nodes --data ml-1m
"""

import argparse
import json
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np

import tern
from tern import _nodes

N_ROWS = 1_000_000
REPEATS = 5
SECONDS = 0.15  # that one measurement takes, about


def seconds_per_call(calls, seconds=None):
    """The CPU time of one of `calls()`, which makes some calls and returns how many."""
    seconds, n, begin = seconds or SECONDS, 0, time.thread_time()
    while True:
        n += calls()
        spent = time.thread_time() - begin
        if spent >= seconds:
            return spent / n


def medians(*calls, measure=seconds_per_call):
    """The median time of each call; they take turns."""
    times = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(REPEATS):
        for of, call in zip(times, calls):
            of.append(measure(call))
    return [sorted(of)[REPEATS // 2] for of in times]


class Report:
    """Prints figures as they come."""

    def __init__(self, as_json):
        self.as_json, self.n_missed = as_json, 0

    def ratio(self, what, seconds, baseline, baseline_seconds, wanted):
        """`wanted`: how many times as fast as the baseline it should be."""
        ratio = baseline_seconds / seconds
        self.put({"what": what, "us": round(seconds * 1e6, 3), "baseline": baseline,
                  "baseline_us": round(baseline_seconds * 1e6, 3), "ratio": round(ratio, 3), "wanted": wanted,
                  "met": ratio >= wanted})

    def rate(self, what, rate, baseline, baseline_rate, wanted):
        """`wanted`: how many times the examples per second of the baseline it should have."""
        ratio = rate / baseline_rate
        self.put({"what": what, "examples_per_s": round(rate), "baseline": baseline,
                  "baseline_examples_per_s": round(baseline_rate), "ratio": round(ratio, 3), "wanted": wanted,
                  "met": ratio >= wanted})

    def put(self, line):
        self.n_missed += not line["met"]
        if self.as_json:
            print(json.dumps(line), flush=True)
            return
        number, unit = ("us", "us ") if "us" in line else ("examples_per_s", "1/s")
        if number in line:
            print(f"{line['what']:42} {line[number]:12.2f} {unit}  {line['baseline']:24} "
                  f"{line['baseline_' + number]:12.2f} {unit}  {line['ratio']:8.2f} (wanted {line['wanted']})  {'' if line['met'] else 'MISSED'}", flush=True)
        else:
            print(f"{line['what']:42} {line['value']} (wanted at most {line['wanted']})  "
                  f"{'' if line['met'] else 'MISSED'}", flush=True)


def batches_of(rng, n):
    """Batches of keys, enough of them that rows do not stay in the caches."""
    return rng.integers(0, N_ROWS, (max(20, min(4096, 400_000 // n)), n))


def each(function, batches, *others):
    """Calls the function with each batch and the other arguments."""
    rows = list(batches)

    def calls():
        if len(others) == 2:
            first, second = others
            for row in rows:
                function(first, row, second)
        else:
            for row in rows:
                function(row)
        return len(rows)

    return calls


def import_torch():
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    return torch


# ---- Arrays ----------------------------------------------------------------------------------------------------------


def bench_pull(report, node, worker, length):
    table = node.table(f"pull {length}", keys=N_ROWS, length=length, init=tern.uniform(-1, 1))
    array = np.empty((N_ROWS, length), np.float32)
    for begin in range(0, N_ROWS, 10_000):
        worker.pull(table, np.arange(begin, begin + 10_000), array[begin:begin + 10_000])
    rng = np.random.default_rng(1)
    for n, wanted in ((1, 1.0), (100, 1.4), (1000, 2.0), (10_000, 2.0)):
        keys, out = batches_of(rng, n), np.empty((n, length), np.float32)
        ours = each(worker.pull, keys, table, out)
        rows = list(keys)

        def take():
            for row in rows:
                np.take(array, row, 0, out)
            return len(rows)

        pulled, taken = medians(ours, take)
        report.ratio(f"pull {n} x {length}", pulled, "np.take(out=)", taken, wanted)
        if n >= 100:
            from_c(report, worker, table, keys, out, ours, False)
    worker.pull(table, keys[0], out)
    assert np.array_equal(out, array[keys[0]]), "what was pulled is not what was taken"
    table.close()


def from_c(report, worker, table, keys, out, ours, is_push):
    """The same calls from C, and from Python with nothing but two buffers and the call, in turns."""
    n_calls = len(keys) * max(1, int(SECONDS / seconds_per_call(ours, 0.01) / len(keys)))
    rows, python, bare, c = list(keys), [], [], []

    def alone():
        for row in rows:
            worker._bare(table, row, out, is_push)
        return len(rows)

    for _ in range(REPEATS):
        python.append(seconds_per_call(ours))
        bare.append(seconds_per_call(alone))
        c.append(worker._time(table, keys, out, is_push, n_calls) / n_calls)
    python, bare, c = (sorted(times)[REPEATS // 2] for times in (python, bare, c))
    name = f"{'push' if is_push else 'pull'} {keys.shape[1]} x {table.length}"
    report.ratio(name, python, "the same from C", c, 0.9)
    report.ratio(f"{name}, without checks", bare, "the same from C", c, 0)


def bench_push(report, node, worker, torch, length):
    table = node.table(f"push {length}", keys=N_ROWS, length=length)
    array = np.zeros((N_ROWS, length), np.float32)
    tensor = torch.zeros(N_ROWS, length) if torch else None
    for begin in range(0, N_ROWS, 10_000):  # rows take memory when they are first written
        worker.push(table, np.arange(begin, begin + 10_000), array[begin:begin + 10_000])
    rng = np.random.default_rng(2)
    for n in (100, 1000, 10_000):
        keys, updates = batches_of(rng, n), np.ones((n, length), np.float32)
        ours = each(worker.push, keys, table, updates)
        pushed, added = medians(ours, each(np.add.at, keys[:200], array, updates))
        report.ratio(f"push {n} x {length}", pushed, "np.add.at", added, 50)
        from_c(report, worker, table, keys, updates, ours, True)
        if torch:
            of_torch, source = list(torch.from_numpy(keys)), torch.from_numpy(updates)

            def add():
                for row in of_torch:
                    tensor.index_add_(0, row, source)
                return len(of_torch)

            pushed, added = medians(ours, add)
            report.ratio(f"push {n} x {length}", pushed, "torch index_add_", added, 4)
    table.close()


def bench_threads(report, node, length):
    table = node.table(f"threads {length}", keys=N_ROWS, length=length, init=tern.uniform(-1, 1))
    keys = batches_of(np.random.default_rng(3), 10_000)

    def pull(worker, n, seed):
        out = np.empty((10_000, length), np.float32)
        for i in range(n):
            worker.pull(table, keys[(i + seed) % len(keys)], out)

    workers = [node.worker() for _ in range(2)]
    pull(workers[0], len(keys), 0)
    n = 40

    def run(n_threads):
        threads = [threading.Thread(target=pull, args=(workers[i], n, 17 * i)) for i in range(n_threads)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (time.perf_counter() - begin) / (n * n_threads)

    one, two = medians(lambda: run(1), lambda: run(2), measure=lambda call: call())
    report.ratio(f"two threads, pull 10000 x {length}", two, "one thread", one, 1.6)
    for worker in workers:
        worker.close()
    table.close()


def bench_memory(report, node, worker):
    table = node.table("memory", keys=1000, length=32)
    keys, values = np.arange(100), np.zeros((100, 32), np.float32)

    def both(n):
        for _ in range(n):
            worker.pull(table, keys, out=values)
            worker.push(table, keys, values)

    both(100)
    tracemalloc.start()
    both(100)
    before = tracemalloc.get_traced_memory()[0]
    both(10_000)
    bytes_per_call = (tracemalloc.get_traced_memory()[0] - before) / 20_000
    tracemalloc.stop()
    report.put({"what": "bytes allocated per pull(out=) or push", "value": round(bytes_per_call, 3), "wanted": 0.05,
                "met": bytes_per_call <= 0.05})
    table.close()


def bench_import(report):
    def seconds(module):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        return time.perf_counter() - begin

    ours, numpy = medians(lambda: seconds("tern"), lambda: seconds("numpy"), measure=lambda call: call())
    report.ratio("import tern", ours, "import numpy", numpy, round(1 / 1.3, 3))


# ---- Layers ----------------------------------------------------------------------------------------------------------


def zipf(rng, shape, n, exponent=1.1):
    """Keys drawn by Zipf's law; the rarest and the commonest are spread over the rows."""
    weights = np.cumsum(1 / np.arange(1, n + 1) ** exponent)
    ranks = np.searchsorted(weights, rng.random(shape) * weights[-1])
    return rng.permutation(n)[ranks]


def bench_layers(report, node, worker, torch):
    import tern.torch as layers

    rng = np.random.default_rng(4)
    for is_bag in (False, True):
        for length in (16, 64):
            keywords = {"mode": "sum"} if is_bag else {}
            name = "EmbeddingBag" if is_bag else "Embedding"
            theirs = getattr(torch.nn, name)(N_ROWS, length, sparse=True, **keywords)
            update = tern.sgd(0.1) if is_bag else tern.adagrad(0.1)
            ours = getattr(layers, name)(worker, N_ROWS, length, name=f"{name} {length}", update=update, **keywords)
            ours.copy_(theirs.weight.data)
            optimizer = (torch.optim.SGD if is_bag else torch.optim.Adagrad)(theirs.parameters(), lr=0.1)
            for batch in (128, 2048):
                batches = [torch.from_numpy(keys) for keys in zipf(rng, (8, batch, 26), N_ROWS)]

                def our_step(keys):
                    ours(keys).sum().backward()

                def their_step(keys):
                    theirs(keys).sum().backward()
                    optimizer.step()
                    optimizer.zero_grad()

                mine, baseline = medians(each(our_step, batches), each(their_step, batches))
                report.ratio(f"{name} step {batch} x 26, {length} floats", mine,
                             f"nn.{name}, {'SGD' if is_bag else 'Adagrad'}", baseline, 1.0 if is_bag else 2.0)
            ours.table.close()


def main():
    parser = argparse.ArgumentParser(prog="python3 -m tern.bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--check", action="store_true", help="fail when a ratio is not met")
    parser.add_argument("--quick", action="store_true", help="short measurements, which mean little")
    parser.add_argument("parts", nargs="*", metavar="PART", help="pull, push, threads, memory, import, layers; default: all; or nd, nodes")
    _nodes.add_options(parser)
    arguments = parser.parse_args()
    global SECONDS, REPEATS
    if arguments.quick:
        SECONDS, REPEATS = 0.001, 1
    parts = arguments.parts or ["import", "memory", "pull", "push", "threads", "layers"]
    unknown = set(parts) - {"import", "memory", "pull", "push", "threads", "layers", "nd", "nodes"}
    if unknown:
        parser.error(f"there is no part {sorted(unknown)[0]!r}")
    if "nodes" in parts and not arguments.data:
        parser.error("the part nodes needs --data")
    report, torch = Report(arguments.json), None
    if {"push", "layers", "nd"} & set(parts):
        torch = import_torch()
        if not torch:
            print("tern.bench: there is no torch; what needs it is left out", file=sys.stderr)
    if "nd" in parts:
        from tern import _nd_bench  # tern.nd is another library

        _nd_bench.bench(report, torch, medians)
    with tern.Node() as node:
        worker = node.worker()
        if "import" in parts:
            bench_import(report)
        if "memory" in parts:
            bench_memory(report, node, worker)
        for length in (32, 128):
            if "pull" in parts:
                bench_pull(report, node, worker, length)
            if "push" in parts:
                bench_push(report, node, worker, torch, length)
        if "threads" in parts:
            bench_threads(report, node, 32)
        if "layers" in parts and torch:
            bench_layers(report, node, worker, torch)
    if "nodes" in parts:
        _nodes.bench(report, arguments)
    return 1 if arguments.check and report.n_missed else 0


if __name__ == "__main__":
    sys.exit(main())
