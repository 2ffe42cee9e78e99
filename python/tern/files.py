"""Arrays to and from files: numpy's .npy, .safetensors, and the text and binary formats of word2vec.

    tern.files.save(worker, table, "vectors.safetensors")
    tern.files.load(worker, table, "vectors.safetensors")

`save` reads all entries of a table and writes them; `load` sets them. The suffix chooses the format: `.npy` (dense tables
only), `.safetensors` (keys and values), `.vec` or `.txt` (word2vec's text) and `.bin` (its binary), for which `words`
names the keys, in their order. The state of updaters is not in files; setting a value resets it. In a cluster one node
saves, after quiesce(), and one loads.
"""

import json
import os

import numpy as np

from . import InvalidError

CHUNK = 1 << 14  # rows at a time

_SAFE_TYPES = {"float32": "F32", "float64": "F64", "int32": "I32", "int64": "I64", "uint64": "U64"}
_SAFE_NAMES = {name: numpy_name for numpy_name, name in _SAFE_TYPES.items()}


def rows(worker, table, chunk=CHUNK):
    """Yields (keys, values) of all entries of a table, in the order of keys."""
    begin, end = 0, table.keys if table.keys is not None else 2**64 - 1
    while begin < end:
        keys, values = worker.pull_range(table, begin, end, chunk)
        if len(keys):
            yield keys, values
        if len(keys) < chunk:
            break
        begin = int(keys[-1]) + 1


def _replace(path, write):
    """Writes a file beside `path`, and puts it in its place when it is whole."""
    temporary = f"{os.fspath(path)}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


# ---- Safetensors -----------------------------------------------------------------------------------------------------


def save_safetensors(path, tensors, metadata=None):
    """Writes {name: array} as a .safetensors file. An array may be (dtype, shape, iterable of arrays)."""
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = {str(key): str(value) for key, value in metadata.items()}
    parts = []
    for name, tensor in tensors.items():
        dtype, shape, chunks = tensor if isinstance(tensor, tuple) else (tensor.dtype, tensor.shape, [tensor])
        kind = np.dtype(dtype)
        if kind.name not in _SAFE_TYPES:
            raise InvalidError(f"{path}: arrays of {kind.name} cannot be saved")
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        header[name] = {"dtype": _SAFE_TYPES[kind.name], "shape": list(map(int, shape)), "data_offsets": [at, at + size]}
        parts.append((name, size, chunks))
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)

    def write(file):
        file.write(len(text).to_bytes(8, "little") + text)
        for name, size, chunks in parts:
            written = sum(file.write(np.ascontiguousarray(chunk).data.cast("B")) for chunk in chunks if chunk.size)
            if written != size:
                raise InvalidError(f"{path}: {name} has {written} bytes, not {size}")

    _replace(path, write)


def open_safetensors(path):
    """The arrays of a .safetensors file, {name: array}, mapped into memory."""
    total = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if total < 8 or length > total - 8:
            raise InvalidError(f"{path}: this is not a .safetensors file")
        try:
            header = json.loads(file.read(length))
            entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
            tensors = {}
            for name, entry in entries.items():
                dtype, shape = np.dtype(_SAFE_NAMES[entry["dtype"]]), tuple(entry["shape"])
                begin, end = entry["data_offsets"]
                n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
                if min(shape, default=1) < 0 or begin < 0 or end - begin != n_bytes or 8 + length + end > total:
                    raise InvalidError(f"{path}: {name} does not fit its place in the file")
                tensors[name] = (np.memmap(path, dtype, "r", 8 + length + begin, shape) if n_bytes
                                 else np.empty(shape, dtype))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, InvalidError):
                raise
            raise InvalidError(f"{path}: the header makes no sense ({error})") from None
    return tensors


# ---- Word2vec --------------------------------------------------------------------------------------------------------


def save_word2vec(path, words, vectors, binary=False):
    """Writes vectors in word2vec's text or binary format; `vectors` is an array or an iterable of arrays."""
    if isinstance(vectors, np.ndarray):
        vectors = [vectors]
    vectors = iter(vectors)
    first = next(vectors, np.empty((0, 0), np.float32))

    def write(file):
        file.write(f"{len(words)} {first.shape[1]}\n".encode())
        at, chunk = 0, first
        while chunk is not None:
            for row in chunk:
                word = words[at]
                if not word or any(c.isspace() for c in word):
                    raise InvalidError(f"{path}: the word {word!r} is empty or has a space")
                file.write(word.encode() + b" ")
                file.write(row.astype("<f4").tobytes() if binary else " ".join(map(repr, row.tolist())).encode())
                file.write(b"\n")
                at += 1
            chunk = next(vectors, None)
        if at != len(words):
            raise InvalidError(f"{path}: {len(words)} words, but {at} vectors")

    _replace(path, write)


