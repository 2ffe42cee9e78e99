#!/usr/bin/env bash
# `tern train rica`: planted filters are found in every way of running, a delay costs at most 1 %, and what goes wrong is said.
. "$(dirname "$0")/lib.sh"

# Images of 6 x 6 pixels, each the sum of two bars and some noise.
python3 - "$tmp/bars.npy" <<'E_PY'
import random, struct, sys
random.seed(5)
n, side = 300, 6
p = side * side
head = ("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (n, p)).ljust(117) + "\n"
with open(sys.argv[1], "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
    for _ in range(n):
        x = [random.gauss(0, 0.05) for _ in range(p)]
        for _ in range(2):
            bar, height = random.randrange(2 * side), random.choice((-1, 1)) * random.random()
            for i in range(side):
                x[bar * side + i if bar < side else i * side + bar - side] += height
        file.write(struct.pack("<%df" % p, *x))
E_PY

# last NAME - a figure of the last epoch.
last() {
    sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$out" | tail -1
}

near() {
    awk -v a="$1" -v b="$2" -v x="$3" 'BEGIN { d = a - b; exit !(a != "" && b != "" && d <= x * b && -d <= x * b) }'
}

rica() {
    try "$tern" train rica --data "$tmp/bars.npy" --components 16 --lambda 0.03 --json "$@"
}

rica --plain --threads 1
best=$(last objective)
check "most of the images is reconstructed" awk -v e="$(last error)" 'BEGIN { exit !(e < 0.2) }'
# However far asynchronous workers are behind each other, within the bound.
for way in "--plain --threads 2" "--threads 2" "--nodes 2 --threads 1" "--nodes 3 --threads 1 --delay 1" \
    "--nodes 3 --threads 1 --delay 2" "--nodes 3 --threads 1 --delay 4"; do
    # shellcheck disable=SC2086
    rica $way
    check "after 50 steps the objective is as good with $way" near "$(last objective)" "$best" 0.01
done

rica --threads 1 --out "$tmp/model"
check "the filters are an array" [ "$(wc -c <"$tmp/model/filters.npy")" -eq $((128 + 16 * 36 * 4)) ]
check "and a picture" [ "$(head -c 4 "$tmp/model/filters.png" | tail -c 3)" = PNG ]
at=$(last objective)
rica --threads 1 --epochs 10 --resume "$tmp/model" --out "$tmp/more"
check "training goes on with them" awk -v a="$(last objective)" -v b="$at" 'BEGIN { exit !(a < b) }'
rica --threads 1 --rate 50
check "divergence is said" grep -q 'lower --rate' "$err"
rica --components 17 --resume "$tmp/model"
check "other filters are refused" grep -q 'has 16 filters of 36 pixels, not 17 of 36' "$err"
head -c 1000 "$tmp/bars.npy" >"$tmp/cut.npy"
try "$tern" train rica --data "$tmp/cut.npy"
check "a file that was cut is refused" [ "$status" -eq 1 ]
rica --policy static
check "it has no policy" [ "$status" -eq 2 ]
finish
