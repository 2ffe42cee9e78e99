"""Tern: a parameter manager for large sparse models.

    import numpy as np, tern

    with tern.Node() as node:
        table = node.table("vectors", keys=1_000_000, length=32, init=tern.normal(0, 0.1), update=tern.adagrad(0.1))
        worker = node.worker()                      # one per thread
        keys = np.array([3, 14, 15])
        values = worker.pull(table, keys)           # (3, 32) float32
        worker.push(table, keys, 0.1 * values)      # gradients; AdaGrad runs where the rows are

Keys are arrays of int64 or uint64, values arrays of the table's own type. Both are used where they lie; another type or
shape is an error, never a conversion. numpy arrays, torch tensors and everything else with a buffer will do.

`tern.torch` has layers for PyTorch, `tern.files` reads and writes arrays, `python3 -m tern.bench` measures.
"""

import enum as _enum
from typing import NamedTuple as _NamedTuple

from . import _tern
from ._tern import Checkpoint, Distribution, Sample, Task, Ticket, kernel, version

__version__ = version
__all__ = [
    "Call", "Checkpoint", "ClosedError", "Conformity", "Distribution", "Error", "ForkError", "Group", "Init", "InterruptError",
    "LateError", "NoMemoryError", "Node", "PeerError", "Pin", "Placement", "RangeError", "Sample", "Sketch", "Status", "Table", "Task",
    "Ticket", "Updater", "InvalidError", "Worker", "adadelay", "adagrad", "adam", "adaptiverevision", "asyncadagrad", "constant", "ftrl", "kernel", "momentum",
    "normal", "sgd", "uniform", "version", "zeros",
]


class Status(_enum.IntEnum):
    """How a call ended: the statuses of tern.h."""

    OK = 0
    INVALID = 1
    RANGE = 2
    CLOSED = 3
    MISMATCH = 4
    NO_MEMORY = 5
    LIMIT = 6
    BUSY = 7
    CONFLICT = 8
    PEER = 9
    NETWORK = 10
    LATE = 11
    INTERRUPTED = 12

    @classmethod
    def _missing_(cls, value):
        """A status that is newer than this package."""
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = _tern._status_name(value)
        member._value_ = value
        return member


# ---- Exceptions ----------------------------------------------------------------------------------------------------


class Error(Exception):
    """A call of Tern failed. `str()` gives the sentence, `status` the Status."""

    status: Status = Status.INVALID


class InvalidError(Error, ValueError):
    """An argument makes no sense, or does not fit the table (INVALID, MISMATCH, CONFLICT)."""


class ClosedError(Error, ValueError):
    """The node, table or worker was closed."""


class RangeError(Error, IndexError):
    """A key is outside the table's key space."""


class NoMemoryError(Error, MemoryError):
    """Memory, or the table's own limit of it, is used up."""


class PeerError(Error, ConnectionError):
    """Another node is dead or cannot be reached (PEER), or this node's own network is at fault (NETWORK)."""


class LateError(Error, TimeoutError):
    """A wait lasted longer than its deadline."""


class InterruptError(Error):
    """A wait was interrupted, though no signal handler raised an exception."""


class ForkError(Error, RuntimeError):
    """A forked child cannot use its parent's node. Start children with `spawn`, or keep Tern in the parent."""


# ---- Initial values and updaters -------------------------------------------------------------------------------------


class Init(_NamedTuple):
    """The value a key has before anything was written to it. It depends on the seed and the key alone."""

    kind: int
    a: float = 0.0
    b: float = 0.0
    seed: int = 0


def zeros() -> Init:
    """All elements are 0."""
    return Init(0)


def constant(value: float) -> Init:
    """All elements are `value`."""
    return Init(1, value)


def uniform(low: float, high: float, seed: int = 0) -> Init:
    """Uniform in [low, high)."""
    return Init(2, low, high, seed)


def normal(mean: float = 0.0, deviation: float = 1.0, seed: int = 0) -> Init:
    """Normally distributed."""
    return Init(3, mean, deviation, seed)


class Updater(_NamedTuple):
    """What a push does to a row. It runs where the main copy of the row is."""

    name: str
    p0: float = 0.0
    p1: float = 0.0
    p2: float = 0.0
    p3: float = 0.0


class Sketch(_NamedTuple):
    """The size of a sketch: cells of a row and rows, or an error of at most epsilon times all counts for all but a share
    of delta of the keys. `counters` are for Worker.top. `conservative` estimates are lower, and pushes slower. `seed` is the
    hash's; 0 draws one.
    """

    width: int = 0
    depth: int = 0
    counters: int = 0
    epsilon: float = 0.0
    delta: float = 0.0
    conservative: bool = False
    seed: int = 0


