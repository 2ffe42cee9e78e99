"""What the tests share. `run` starts a Python script as its own process, alone or under a launcher."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build"))


def pytest_configure(config):
    config.addinivalue_line("markers", "torch: needs torch")


@pytest.fixture
def node():
    import tern

    with tern.Node() as opened:
        yield opened


@pytest.fixture
def tern_command():
    return str(BUILD / "tern")


@pytest.fixture
def script(tmp_path):
    """Writes a script and returns its path."""

    def write(text):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


@pytest.fixture
def run(script):
    """Runs a script; returns what subprocess.run does. `launcher` comes before the interpreter.

    Scripts have buffers: without, print() writes a line and its end apart, and lines of two nodes mix."""

    def start(text, launcher=(), timeout=120, **variables):
        command = [*launcher, sys.executable, script(text)]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, "PYTHONUNBUFFERED": "", **variables})

    return start
