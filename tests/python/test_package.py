"""The package on one node: every call of tern.h, arrays used in place, wrong types and shapes, exceptions."""

import array
import gc
import json
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import tern

ROOT = Path(__file__).resolve().parents[2]
KEYS = np.array([3, 14, 15, 3])


@pytest.fixture
def worker(node):
    return node.worker()


@pytest.fixture
def table(node):
    return node.table("t", keys=100, length=4)


# ---- Access ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("keys", [None, 1000])
def test_pull_push_set(node, worker, dtype, keys):
    table = node.table("t", keys=keys, length=5, dtype=dtype)
    ones = np.ones((4, 5), dtype)
    worker.push(table, KEYS, ones)
    values = worker.pull(table, KEYS)
    assert values.dtype == dtype and values.shape == (4, 5)
    assert (values[:, 0] == [2, 1, 1, 2]).all()  # 3 stands twice
    worker.set(table, KEYS[1:3], 7 * ones[1:3])
    assert (worker.pull(table, KEYS)[:, 4] == [2, 7, 7, 2]).all()


def test_keys_of_any_shape_and_both_types(worker, table):
    for dtype in (np.int64, np.uint64):
        assert worker.pull(table, np.zeros((2, 3), dtype)).shape == (2, 3, 4)
    assert worker.pull(table, np.zeros(0, np.int64)).shape == (0, 4)


def test_out_is_used_in_place(worker, table):
    worker.push(table, KEYS, np.ones((4, 4), np.float32))
    out = np.full((4, 4), -1, np.float32)
    assert worker.pull(table, KEYS, out) is out
    assert worker.pull(table, KEYS, out=out) is out
    assert (out[:, 0] == [2, 1, 1, 2]).all()


def test_other_buffers(worker, table):
    keys, values = array.array("q", [1, 2]), array.array("f", [1.0] * 8)
    view = memoryview(values).cast("B").cast("f", (2, 4))
    worker.push(table, keys, view)
    worker.pull(table, keys, view)
    assert values[0] == 1
    sparse = worker.node.table("sparse", length=4)
    worker.push(sparse, np.array([-1]), np.ones((1, 4), np.float32))
    assert worker.pull(sparse, np.array([2**64 - 1], np.uint64))[0, 0] == 1


@pytest.mark.parametrize("keys, values, word", [
    (KEYS.astype(np.int32), np.ones((4, 4), np.float32), "int64"),
    (KEYS.astype(np.float64), np.ones((4, 4), np.float32), "int64"),
    (KEYS.astype(">i8"), np.ones((4, 4), np.float32), "int64"),
    (KEYS[::2], np.ones((2, 4), np.float32), "contiguous"),
    ([1, 2], np.ones((2, 4), np.float32), "array"),
    (KEYS, np.ones((4, 4), np.float64), "float64"),
    (KEYS, np.ones((4, 4), np.int32), "int32"),
    (KEYS, np.ones((4, 4), np.float16), "format"),
    (KEYS, np.ones((3, 4), np.float32), "(4, 4), not (3, 4)"),
    (KEYS, np.ones((4, 5), np.float32), "(4, 4), not (4, 5)"),
    (KEYS, np.ones(16, np.float32), "(4, 4), not (16)"),
    (KEYS, np.asfortranarray(np.ones((4, 4), np.float32)), "contiguous"),
    (KEYS, None, "needed"),
])
def test_wrong_arrays_are_errors(worker, table, keys, values, word):
    before = table.stats()["pushed_keys"]
    with pytest.raises(tern.InvalidError, match=word.replace("(", r"\(").replace(")", r"\)")) as raised:
        worker.push(table, keys, values)
    assert isinstance(raised.value, ValueError) and raised.value.status == tern.Status.INVALID
    assert table.stats()["pushed_keys"] == before