class Placement(_NamedTuple):
    """The homes of keys, as `tern partition` computes them: homes[i] is the node of keys[i]; node replica_nodes[i] is to
    have a replica of replica_keys[i]. Keys are int64 or uint64, nodes int32 or uint32. Policy graph:S weighs updates of keys[i]
    by frequencies[i], int64 or uint64.
    """

    keys: object
    homes: object
    replica_keys: object = None
    replica_nodes: object = None
    frequencies: object = None


def sgd(rate: float) -> Updater:
    """w -= rate * g"""
    return Updater("sgd", rate)


def momentum(rate: float, decay: float = 0.9) -> Updater:
    """m = decay * m + g;  w -= rate * m"""
    return Updater("momentum", rate, decay)


def asyncadagrad(rate: float, epsilon: float = 1e-10) -> Updater:
    """AdaGrad whose updates' delays are in the table's statistics; policy `static`."""
    return Updater("asyncadagrad", rate, epsilon)


def adadelay(rate: float, epsilon: float = 1e-10) -> Updater:
    """AdaGrad whose rate falls with the delay of an update; policy `static`."""
    return Updater("adadelay", rate, epsilon)


def adaptiverevision(rate: float, epsilon: float = 1e-10) -> Updater:
    """AdaGrad that revises past steps. A row is weights and sums of gradients: push the gradients and the sums pulled."""
    return Updater("adaptiverevision", rate, epsilon)


def adagrad(rate: float, epsilon: float = 1e-10) -> Updater:
    """s += g*g;  w -= rate * g / (sqrt(s) + epsilon)"""
    return Updater("adagrad", rate, epsilon)


