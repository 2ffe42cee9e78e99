#!/usr/bin/python3
"""Compares `tern train wordvec` with gensim's compiled trainer, on the same text in the same run.

    bench/wordvec_gensim.py build/tern TEXT [--questions FILE] [--epochs N] [--sample X] [--rounds N]

Both learn with one thread and the same parameters, in turns; what is printed are words of the text per
second of training and per second of processor time, and the ratios of Tern to gensim. Tern's processor
time includes the reading of the vocabulary, gensim's does not. With --questions both sets of vectors
answer analogies, judged by gensim. Needs Debian's python3-gensim and a text that is not compressed.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

from gensim.models import KeyedVectors, Word2Vec


def train_gensim(args, path):
    model = Word2Vec(vector_size=args.dim, window=5, negative=5, min_count=5, sample=args.sample,
                     sg=1, hs=0, workers=1, seed=1, epochs=args.epochs)
    model.build_vocab(corpus_file=args.text)
    wall, processor = time.monotonic(), time.process_time()
    model.train(corpus_file=args.text, total_examples=model.corpus_count,
                total_words=model.corpus_total_words, epochs=args.epochs)
    wall, processor = time.monotonic() - wall, time.process_time() - processor
    model.wv.save_word2vec_format(path, binary=True)
    return model.corpus_total_words * args.epochs, wall, processor


def train_tern(args, folder):
    command = [args.tern, "train", "wordvec", "--data", args.text, "--dim", str(args.dim),
               "--sample", str(args.sample), "--epochs", str(args.epochs), "--threads", "1",
               "--json", "--out", folder, "--formats", "npy,binary"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines = child.stdout.read().splitlines()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit("tern failed")
    wall = sum(json.loads(line)["seconds"] for line in lines)
    return wall, usage.ru_utime + usage.ru_stime


def analogies(path, questions):
    vectors = KeyedVectors.load_word2vec_format(path, binary=True)
    return 100 * vectors.evaluate_word_analogies(questions, restrict_vocab=30000)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tern")
    parser.add_argument("text")
    parser.add_argument("--questions")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--sample", type=float, default=1e-3)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    walls, processors = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for i in range(args.rounds):
            words, wall_g, processor_g = train_gensim(args, scratch + "/gensim.bin")
            wall_t, processor_t = train_tern(args, scratch + "/tern")
            walls.append(wall_g / wall_t)
            processors.append(processor_g / processor_t)
            print(f"round {i + 1}: words/s gensim {words / wall_g:.0f}, Tern {words / wall_t:.0f}, "
                  f"ratio {walls[-1]:.1f}; per processor second gensim {words / processor_g:.0f}, "
                  f"Tern {words / processor_t:.0f}, ratio {processors[-1]:.1f}", flush=True)
        print(f"medians of the ratios: {statistics.median(walls):.1f}, per processor second "
              f"{statistics.median(processors):.1f}")
        if args.questions:
            for name, path in ("gensim", "/gensim.bin"), ("Tern", "/tern/words.bin"):
                print(f"{name}: {analogies(scratch + path, args.questions):.1f}% of analogies")


if __name__ == "__main__":
    main()