def test_types_are_asked_for_in_each_call(worker, table):
    """The package knows numpy's dtypes by their identity, also when the type of the same array is changed in place."""

    class Derived(np.ndarray):
        dtype = np.dtype(np.float32)  # lies

    out = np.empty((4, 4), np.float32)
    for _ in range(3):
        worker.pull(table, KEYS, out)
        out.dtype = np.int32
        with pytest.raises(tern.InvalidError, match="int32"):
            worker.pull(table, KEYS, out)
        out.dtype = np.float32
        with pytest.raises(tern.InvalidError, match="int32"):
            worker.pull(table, KEYS, np.empty((4, 4), np.int32).view(Derived))
        with pytest.raises(tern.InvalidError, match="keys are"):
            worker.pull(table, KEYS.astype(">i8"), out)
        worker.pull(table, memoryview(KEYS), memoryview(out))
    assert table.stats()["pulled_keys"] == 3 * 2 * 4


def test_all_of_tern_h_can_be_reached():
    """Every call, member and limit of tern.h is in the extension, but for callbacks under a latch and what C needs alone."""
    header = re.sub(r"/\*.*?\*/", "", (ROOT / "include/tern/tern.h").read_text(), flags=re.S)
    source = "".join(path.read_text() for path in (ROOT / "python/src").glob("*.c"))
    calls = re.findall(r"^TERN_API[^;(]*?\b(tern_\w+)\(", header, re.M)
    limits = re.findall(r"^#define (TERN_(?:MAX|MIN)_\w+)", header, re.M)
    structs = re.findall(r"^struct (tern_\w+) \{(.*?)^\};", header, re.M | re.S)
    data = [re.sub(r"[^;]*\(\*\w+\)\([^;]*\);", "", body) for name, body in structs if name != "tern_updater"]  # no callbacks
    members = [re.search(r"(\w+)(?:\[\w+\])?$", name.strip())[1] for body in data
               for declaration in body.split(";") if declaration.strip() for name in declaration.split(",")]
    assert len(calls) > 70 and len(limits) > 20 and len(members) > 120
    missing = {name for name in calls + limits + members if not re.search(rf"\b{name}\b", source)}
    assert missing == {"tern_fail", "tern_update_age", "significant_context"}
    for name in limits:
        assert getattr(tern._tern, name.removeprefix("TERN_")) > 0


def test_every_call_has_its_docstring_and_types():
    stubs = (Path(tern.__file__).parent / "_tern.pyi").read_text()
    for kind in (tern._tern.Node, tern._tern.Table, tern._tern.Worker, tern.Ticket, tern._tern.Pin, tern.Distribution,
                 tern.Sample, tern.Task, tern.Checkpoint):
        stub = re.search(rf"^class {kind.__name__}:\n(.*?)(?=^class|\Z)", stubs, re.M | re.S)[1]
        for name in vars(kind):
            if not name.startswith("_"):
                assert re.search(rf"def {name}\(", stub), f"{kind.__name__}.{name} has no types"
                assert getattr(kind, name).__doc__, f"{kind.__name__}.{name} has no docstring"