def adam(rate: float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> Updater:
    """Adam. It counts steps per row, where torch.optim.SparseAdam counts them for all rows together."""
    return Updater("adam", rate, beta1, beta2, epsilon)


def ftrl(alpha: float, beta: float = 1.0, l1: float = 0.0, l2: float = 0.0) -> Updater:
    """FTRL-proximal."""
    return Updater("ftrl", alpha, beta, l1, l2)


# ---- Objects ---------------------------------------------------------------------------------------------------------

_TYPES = {"float32": 0, "float64": 1, "int32": 2, "int64": 3}


def _type_number(dtype):
    """The number of an element type: a name, a numpy dtype or class, or a torch dtype."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", str(dtype))
    name = name.removeprefix("torch.")
    if name not in _TYPES:
        raise InvalidError(f"dtype: float32, float64, int32 or int64 are possible, not {dtype!r}")
    return _TYPES[name]


class Conformity(_enum.IntEnum):
    """What samples promise: see tern.h."""

    CONFORM = 0
    BOUNDED = 1
    LONG_TERM = 2
    NON_CONFORM = 3


class Group(_enum.IntEnum):
    """Where a task runs."""

    ALL = 0
    OTHERS = 1
    LISTED = 2


class Call(_NamedTuple):
    """What a function that a task runs is given. It may return bytes for the caller."""

    worker: "Worker"
    caller: int
    id: int
    begin: int
    end: int
    argument: bytes


class Table(_tern.Table):
    """Parameters of one shape under one name: a value of `length` elements for each key. Node.table opens it.

    The parameters stay until close() or until the node is closed, also when no variable refers to the table.
    """

    __slots__ = ()

    def __repr__(self):
        keys = "sparse" if self.keys is None else f"{self.keys} keys"
        return f"<tern.Table {self.name!r}: {keys} of {self.length} x {self.dtype}>"


class Pin(_tern.Pin):
    """Rows that are used in place, without a latch. Worker.pin makes it; `rows` are arrays into the table's memory.

    A pin can be closed when no array refers to its rows any more.
    """

    __slots__ = ("rows",)

    def __init__(self, worker, table, keys):
        super().__init__(worker, table, keys)
        try:
            import numpy
        except ImportError:
            self.rows = [memoryview(row) for row in self._rows()]
        else:
            self.rows = [numpy.asarray(row) for row in self._rows()]

    def close(self):
        """Unpins the rows. Arrays that were taken from `rows` must be gone."""
        self.rows = []
        super().close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


class Worker(_tern.Worker):
    """One thread's access to the tables of a node, with a clock that counts its steps. Node.worker opens it."""

    __slots__ = ()

    def pin(self, table, keys):
        """Pins the rows of the keys and returns a Pin, whose `rows` are arrays that are read and written in place."""
        return Pin(self, table, keys)

    def submit(self, function, argument=b"", *, nodes=None, group=Group.ALL, begin=0, end=0, table=None, after=(),
               result_bytes=0):
        """Runs a registered function at some nodes and returns a Task at once.

        `nodes` lists node numbers; else `group` says where. `argument` is bytes. `after` are earlier Tasks, or their
        numbers, that must have finished. Each node's function may return up to `result_bytes` bytes.
        """
        from array import array

        if nodes is not None:
            group = Group.LISTED
        numbers = array("Q", [getattr(task, "id", task) for task in after])
        return self._submit(function, int(group), array("I", nodes or ()), begin, end, table, argument, numbers,
                            result_bytes)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


class Node(_tern.Node):
    """This process's part of the parameter space.

    A process started by `tern run`, mpirun, srun or torchrun joins the others. Otherwise the node is alone. `group`,
    `node` and `nodes` make a cluster inside this process instead, each node opened by a thread of its own.
    """

    def table(self, name, keys=None, length=1, dtype="float32", init=None, update=None, policy=None, memory_limit=0,
              replicated=None, frequencies=None, filters=None, **options):
        """Opens the table `name`, creating it when it is new. `keys` is the number of keys, or None for a sparse
        table, which takes any 64-bit key. In a cluster every node opens it, with the same options. `filters` such as
        "zeros,fixed:8" make messages shorter (docs/filters.md).

        Further options, as in struct tern_table_options: `admit` and `expected_keys` (rows for frequent keys only),
        `evict_age`, `evict_at_limit` and `evict_floor` (rules by which rows leave; Worker.sweep removes chosen ones),
        `sketch` (a Sketch: the table counts keys in memory of a fixed size), `placement` (a Placement: homes of keys),
        `staleness_ms`, `max_rounds_per_s`, `hot_factor`, `backups` and `recover` (docs/survive.md), `scatter` (dense: the homes of keys
        are dealt out one by one).
        """
        unknown = options.keys() - {"admit", "expected_keys", "evict_age", "evict_at_limit", "evict_floor", "sketch", "placement",
                                    "staleness_ms", "max_rounds_per_s", "hot_factor", "backups", "recover", "scatter"}
        if unknown:
            raise TypeError(f"table: there is no option {min(unknown)!r}")
        return Table(self, name, {
            **options, "keys": keys, "length": length, "type": _type_number(dtype), "init": init, "update": update,
            "policy": policy, "memory_limit": memory_limit, "replicated": replicated, "frequencies": frequencies,
            "filters": filters})

    def worker(self):
        """Opens a worker. A worker is used by one thread at a time: open one per thread."""
        return Worker(self)

    def distribution(self, table, *, keys=None, begin=0, end=None, weights=None, counts=None, draw=None,
                     conformity=Conformity.CONFORM, seed=0, pool_keys=0, pool_uses=0):
        """Opens a distribution over keys of a table.

        Uniform over begin .. end-1 (all keys of a dense table), or by `weights` (float64), or by `counts` (uint64) to
        the power of 0.75, or what the function `draw` makes of 64 random bits. `keys` lists the keys instead; `begin`
        and `end` are positions in it then. `conformity` is a Conformity or its name, such as "bounded".
        """
        if isinstance(conformity, str):
            try:
                conformity = Conformity[conformity.upper().replace("-", "_")]
            except KeyError:
                raise InvalidError(f"conformity: conform, bounded, long_term or non_conform, not {conformity!r}") from None
        kind = 3 if draw is not None else 2 if counts is not None else 1 if weights is not None else 0
        if end is None:
            column = next((x for x in (keys, weights, counts) if x is not None), None)
            end = begin + len(column) if column is not None else (0 if draw is not None else table.keys)
            if end is None:
                raise InvalidError("distribution: a sparse table has no keys of its own to draw from; give `keys`")
        return Distribution(table, kind, begin, end, keys, weights, counts, draw, seed, pool_keys, pool_uses,
                            int(conformity))

    def register(self, name, function):
        """Makes a function known here under a name, for tasks. It is called with a Call, on a thread of Tern's."""
        _tern._register(self, name, lambda *call: function(Call(*call)))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.close()
        else:
            self._abandon()


_tern._set_classes(
    Error, ForkError,
    {
        Status.INVALID: InvalidError, Status.MISMATCH: InvalidError, Status.CONFLICT: InvalidError,
        Status.RANGE: RangeError, Status.CLOSED: ClosedError, Status.NO_MEMORY: NoMemoryError,
        Status.PEER: PeerError, Status.NETWORK: PeerError, Status.LATE: LateError,
        Status.INTERRUPTED: InterruptError,
    },
    Status, Worker,
)