def _head(path, file):
    try:
        n, length = map(int, file.readline(100).split())
        assert n >= 0 and 0 < length < 1 << 22
    except (ValueError, AssertionError):
        raise InvalidError(f"{path}: the first line must be the number of words and of dimensions") from None
    return n, length


def _read_binary(path, file, n, length):
    for i in range(n):
        word = b""
        while (byte := file.read(1)) not in (b" ", b""):
            word += b"" if byte == b"\n" else byte
        vector = file.read(4 * length)
        if len(vector) < 4 * length:
            raise InvalidError(f"{path}: the file ends at word {i} of {n}")
        yield word.decode(errors="replace"), np.frombuffer(vector, "<f4")


def _read_text(path, file, n, length):
    for i in range(n):
        fields = file.readline().decode(errors="replace").rstrip("\n").rstrip(" ").rsplit(" ", length)
        try:
            vector = np.array(fields[1:], np.float32)
        except ValueError:
            vector = fields[:0]
        if len(vector) != length:
            raise InvalidError(f"{path}: line {i + 2} must have a word and {length} numbers")
        yield fields[0], vector


def open_word2vec(path, binary=False):
    """Reads word2vec's text or binary format: a list of words and an array of vectors."""
    with open(path, "rb") as file:
        n, length = _head(path, file)
        words, vectors = [], np.empty((min(n, os.path.getsize(path)), length), np.float32)
        for word, vector in (_read_binary if binary else _read_text)(path, file, n, length):
            vectors[len(words)] = vector
            words.append(word)
    return words, vectors


# ---- Tables ----------------------------------------------------------------------------------------------------------


def _n_entries(worker, table):
    if table.keys is not None:
        return table.keys
    n, begin = 0, 0
    while True:
        keys, _ = worker.pull_range(table, begin, 2**64 - 1, CHUNK, values=False)
        n += len(keys)
        if len(keys) < CHUNK:
            return n
        begin = int(keys[-1]) + 1


def save(worker, table, path, words=None):
    """Writes all entries of a table to a file. Nobody may add entries meanwhile."""
    suffix = os.path.splitext(os.fspath(path))[1]
    n = _n_entries(worker, table)
    shape = (n, table.length)
    if suffix == ".npy":
        if table.keys is None:
            raise InvalidError(f"{path}: .npy has no place for the keys of a sparse table; use .safetensors")

        def write(file):
            np.lib.format.write_array_header_1_0(
                file, {"descr": np.dtype(table.dtype).str, "fortran_order": False, "shape": shape})
            for _, values in rows(worker, table):
                file.write(values.data.cast("B"))

        _replace(path, write)
    elif suffix == ".safetensors":
        tensors = {}
        if table.keys is None:
            tensors["keys"] = (np.uint64, (n,), (keys for keys, _ in rows(worker, table)))
        tensors["values"] = (table.dtype, shape, (values for _, values in rows(worker, table)))
        save_safetensors(path, tensors, {"table": table.name})
    elif suffix in (".vec", ".txt", ".bin"):
        words = words if words is not None else [str(int(key)) for keys, _ in rows(worker, table) for key in keys]
        save_word2vec(path, words, (values for _, values in rows(worker, table)), suffix == ".bin")
    else:
        raise InvalidError(f"{path}: the suffix must be .npy, .safetensors, .vec, .txt or .bin")


def _set(worker, table, path, keys, values):
    if values.ndim != 2 or values.shape[1] != table.length or values.dtype != table.dtype:
        raise InvalidError(f"{path}: the file has {values.dtype} of shape {values.shape}; the table's rows are "
                           f"{table.length} x {table.dtype}")
    if keys is None and table.keys is not None and len(values) != table.keys:
        raise InvalidError(f"{path}: the file has {len(values)} rows, the table {table.keys}")
    for begin in range(0, len(values), CHUNK):
        part = np.ascontiguousarray(values[begin:begin + CHUNK])
        where = (np.arange(begin, begin + len(part)) if keys is None
                 else np.ascontiguousarray(keys[begin:begin + CHUNK]))
        worker.set(table, where, part)


def load(worker, table, path):
    """Sets the entries of a table from a file. Returns the words of word2vec's formats, whose keys are 0, 1, ...; else
    None."""
    suffix = os.path.splitext(os.fspath(path))[1]
    if suffix == ".npy":
        _set(worker, table, path, None, np.load(path, mmap_mode="r", allow_pickle=False))
    elif suffix == ".safetensors":
        tensors = open_safetensors(path)
        if "values" not in tensors:
            raise InvalidError(f"{path}: there is no tensor `values`")
        _set(worker, table, path, tensors.get("keys"), tensors["values"])
    elif suffix in (".vec", ".txt", ".bin"):
        words, vectors = open_word2vec(path, suffix == ".bin")
        _set(worker, table, path, None, vectors)
        return words
    else:
        raise InvalidError(f"{path}: the suffix must be .npy, .safetensors, .vec, .txt or .bin")
    return None
