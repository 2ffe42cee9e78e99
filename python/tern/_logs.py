"""Readers of click logs for tern.ctr: MovieLens ratings, libfm, Criteo's CSV, and made-up ones.

A log has fields. Those with one value per example are columns of keys; those with several are bags; numbers are columns of
floats. Keys of dense logs are 0 .. n_features-1; those of logs that are not counted are 64-bit hashes of field and value.
"""

import csv
import gzip
import hashlib
import io
import os
import subprocess

import numpy as np

from . import InvalidError


class Log:
    """Examples: keys (n, fields), bags {field: (keys, offsets)}, numbers (n, k), labels (n,)."""

    def __init__(self, keys, labels, bags=(), numbers=None, n_features=None):
        self.keys = np.ascontiguousarray(keys, np.int64)
        self.labels = np.ascontiguousarray(labels, np.float32)
        self.bags = list(bags)
        self.numbers = np.zeros((len(labels), 0), np.float32) if numbers is None else numbers
        self.n_features = n_features  # None: keys are hashes

    def __len__(self):
        return len(self.labels)

    def take(self, rows):
        """Some of the examples."""
        bags = []
        for keys, offsets in self.bags:
            lengths = offsets[1:] - offsets[:-1]
            ends = np.concatenate([[0], np.cumsum(lengths[rows])])
            where = np.repeat(offsets[:-1][rows] - ends[:-1], lengths[rows]) + np.arange(ends[-1])
            bags.append((keys[where], ends))
        return Log(self.keys[rows], self.labels[rows], bags, self.numbers[rows], self.n_features)


def open_text(path):
    """A text file, compressed by gzip or zstd or not."""
    if not os.path.exists(path):
        raise InvalidError(f"{path}: there is no such file")
    if str(path).endswith(".gz"):
        return io.TextIOWrapper(gzip.open(path), encoding="latin-1", newline="")
    if not str(path).endswith(".zst"):
        return open(path, encoding="latin-1", newline="")
    try:
        process = subprocess.Popen(["zstd", "-dcq", str(path)], stdout=subprocess.PIPE)
    except FileNotFoundError:
        raise InvalidError(f"{path}: to read it takes the program zstd") from None
    return io.TextIOWrapper(process.stdout, encoding="latin-1", newline="")


def find(folder, name):
    """A file of a folder, compressed or not; None if it is not there."""
    for suffix in ("", ".gz", ".zst"):
        if os.path.exists(os.path.join(folder, name + suffix)):
            return os.path.join(folder, name + suffix)
    return None


class Numbering:
    """Numbers the values of fields from 0, all fields together."""

    def __init__(self):
        self.numbers = {}

    def __call__(self, field, value):
        return self.numbers.setdefault((field, value), len(self.numbers))

    def __len__(self):
        return len(self.numbers)


# ---- MovieLens -------------------------------------------------------------------------------------------------------


def _ratings(folder):
    """(user, movie, rating), users and movies from 1."""
    matrix = os.path.join(folder, "rating_matrix.npz")
    if os.path.exists(matrix):
        with np.load(matrix, allow_pickle=False) as arrays:
            users, movies = np.nonzero(arrays["rating_matrix"])
            more = arrays["validation_matrix"]
            return (np.concatenate([users, more[:, 0]]) + 1, np.concatenate([movies, more[:, 1]]) + 1,
                    np.concatenate([arrays["rating_matrix"][users, movies], more[:, 2]]).astype(np.int64))
    path = find(folder, "ratings.dat")
    if not path:
        raise InvalidError(f"{folder}: there is neither ratings.dat nor rating_matrix.npz")
    with open_text(path) as file:
        rows = np.array([[int(x) for x in line.split("::")[:3]] for line in file], np.int64)
    return rows[:, 0], rows[:, 1], rows[:, 2]


def read_movielens(folder):
    """MovieLens ratings above 3 against below 3, with the fields of user and movie; genres are a bag."""
    users, movies, ratings = _ratings(folder)
    numbers = Numbering()
    of_user, of_movie, genres_of = {}, {}, {}
    for name, into in (("users.dat", of_user), ("movies.dat", of_movie)):
        path = find(folder, name)
        if not path:
            raise InvalidError(f"{folder}: there is no {name}")
        with open_text(path) as file:
            for line in file:
                fields = line.rstrip("\r\n").split("::")
                key = int(fields[0])
                if name == "users.dat":
                    into[key] = [numbers("user", key), *(numbers(f"user {i}", x) for i, x in enumerate(fields[1:4])),
                                 numbers("zip", fields[4][:2])]
                else:
                    into[key] = [numbers("movie", key), numbers("year", fields[1].rstrip()[-6:])]
                    genres_of[key] = [numbers("genre", genre) for genre in fields[2].split("|")]
    kept = (ratings != 3) & np.isin(movies, list(of_movie)) & np.isin(users, list(of_user))
    users, movies, labels = users[kept], movies[kept], ratings[kept] > 3
    user_rows = np.zeros((max(of_user) + 1, 5), np.int64)
    movie_rows = np.zeros((max(of_movie) + 1, 2), np.int64)
    for key, row in of_user.items():
        user_rows[key] = row
    for key, row in of_movie.items():
        movie_rows[key] = row
    keys = np.concatenate([user_rows[users], movie_rows[movies]], axis=1)
    offsets = np.zeros(len(movie_rows) + 1, np.int64)
    for key, genres in genres_of.items():
        offsets[key + 1] = len(genres)
    flat = np.array([genre for key in sorted(genres_of) for genre in genres_of[key]], np.int64)
    every = Log(np.zeros((len(movie_rows), 0)), np.zeros(len(movie_rows)), [(flat, np.cumsum(offsets))])
    bags = every.take(movies).bags
    return Log(keys, labels, bags, None, len(numbers))