def test_read_only_out(worker, table):
    out = np.empty((4, 4), np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        worker.pull(table, KEYS, out)


def test_tickets(worker, table):
    ticket = worker.push(table, KEYS, np.ones((4, 4), np.float32), wait=False)
    assert ticket.wait() is None and ticket.done()
    values = worker.pull(table, KEYS, wait=False).wait()
    assert (values[:, 0] == [2, 1, 1, 2]).all()
    worker.pull(table, KEYS, wait=False)  # dropped


def test_ranges(worker, table):
    worker.push(table, np.arange(100), np.ones((100, 4), np.float32))
    keys, values = worker.pull_range(table, 10, 50, 15)
    assert (keys == np.arange(10, 25)).all() and values.shape == (15, 4)
    assert worker.pull_range(table, 10, 12, 15, values=False)[1] is None
    worker.push_range(table, 10, 12, np.ones((2, 4), np.float32))
    assert (worker.pull(table, np.array([9, 10, 11, 12]))[:, 0] == [1, 2, 2, 1]).all()
    with pytest.raises(tern.Error) as raised:
        worker.push_range(table, 10, 12, np.ones((3, 4), np.float32))
    assert raised.value.status == tern.Status.CONFLICT


def test_pins(worker, table):
    with worker.pin(table, np.array([5, 6])) as pin:
        pin.rows[0][:] = 9
        row = pin.rows[1]
        with pytest.raises(tern.Error, match="1 arrays"):
            pin.close()
        del row
    assert (worker.pull(table, np.array([5, 6]))[:, 0] == [9, 0]).all()
    assert table.stats()["pinned_keys"] == 2


# ---- Everything else ------------------------------------------------------------------------------------------------


def test_updaters_and_initial_values(node, worker):
    keys, ones = np.arange(3), np.ones((3, 2), np.float32)
    expected = {"sgd": 2 - 0.1, "momentum": 2 - 0.1, "adagrad": 2 - 0.1, "adam": 2 - 0.1}
    for name, value in expected.items():
        table = node.table(name, keys=3, length=2, init=tern.constant(2), update=getattr(tern, name)(0.1))
        worker.push(table, keys, ones)
        assert worker.pull(table, keys) == pytest.approx(value * ones, abs=1e-5), name
    node.table("ftrl", keys=3, length=2, update=tern.ftrl(0.1, l1=0.01))
    normal = node.table("normal", keys=10000, length=2, init=tern.normal(1, 0.5, seed=3))
    values = worker.pull(normal, np.arange(10000))
    assert abs(values.mean() - 1) < 0.05 and abs(values.std() - 0.5) < 0.05
    with pytest.raises(tern.InvalidError, match="rate"):
        node.table("bad", keys=3, length=2, update=tern.sgd(-1))
    with pytest.raises(tern.InvalidError, match="init"):
        node.table("bad", keys=3, length=2, init="zeros")


def test_clock_and_intent(worker, table):
    assert worker.clock == 0 and worker.advance() == 1 and worker.clock == 1
    worker.intent(table, KEYS, 1, 5)
    with pytest.raises(tern.InvalidError):
        worker.intent(table, KEYS, 5, 1)
    worker.localize(table, KEYS)
    worker.localize(table, KEYS, wait=False)
    worker.flush()
    worker.rest()
    assert worker.stats()["open_s"] > 0


def test_intent_of_another_thread(worker, table):
    outcomes = []

    def load():
        for step in range(100):
            worker.intent(table, KEYS, step, step + 1)
            outcomes.append(worker.clock)

    loader = threading.Thread(target=load)
    loader.start()
    for _ in range(200):
        worker.pull(table, KEYS)
        worker.advance()
    loader.join()
    assert len(outcomes) == 100 and outcomes == sorted(outcomes)
    worker.close()
    with pytest.raises(tern.ClosedError):
        worker.intent(table, KEYS, 0, 1)


def test_pull_if_local(worker, table):
    worker.push(table, KEYS[:3], np.ones((3, 4), np.float32))
    values, local = worker.pull_if_local(table, KEYS.reshape(2, 2))
    assert values.shape == (2, 2, 4) and (values == 1).all()
    assert local.shape == (2, 2) and local.dtype == bool and local.all()
    out = np.zeros((4, 4), np.float32)
    assert worker.pull_if_local(table, KEYS, out)[0] is out and (out == 1).all()
    with pytest.raises(tern.RangeError):
        worker.pull_if_local(table, np.array([100]))
    with pytest.raises(tern.InvalidError):
        worker.pull_if_local(table, KEYS, np.zeros((3, 4), np.float32))


def test_sampling(node, worker, table):
    counts = np.zeros(100, np.uint64)
    counts[[7, 8]] = 5
    dist = node.distribution(table, counts=counts, conformity="bounded", seed=4)
    sample = worker.prepare(dist, 500)
    keys, values = sample.pull(100)
    assert set(keys.tolist()) == {7, 8} and values.shape == (100, 4) and sample.left == 400
    assert sample.pull(values=False)[1] is None and sample.left == 0
    weights = node.distribution(table, weights=np.eye(100)[42])
    assert set(worker.prepare(weights, 50).pull()[0].tolist()) == {42}
    some = node.distribution(table, keys=np.array([1, 2, 3]))
    assert set(worker.prepare(some, 100).pull()[0].tolist()) == {1, 2, 3}
    drawn = node.distribution(table, draw=lambda random: random % 2 + 60)
    assert set(worker.prepare(drawn, 100).pull()[0].tolist()) == {60, 61}
    with pytest.raises(tern.InvalidError, match="left"):
        worker.prepare(dist, 5).pull(6)
    dist.close()
    with pytest.raises(tern.ClosedError):
        worker.prepare(dist, 5)


def test_tasks(node, worker, table):
    def double(call):
        values = call.worker.pull(table, np.array([1]))
        call.worker.push(table, np.array([1]), values + 1)
        return call.argument * 2

    def fail(call):
        raise RuntimeError("on purpose")

    node.register("double", double)
    node.register("fail", fail)
    tasks = [worker.submit("double", b"ab", result_bytes=10) for _ in range(3)]
    tasks[2].wait(timeout=60)
    assert tasks[2].results() == [b"abab"] and tasks[0].done()
    assert worker.pull(table, np.array([1]))[0, 0] == 7
    with pytest.raises(tern.Error, match="RuntimeError: on purpose"):
        worker.submit("fail", after=tasks).wait()
    assert worker.task_progress() == 3
    worker.task_delay(None)
    worker.task_wait()


def test_all_nodes_at_once(node, worker, table, tmp_path):
    numbers = np.arange(5.0)
    assert node.all_reduce(numbers) is numbers and (numbers == np.arange(5)).all()
    assert (node.broadcast(numbers) == np.arange(5)).all()
    node.barrier()
    node.quiesce()
    assert (node.index, node.count) == (0, 1)
    assert node.stats() == {"refused_connections": 0, "backup_bytes": 0, "taken_bytes": 0}
    assert "is here" in table.why(7)
    table.trace(KEYS, tmp_path / "trace")
    table.trace_stop()
    assert (tmp_path / "trace.0").exists()
    assert repr(table) == "<tern.Table 't': 100 keys of 4 x float32>"


def test_statuses_are_those_of_the_library():
    for status in tern.Status:
        assert tern._tern._status_name(status) == "TERN_" + status.name
    assert "unknown" in tern._tern._status_name(max(tern.Status) + 1)


def test_exceptions(node, worker, table):
    with pytest.raises(IndexError, match="100") as raised:
        worker.pull(table, np.array([100]))
    assert isinstance(raised.value, tern.RangeError) and raised.value.status is tern.Status.RANGE
    with pytest.raises(tern.Error) as raised:
        node.table("t", keys=100, length=5)
    assert raised.value.status is tern.Status.MISMATCH
    small = node.table("small", length=1000, memory_limit=1 << 20)
    with pytest.raises(MemoryError):
        for begin in range(0, 10000, 100):
            worker.push(small, np.arange(begin, begin + 100), np.ones((100, 1000), np.float32))
    for base in (ValueError, IndexError, MemoryError, ConnectionError, TimeoutError):
        assert any(issubclass(kind, base) for kind in tern.Error.__subclasses__())


def test_closed_objects(node, worker, table):
    table.close()
    with pytest.raises(tern.ClosedError):
        worker.pull(table, KEYS)
    worker.close()
    worker.close()
    with pytest.raises(tern.ClosedError):
        worker.advance()
    node.close()
    with pytest.raises(tern.ClosedError):
        node.barrier()
    with pytest.raises(tern.ClosedError):
        node.worker()


def test_a_node_closes_what_is_open():
    with tern.Node() as node:
        table = node.table("t", keys=10, length=1)
        workers = [node.worker() for _ in range(3)]
        sample = workers[0].prepare(node.distribution(table), 10)
    assert node.closed and table.closed and all(worker.closed for worker in workers)
    del sample
    gc.collect()


def test_a_worker_in_two_threads_is_an_error(node):
    table = node.table("t", keys=10, length=1, policy="bsp")
    slow, fast = node.worker(), node.worker()
    fast.advance()

    def pull():
        while True:  # until it is not the main thread that is inside
            try:
                return fast.pull(table, np.array([1]))
            except tern.Error as error:
                assert error.status is tern.Status.BUSY

    thread = threading.Thread(target=pull)
    thread.start()
    try:
        while True:  # until the other thread is inside its pull
            try:
                fast.stats()
            except tern.Error as error:
                assert error.status is tern.Status.BUSY and "one worker per thread" in str(error)
                break
        with pytest.raises(tern.Error, match="another thread"):
            node.close()
    finally:
        slow.advance()
        thread.join()


def test_waiting_releases_the_interpreter(node):
    """The main thread goes on while another waits in a bounded read, and lets it go."""
    table = node.table("t", keys=10, length=1, policy="bsp")
    slow, fast = node.worker(), node.worker()
    fast.advance()
    done = []
    thread = threading.Thread(target=lambda: done.append(fast.pull(table, np.array([1]))))
    thread.start()
    time.sleep(0.1)
    assert not done
    slow.advance()
    thread.join(60)
    assert len(done) == 1


def test_nothing_is_allocated(node, worker):
    table = node.table("t32", keys=1000, length=32)
    keys, values = np.arange(100), np.zeros((100, 32), np.float32)

    def both(n):
        for _ in range(n):
            worker.pull(table, keys, values)
            worker.pull(table, keys, out=values)
            worker.push(table, keys, values)

    both(10)
    tracemalloc.start()
    both(10)
    before = tracemalloc.get_traced_memory()[0]
    both(1000)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 200  # the arguments of `both` and the like


# ---- Signals and fork -----------------------------------------------------------------------------------------------

WAITS = {
    "open": "tern.Node(group='nobody-%d' % os.getpid(), node=0, nodes=2)",
    "bounded-read": """
        node = tern.Node()
        table = node.table("t", keys=10, length=1, policy="bsp")
        slow, fast = node.worker(), node.worker()
        fast.advance()
        fast.pull(table, np.array([1]))""",
    "task": """
        node = tern.Node()
        node.register("sleep", lambda call: time.sleep(3))
        worker = node.worker()
        task = worker.submit("sleep")
        task.wait()""",
    "barrier": """
        import threading
        other = threading.Thread(target=lambda: tern.Node(group='b%d' % os.getpid(), node=1, nodes=2), daemon=True)
        other.start()
        node = tern.Node(group='b%d' % os.getpid(), node=0, nodes=2)
        node.barrier()""",
}


@pytest.mark.parametrize("what", WAITS)
def test_ctrl_c_ends_a_wait(script, what):
    text = f"""
import os, signal, sys, time
import numpy as np, tern
try:
    print("waits", flush=True)
    {WAITS[what].strip()}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(7)
"""
    lines = [line[4:] if line.startswith("        ") else line for line in text.splitlines()]
    process = subprocess.Popen([sys.executable, script("\n".join(lines))], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "waits\n", process.communicate()[1]
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 7 and out == "interrupted\n", err


def test_a_handler_cannot_call_tern(run):
    done = run("""
        import os, signal, threading, time
        import numpy as np, tern
        node = tern.Node()
        table = node.table("t", keys=10, length=1, policy="bsp")
        slow, fast = node.worker(), node.worker()
        fast.advance()
        signal.signal(signal.SIGUSR1, lambda *_: node.barrier())
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        try:
            fast.pull(table, np.array([1]))
        except tern.Error as error:
            print(error)
        """)
    assert "cannot call Tern" in done.stdout, done.stderr


def test_a_forked_child_is_told_what_to_do(run):
    done = run("""
        import os
        import numpy as np, tern
        node = tern.Node()
        table = node.table("t", keys=10, length=1)
        worker = node.worker()
        worker.push(table, np.array([1]), np.ones((1, 1), np.float32))
        child = os.fork()
        if not child:
            for call in (lambda: worker.push(table, np.array([1]), np.ones((1, 1), np.float32)), node.barrier,
                         node.worker, node.close, worker.close, table.stats, worker.advance):
                try:
                    call()
                    print("no error")
                except tern.ForkError as error:
                    assert "spawn" in str(error) and isinstance(error, RuntimeError)
            del worker, table, node
            own = tern.Node()  # one of its own is fine
            own.close()
            print("child done", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(worker.pull(table, np.array([1])))
        """)
    assert done.stdout == "child done\n[[1.]]\n", done.stdout + done.stderr


def test_the_first_program_of_the_readme():
    text = (ROOT / "examples/first.py").read_text()
    assert text in (ROOT / "README.md").read_text()
    done = subprocess.run([sys.executable, ROOT / "examples/first.py"], capture_output=True, text=True, timeout=60)
    assert "step 20: mean squared distance from the goal 0.000135" in done.stdout, done.stderr


def test_bench_prints_json():
    done = subprocess.run([sys.executable, "-m", "tern.bench", "--json", "--quick", "memory", "import"],
                          capture_output=True, text=True, timeout=120)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["what"] for line in lines] == ["import tern", "bytes allocated per pull(out=) or push"], done.stderr
    assert lines[1]["met"]


# What NumPy 2.0 has taken out of its main namespace.
GONE_IN_NUMPY_2 = """DataSource Inf Infinity NINF NZERO NaN PINF PZERO add_docstring add_newdoc add_newdoc_ufunc alltrue asfarray
    byte_bounds cast cfloat clongfloat compare_chararrays compat complex_ core cumproduct deprecate deprecate_with_doc disp
    fastCopyAndTranspose find_common_type float_ get_array_wrap geterrobj in1d infty issctype issubclass_ issubsctype longcomplex
    longfloat lookfor mat maximum_sctype msort nbytes obj2sctype product recfromcsv recfromtxt round_ row_stack safe_eval
    sctype2char sctypes set_numeric_ops set_string_function seterrobj singlecomplex sometrue source string_ tracemalloc_domain
    trapz unicode_ who""".split()


def test_any_numpy_will_do():
    """The extension looks up nothing of numpy's C interface, whose layout differs between numpy 1 and 2, and what is written in
    Python uses no name that numpy 2 lacks."""
    extension = Path(tern._tern.__file__).read_bytes()
    assert b"PyObject_GetBuffer" in extension  # the file has the names of what it calls
    for name in (b"_ARRAY_API", b"multiarray", b"_UFUNC_API", b"PyArray_"):
        assert name not in extension
    files = sorted(Path(tern.__file__).parent.glob("*.py"))
    names = {(file.name, name) for file in files for name in re.findall(r"\bnp\.(\w+)", file.read_text())}
    assert len(names) > 50
    assert [name for name in sorted(names) if name[1] in GONE_IN_NUMPY_2] == []
    assert not any(re.search(r"np\.(asarray|array)\([^)]*copy=False", file.read_text()) for file in files)


def test_import_does_not_load_torch_or_numpy(run):
    done = run("import sys, tern; print('torch' in sys.modules, 'numpy' in sys.modules)")
    assert done.stdout == "False False\n", done.stderr


def test_an_exception_ends_the_script_with_its_traceback(run):
    done = run("""
        import tern
        with tern.Node() as node:
            node.worker()
            raise RuntimeError("on purpose")
        """)
    assert done.returncode == 1 and "on purpose" in done.stderr
