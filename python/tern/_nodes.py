"""The part `nodes` of tern.bench: two nodes of tern.ctr beside two processes of torch that never speak.

The ways take turns, each as a job of its own under `tern run`, and print the examples per second of their epochs. On links of
a chosen speed `--policy static` is the baseline. Processes that never speak send nothing and wait for nothing, so what they
reach, by torch alone or with tables of their own, is the limit of what any way of managing keys can reach.
"""

import json
import shutil
import subprocess
import sys

LINK = "1gbit,0.1ms"


def train(command, arguments, link):
    """The examples per second of each epoch, and the shares of remote accesses."""
    line = [command, "run", "-n", "2", "--no-prefix", *(["--link", link] if link else []),
            sys.executable, "-m", "tern.ctr", *arguments, "--json"]
    job = subprocess.run(line, capture_output=True, text=True)
    if job.returncode:
        raise SystemExit(f"tern.bench: {' '.join(line)} has failed:\n{job.stderr}")
    epochs = [line for line in map(json.loads, job.stdout.splitlines()) if "epoch" in line]
    return [epoch["examples_per_s"] for epoch in epochs], [epoch.get("remote_share", 0) for epoch in epochs]


def in_turns(command, ways, link, repeats):
    """The median examples per second of each way, and its mean share of remote accesses."""
    rates, shares = ({name: [] for name in ways} for _ in range(2))
    for _ in range(repeats):
        for name, arguments in ways.items():
            rate, share = train(command, arguments, link)
            rates[name] += rate
            shares[name] += share
    return ({name: sorted(rate)[len(rate) // 2] for name, rate in rates.items()},
            {name: sum(share) / len(share) for name, share in shares.items()})


def bench(report, options):
    command = shutil.which(options.command)
    if not command:
        raise SystemExit(f"tern.bench: there is no command {options.command!r}; --command names it")
    tern = ["--model", options.model, "--data", options.data, "--epochs", str(options.epochs), "--batch", str(options.batch)]
    ways = {"two nodes": tern, "two torch processes": [*tern, "--plain"]}
    rates, _ = in_turns(command, ways, None, options.repeats)
    report.rate(f"{options.model}, two nodes", rates["two nodes"], "two torch processes", rates["two torch processes"], 0.85)
    ways |= {"--silent": [*tern, "--silent"], "static": [*tern, "--policy", "static"]}
    rates, shares = in_turns(command, ways, options.link, options.repeats)
    for name, what, wanted in (("two nodes", "", 3), ("two torch processes", ": torch alone", 0),
                               ("--silent", ": the limit, --silent", 0)):
        report.rate(f"{options.model}, {options.link}{what}", rates[name], "--policy static", rates["static"], wanted)
    report.put({"what": f"{options.model}, {options.link}: share of remote accesses", "value": round(shares["two nodes"], 6),
                "wanted": 0.001, "met": shares["two nodes"] <= 0.001})


def add_options(parser):
    add = parser.add_argument_group("part nodes").add_argument
    add("--data", metavar="PATH", help="what tern.ctr trains on; needed")
    add("--model", default="wide-deep", help="its model (default: wide-deep)")
    add("--batch", type=int, default=1024, help="examples of a batch (default: 1024)")
    add("--epochs", type=int, default=2, help="of each job (default: 2)")
    add("--repeats", type=int, default=3, help="jobs of each way (default: 3)")
    add("--link", default=LINK, help=f"the network that --policy static is measured on (default: {LINK})")
    add("--command", default="tern", metavar="PATH", help="the command tern (default: tern)")
