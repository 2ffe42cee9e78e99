"""Tables that admit, count, or take the homes of their keys from the program; options that make no sense."""

import threading

import numpy as np
import pytest
import tern


@pytest.fixture
def worker(node):
    return node.worker()


def test_a_row_is_given_to_keys_that_are_counted_often_enough(node, worker):
    table = node.table("t", length=2, admit=2, expected_keys=1000)
    keys, ones = np.array([[5, 6]]), np.ones((1, 2, 2), np.float32)
    for _ in range(2):
        worker.push(table, keys, ones)
    values, present = worker.pull_present(table, keys)
    assert values.shape == (1, 2, 2) and not values.any() and present.shape == (1, 2) and not present.any()
    worker.count(table, np.array([6]))
    worker.push(table, keys[:, 1:], ones[:, 1:])
    out = np.empty((1, 2, 2), np.float32)
    values, present = worker.pull_present(table, keys, out)
    assert values is out and present.tolist() == [[False, True]] and out[0].tolist() == [[0, 0], [1, 1]]
    assert table.stats()["dropped_keys"] == 4


def test_counts(node, worker):
    table = node.table("t", admit=10)
    worker.count(table, np.array([1, 2]), np.array([10, 11], np.uint32))
    worker.push(table, np.array([1, 2]), np.ones((2, 1), np.float32))
    assert worker.pull_present(table, np.array([1, 2, 3]))[1].tolist() == [True, True, False]
    for counts, word in [(np.array([1], np.uint32), "2 keys"), (np.array([1, 2]), "int32")]:
        with pytest.raises(ValueError, match=word):
            worker.count(table, np.array([1, 2]), counts)


def test_rows_leave_by_a_function(node, worker):
    table = node.table("t", length=2)
    keys = np.arange(100, dtype=np.uint64)
    worker.push(table, keys, np.stack([keys, keys], 1).astype(np.float32))
    assert worker.sweep(table, lambda key, row: row[0] == key and key % 4 == 0) == 25
    present = worker.pull_present(table, keys)[1]
    assert not present[::4].any() and present.sum() == 75 and table.stats()["removed_rows"] == 25

    def raises(key, row):
        raise KeyError(key)

    with pytest.raises(KeyError):
        worker.sweep(table, raises)
    with pytest.raises(tern.Error, match="cannot call Tern"):
        worker.sweep(table, lambda key, row: worker.pull(table, keys))
    with pytest.raises(ValueError, match="function"):
        worker.sweep(table, 3)
    assert worker.pull_present(table, keys)[1].sum() == 75


def test_rows_leave_by_age_and_limit(node, worker):
    old = node.table("old", evict_age=3, evict_floor=10)
    worker.push(old, np.arange(50), np.ones((50, 1), np.float32))
    for _ in range(20):
        worker.advance()
    assert old.stats()["rows"] == 10
    full = node.table("full", length=64, memory_limit=2 << 20, evict_at_limit=True)
    for start in range(0, 40_000, 1000):
        worker.push(full, np.arange(start, start + 1000), np.ones((1000, 64), np.float32))
    stats = full.stats()
    assert stats["memory_bytes"] <= 2 << 20 and stats["removed_rows"] > 30_000


def test_a_sketch_counts_any_number_of_keys(node, worker):
    table = node.table("t", dtype="int64", sketch=tern.Sketch(epsilon=0.001, delta=0.01, counters=100))
    keys = np.random.default_rng(1).zipf(1.5, 20_000).astype(np.uint64)
    worker.push(table, keys, np.ones((keys.size, 1), np.int64))
    distinct, truth = np.unique(keys, return_counts=True)
    assert (worker.pull(table, distinct)[:, 0] >= truth).all()
    heaviest, counts, errors = worker.top(table, 10)
    assert heaviest.dtype == np.uint64 and set(heaviest[:5]) == set(distinct[np.argsort(-truth)][:5])
    for key, count, error in zip(heaviest, counts, errors):
        assert count - error <= truth[distinct == key][0] <= count
    assert len(worker.top(table, 1_000_000)[0]) == 100
    with pytest.raises(ValueError, match="keys"):
        worker.top(table, 0)
    with pytest.raises(tern.Error):
        worker.top(node.table("plain"), 3)


def test_cells_of_a_sketch_can_be_saved_and_added(node, worker):
    sketch = tern.Sketch(width=64, depth=3, seed=5)
    one, other = (node.table(name, dtype="int64", sketch=sketch) for name in ("one", "other"))
    keys = np.arange(100)
    for table, count in (one, 2), (other, 3):
        worker.push(table, keys, np.full((100, 1), count))
    cells = worker.read_cells(one, 0, 64 * 3)
    assert cells.dtype == np.int64 and cells.sum() == 3 * 100 * 2
    worker.add_cells(other, 0, cells)
    assert worker.read_cells(other, 64, 64).sum() == 100 * 5 and (worker.pull(other, keys) >= 5).all()
    for call in (lambda: worker.read_cells(one, 0, 0), lambda: worker.read_cells(one, 190, 3),
                 lambda: worker.add_cells(one, 0, cells.astype(np.int32)), lambda: worker.add_cells(one, 1, cells)):
        with pytest.raises(tern.Error):
            call()