# ---- libfm and Criteo ------------------------------------------------------------------------------------------------


def read_libfm(path):
    """Lines of a label, 1 or not above 0, and index:value pairs. All lines have the same number of features."""
    labels, rows = [], []
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            fields = line.split()
            if not fields:
                continue
            try:
                labels.append(float(fields[0]) > 0)
                rows.append([int(field.partition(":")[0]) for field in fields[1:]])
            except ValueError:
                raise InvalidError(f"{path}: line {number} must be a label and index:value pairs") from None
            if len(rows[-1]) != len(rows[0]):
                raise InvalidError(f"{path}: line {number} has {len(rows[-1])} features, the first one {len(rows[0])}")
    keys = np.array(rows, np.int64).reshape(len(rows), -1)
    if keys.size and keys.min() < 0:
        raise InvalidError(f"{path}: indexes are not negative")
    return Log(keys, labels, n_features=int(keys.max()) + 1 if keys.size else 1)


def hash_of(field, value, cache={}):
    """64 bits of a field and its value."""
    found = cache.get((field, value))
    if found is None:
        digest = hashlib.blake2b(f"{field}={value}".encode(), digest_size=8).digest()
        found = cache[field, value] = int.from_bytes(digest, "little", signed=True)
        if len(cache) > 1 << 20:
            cache.clear()
    return found


def read_criteo(path):
    """Criteo's CSV with a header: Label, I1 .. I13 (numbers, of which the logarithm is taken), C1 .. C26."""
    labels, keys, numbers = [], [], []
    with open_text(path) as file:
        rows = csv.reader(file)
        header = next(rows, [])
        try:
            label = header.index("Label")
            reals = [header.index(f"I{i}") for i in range(1, 14)]
            words = [header.index(f"C{i}") for i in range(1, 27)]
        except ValueError as error:
            raise InvalidError(f"{path}: the header lacks a column of Criteo's ({error})") from None
        for number, row in enumerate(rows, 2):
            try:
                labels.append(float(row[label]))
                # Below 0 there is no logarithm; a number that is missing has a feature of its own.
                given = [float(row[i]) if row[i] else np.nan for i in reals]
                keys.append([hash_of(header[i], row[i]) for i in words] +
                            [hash_of(header[i], "missing" if not row[i] else "given") for i in reals])
            except (ValueError, IndexError):
                raise InvalidError(f"{path}: line {number} does not fit the header") from None
            numbers.append(given)
    reals = np.nan_to_num(np.log1p(np.maximum(np.array(numbers, np.float64).reshape(-1, 13), 0))).astype(np.float32)
    return Log(np.array(keys, np.int64).reshape(-1, 39), labels, [], reals)


def make_up(n, n_features, n_fields=20, seed=5):
    """A log of n examples over n_features feature numbers, by Zipf's law; the label depends on all fields."""
    rng = np.random.default_rng(seed)
    width = n_features // n_fields
    ranks = np.minimum(np.exp(rng.random((n, n_fields)) * np.log(width)).astype(np.int64), width) - 1
    keys = ranks + np.arange(n_fields) * width
    score = ((ranks % 7) - 3).sum(axis=1) / 6 + rng.normal(0, 1, n)
    return Log(keys, score > 0, n_features=n_features)


def read(path):
    """Chooses the reader by what the path is."""
    name = os.fspath(path)
    if name.startswith("made-up:"):
        try:
            n, n_features = map(int, name.removeprefix("made-up:").split("x"))
        except ValueError:
            raise InvalidError(f"{name}: made-up:EXAMPLESxFEATURES is needed") from None
        return make_up(n, n_features)
    if os.path.isdir(name):
        return read_movielens(name)
    stem = name.removesuffix(".zst").removesuffix(".gz")
    if stem.endswith(".csv"):
        return read_criteo(name)
    if stem.endswith((".libfm", ".txt", ".svm")):
        return read_libfm(name)
    raise InvalidError(f"{name}: a MovieLens folder, a .csv of Criteo, a .libfm file or made-up:NxM is needed")