def on_two_nodes(function):
    """What the function returns for each of two nodes of this process, with a worker."""
    answers = {}

    def run(i):
        with tern.Node(group=function.__name__, node=i, nodes=2) as node, node.worker() as worker:
            answers[i] = function(node, worker)
            node.barrier()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answers[i] for i in range(2)]


def test_homes_of_keys():
    """Both nodes pull the same keys; only those that are at home elsewhere are remote."""

    def remote(node, worker):
        placement = tern.Placement(np.arange(10), np.array([0] * 3 + [1] * 7, np.uint32))
        table = node.table("t", keys=10, length=2, policy="static", placement=placement)
        worker.pull(table, np.arange(10))
        return table.stats()["remote_keys"]

    assert on_two_nodes(remote) == [7, 3]


def test_replicas_of_a_placement():
    """Node 1 has replicas of two keys of node 0, which lack at most as many updates as the policy allows."""

    def behind(node, worker):
        placement = tern.Placement(np.arange(4), np.zeros(4, np.uint32), np.arange(2), np.ones(2, np.uint32),
                                   frequencies=np.array([4, 1, 1, 1]))
        table = node.table("t", keys=4, length=1, policy="graph:2", placement=placement)
        for _ in range(10):
            worker.pull(table, np.arange(2))
            node.barrier()
            if node.index == 0:
                worker.push(table, np.arange(2), np.ones((2, 1), np.float32))
            node.barrier()
        stats = table.stats()
        return worker.pull(table, np.arange(2)).min() >= 8, stats["checked_keys"], sum(stats["updates_behind"][3:])

    at_home, with_replicas = on_two_nodes(behind)
    assert at_home[0] and with_replicas[0] and with_replicas[1] > 0 and with_replicas[2] == 0


def test_keys_that_are_brought_here_meanwhile():
    def local(node, worker):
        table = node.table("t", keys=10, length=1, policy="relocate")
        keys = np.arange(node.index, 10, 2)
        node.barrier()
        ticket = worker.localize(table, keys, ticket=True)
        assert isinstance(ticket, tern.Ticket) and ticket.wait() is None and ticket.done()
        return worker.pull_if_local(table, keys)[1].tolist()

    assert on_two_nodes(local) == [[True] * 5] * 2


def test_backups_and_filters():
    def bytes_of(node, worker):
        table = node.table("t", keys=100, length=8, policy="static", backups=1, filters="zeros,lz4")
        worker.push(table, np.arange(100), np.zeros((100, 8), np.float32))
        worker.flush()
        node.barrier()
        return table.stats()["zeros_saved_bytes"] > 0, node.stats()["backup_bytes"] > 0

    assert on_two_nodes(bytes_of) == [(True, True)] * 2


def test_updaters_that_ask_for_the_age_of_an_update(node, worker):
    """Two workers; the second pushes three updates after its pull."""
    other, one = node.worker(), np.ones((1, 2), np.float32)
    for name in ("asyncadagrad", "adadelay"):
        table = node.table(name, keys=1, length=2, policy="static", update=getattr(tern, name)(0.5))
        keys = np.array([0])
        other.pull(table, keys)
        for _ in range(3):
            worker.pull(table, keys)
            worker.push(table, keys, one)
        other.push(table, keys, one)
        stats = table.stats()
        assert stats["aged_pushes"] == 4 and stats["delays"][:3] == [3, 0, 1] and stats["delay_mean"] == 0.75
    # s is 1, 2, 3, and then 3 + 4/7 with t = 4 and d = 3
    steps = [1, 2, 3, (3 + 4 / 7) * 7 / 4]
    assert worker.pull(table, keys)[0, 0] == pytest.approx(-sum(0.5 / step**0.5 for step in steps), rel=1e-5)
    table = node.table("revision", keys=1, length=2, policy="static", update=tern.adaptiverevision(0.5))
    worker.push(table, keys, np.array([[1, 0]], np.float32))
    assert worker.pull(table, keys)[0].tolist() == pytest.approx([-0.5, 1])


@pytest.mark.parametrize("options, word", [
    ({"placement": tern.Placement(np.arange(3), np.zeros(2, np.uint32))}, "3 keys"),
    ({"placement": tern.Placement(np.arange(3), np.zeros(3))}, "int32"),
    ({"placement": tern.Placement(np.arange(3), np.full(3, 7, np.uint32))}, "node"),
    ({"placement": (1, 2)}, "Placement"),
    ({"placement": tern.Placement(np.arange(3), np.zeros(3, np.uint32), frequencies=np.arange(2))}, "3 keys"),
    ({"sketch": 3}, "Sketch"),
    ({"sketch": tern.Sketch(epsilon=2.0, delta=0.1)}, "epsilon"),
    ({"admit": 1 << 32}, "admit"),
    ({"admit": 100_000}, "admit"),
    ({"hot_factor": -1.0}, "hot_factor"),
    ({"backups": 9}, "backups"),
])
def test_options_that_make_no_sense(node, options, word):
    with pytest.raises(tern.Error, match=word):
        node.table("t", keys=None if "admit" in options or "sketch" in options else 10,
                   dtype="int64", policy="multi" if "hot_factor" in options else None, **options)


def test_an_unknown_option(node):
    with pytest.raises(TypeError, match="'admitt'"):
        node.table("t", admitt=3)


def test_managing_options(node):
    node.table("a", keys=10, staleness_ms=5, max_rounds_per_s=100)
    node.table("b", keys=10, policy="multi", frequencies=np.arange(10), hot_factor=2.5)
