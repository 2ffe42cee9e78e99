#!/usr/bin/env bash
# `tern train linear` and `tern predict linear`: planted weights are found in every way of running, files of all formats
# give the same model, and what goes wrong is said in a sentence.
. "$(dirname "$0")/lib.sh"

# Examples of 8 of 200 features, the first ones more frequent; the label depends on ten of them.
awk 'BEGIN {
    srand(7)
    for (i = 0; i < 2000; i++) {
        line = ""; margin = 0; n = 0
        for (k = 0; k < 8; k++) {
            j = 1 + int(200 * rand() * rand())
            margin += j <= 10 ? (j % 2 ? 1.5 : -1.5) : 0
            line = line " " j ":1"
        }
        print (rand() < 1 / (1 + exp(-margin)) ? 1 : -1) line
    }
}' >"$tmp/train.svm"
head -1000 "$tmp/train.svm" >"$tmp/test.svm"

# figure NAME FILE - a figure of the last epoch.
figure() {
    sed -n "s/.*\"$1\":\([-0-9.]*\).*/\1/p" "$2" | tail -1
}

# near A B X - whether two figures differ by at most a share X.
near() {
    awk -v a="$1" -v b="$2" -v x="$3" 'BEGIN { d = a - b; exit !(a != "" && b != "" && d <= x * b && -d <= x * b) }'
}

train() {
    try "$tern" train linear --data "$tmp/train.svm" --json --intercept penalised --epochs 400 \
        --tolerance 1e-5 --eval-every 4 "$@"
}

# ---- The optimum, in all ways ----------------------------------------------------------------------

for penalty in "--l1 1" "--l1 0 --l2 1" "--l1 0.5 --l2 2"; do
    # shellcheck disable=SC2086
    train --plain --threads 1 --kkt 1 $penalty
    check "plain arrays converge with $penalty" [ "$status" -eq 0 ]
    best=$(figure objective "$out")
    for way in "--threads 1" "--threads 2 --kkt 0.1" "--nodes 2 --threads 1" \
        "--nodes 2 --threads 2 --delay 3" "--nodes 3 --threads 1 --delay 8 --kkt 0"; do
        # shellcheck disable=SC2086
        train $penalty $way
        check "the same optimum with $penalty $way" near "$(figure objective "$out")" "$best" 1e-5
    done
done
train --l1 20
check "an l1 penalty makes weights 0" awk -v n="$(figure nonzeros "$out")" 'BEGIN { exit !(n > 0 && n < 50) }'
check "and leaves out what stays 0" awk -v n="$(figure active "$out")" 'BEGIN { exit !(n < 0.9) }'
for loss in squared squared-hinge; do
    train --plain --threads 1 --l1 0 --l2 1 --loss $loss
    best=$(figure objective "$out")
    train --nodes 2 --threads 1 --l1 0 --l2 1 --loss $loss
    check "the same optimum with the $loss loss" near "$(figure objective "$out")" "$best" 1e-5
done

# Columns of categories, which add up to the same vector, make steps of single weights slow. All ways still end at the
# optimum of a longer run.
awk 'BEGIN {
    srand(11)
    for (i = 0; i < 3000; i++) {
        line = ""; margin = 0
        for (g = 0; g < 6; g++) {
            k = int(5 * rand() * rand()); j = 5 * g + k + 1
            margin += (k - 1) * (g % 3 - 1) / 2
            line = line " " j ":1"
        }
        print (rand() < 1 / (1 + exp(-margin)) ? 1 : -1) line
    }
}' >"$tmp/groups.svm"
for penalty in "--l1 0 --l2 0.1" "--l1 1"; do
    best=
    for way in "--plain --threads 1 --kkt 1 --epochs 400" "--nodes 2 --threads 1" "--nodes 4 --threads 1 --delay 8" \
        "--threads 2 --delay 3 --kkt 1"; do
        # shellcheck disable=SC2086
        try "$tern" train linear --data "$tmp/groups.svm" --json --intercept none --epochs 60 \
            --tolerance 1e-7 --eval-every 10 $penalty $way
        best=${best:-$(figure objective "$out")}
        check "categories: the optimum to 1e-6 with $penalty $way" near "$(figure objective "$out")" "$best" 1e-6
    done
done

# ---- Online ----------------------------------------------------------------------------------------

online() {
    try "$tern" train linear --solver online --data "$tmp/train.svm" --test "$tmp/test.svm" --json --l1 0 --epochs 4 "$@"
}
online --plain --threads 1
best=$(figure auc "$out")
check "the online solver learns" awk -v q="$best" 'BEGIN { exit !(q > 0.75) }'
for way in "--threads 1" "--threads 2" "--nodes 2 --threads 1" "--nodes 2 --policy static" "--loss hinge --threads 1"; do
    # shellcheck disable=SC2086
    online $way
    check "as good online with $way" near "$(figure auc "$out")" "$best" 0.02
done

# Filters make what nodes send shorter and change next to nothing.
export TERN_SHARE=0
online --nodes 2 --threads 1 --policy static
requests=$(figure request_bytes "$out") replies=$(figure reply_bytes "$out")
online --nodes 2 --threads 1 --policy static --filters zeros,fixed:8
unset TERN_SHARE
check "as good online with filters" near "$(figure auc "$out")" "$best" 0.02
check "with fewer bytes each way" [ "$(figure request_bytes "$out")" -lt "$requests" ] &&
    [ "$(figure reply_bytes "$out")" -lt "$replies" ]
try "$tern" train linear --data "$tmp/train.svm" --filters shorter
check "a filter that does not exist is refused" grep -q "filters.*'shorter' is unknown" "$err"

for updater in adagrad asyncadagrad adadelay adaptiverevision; do
    online --threads 1 --updater $updater
    check "as good online with $updater" near "$(figure auc "$out")" "$best" 0.02
    adagrad=${adagrad:-$(figure log_loss "$out")}
    check "without delay $updater is adagrad" near "$(figure log_loss "$out")" "$adagrad" 1e-4
done
online --nodes 2 --threads 1 --updater adaptiverevision
check "late updates are learned from" near "$(figure auc "$out")" "$best" 0.02
online --updater adadelay --policy adaptive
check "updaters that know the age have no policy" [ "$status" -eq 2 ]

for solver in emso-cd emso-gd; do
    for way in "--plain --threads 1" "--nodes 2 --threads 1 --policy static" "--nodes 2 --threads 1 --policy bsp"; do
        # shellcheck disable=SC2086
        online --solver $solver --batch 500 $way
        check "large batches are learned from with $solver $way" \
            awk -v q="$(figure auc "$out")" 'BEGIN { exit !(q > 0.8) }'
    done
done
try "$tern" train linear --solver emso-cd --loss hinge --data "$tmp/train.svm"
check "emso needs a smooth loss" [ "$status" -eq 2 ]

# ---- Formats ---------------------------------------------------------------------------------------

train --l1 1 --threads 1
best=$(figure objective "$out")
sed 's/ / | /' "$tmp/train.svm" | gzip >"$tmp/train.vw.gz"
try "$tern" train linear --data "$tmp/train.vw.gz" --json --intercept penalised --epochs 400 --tolerance 1e-5 --eval-every 4
check "Vowpal Wabbit's form, compressed, is the same" near "$(figure objective "$out")" "$best" 1e-6
{
    echo label,colour,size
    awk 'BEGIN { srand(3); for (i = 0; i < 500; i++) { red = rand() < 0.5; print (rand() < (red ? 0.8 : 0.2)) "," (red ? "red" : "blue") "," rand() } }'
} >"$tmp/table.csv"
try "$tern" train linear --data "$tmp/table.csv" --numeric size --json --l1 0.1
check "columns are read" near "$(figure accuracy "$out")" 0.8 0.1
try "$tern" train linear --data "$tmp/table.csv" --numeric size --json --l1 0.1 --nodes 2 --out "$tmp/named"
check "the model has names" grep -Pq '^[0-9]+ [-0-9.e]+\tcolour=red$' "$tmp/named/weights.txt"
check "of columns" grep -Pq '\tsize$' "$tmp/named/weights.txt"
try "$tern" predict linear "$tmp/named" "$tmp/table.csv" --numeric size --json
check "it predicts with them" near "$(figure accuracy "$out")" 0.8 0.1
sed 's/colour/hue/' "$tmp/table.csv" >"$tmp/other.csv"
try "$tern" train linear --data "$tmp/other.csv" --numeric size --json --solver online --l1 0 --epochs 110 --resume "$tmp/named" \
    --out "$tmp/named"
check "new data add names" grep -Pq '\thue=red$' "$tmp/named/weights.txt"
check "and the old ones stay" grep -Pq '\tcolour=red$' "$tmp/named/weights.txt"
try "$tern" train linear --data "$tmp/table.csv" --numeric size --json --l1 0.1 --no-names --out "$tmp/unnamed"
check "--no-names leaves them out" [ "$(grep -c colour "$tmp/unnamed/weights.txt")" -eq 0 ]

# ---- The model -------------------------------------------------------------------------------------

train --l1 1 --threads 1 --out "$tmp/model"
check "the model is written" grep -q '^[0-9]* [-0-9.e]*$' "$tmp/model/weights.txt"
check "with as many weights as are not 0" [ "$(wc -l <"$tmp/model/weights.txt")" -eq "$(figure nonzeros "$out" | cut -d. -f1)" ]
quality=$(figure auc "$out")
try "$tern" predict linear "$tmp/model" "$tmp/train.svm" --json
check "it predicts as well as it was measured" near "$(figure auc "$out")" "$quality" 1e-4
"$tern" predict linear "$tmp/model" - <"$tmp/test.svm" >"$tmp/predictions"
check "a line for each example of a pipe" [ "$(wc -l <"$tmp/predictions")" -eq 1000 ]
train --l1 1 --threads 2 --resume "$tmp/model" --epochs 500 --out "$tmp/model"
check "it goes on where it was" near "$(figure objective "$out")" "$best" 1e-5
cp -r "$tmp/model" "$tmp/other"
sed -i 's/^task linear/task mf/' "$tmp/other/model.txt"
try "$tern" predict linear "$tmp/other" "$tmp/test.svm"
check "a model of another kind is refused" [ "$status" -eq 1 ]

# ---- What goes wrong -------------------------------------------------------------------------------

# refuses WHAT WORDS ARGUMENTS... - training fails with these words, and writes nothing.
refuses() {
    local what=$1 words=$2
    shift 2
    try "$tern" train linear --out "$tmp/nothing" "$@"
    check "$what is refused" grep -q "$words" "$err"
    check "$what writes nothing" [ "$status" -ne 0 ] && [ ! -e "$tmp/nothing" ]
}
printf '1 1:1\n-1 x\n' >"$tmp/bad"
refuses "a line that is no example" "bad:2: 'x' is no feature" --data "$tmp/bad"
refuses "a bad line at two nodes" "bad:2: 'x' is no feature" --data "$tmp/bad" --nodes 2
printf '1 1:1\n-1 0:1\n' >"$tmp/bad"
refuses "an index below the first" "bad:2: the index 0 is below" --data "$tmp/bad" --first-index 1
printf '1 1:1\n-1 18446744073709551616:1\n' >"$tmp/bad"
refuses "an index above 64 bits" "bad:2: '18446744073709551616:1' is no feature" --data "$tmp/bad"
printf '1 1:1\n-1 2:nan\n' >"$tmp/bad"
refuses "a value that is no number" "bad:2: '2:nan' is no feature" --data "$tmp/bad"
printf '1 |a x\n-1 |a y\n' >"$tmp/other.vw"
refuses "files of two formats" "other.vw looks like vw" --data "$tmp/train.svm,$tmp/other.vw"
refuses "files of two formats at two nodes" "other.vw looks like vw" --data "$tmp/train.svm,$tmp/other.vw" --nodes 2 --threads 1
refuses "divergence" "not a finite number" --data "$tmp/train.svm" --solver online --updater sgd --loss squared --rate 900
printf '1 1:1\n3 2:1\n' >"$tmp/bad"
refuses "a label that the loss cannot have" "bad:2: the label 3 is none of" --data "$tmp/bad"
printf '1 1:1\n1 2:1\n' >"$tmp/bad"
refuses "one class only" "all 2 examples have a positive label" --data "$tmp/bad"
: >"$tmp/bad"
refuses "an empty file" "has no example" --data "$tmp/bad"
refuses "the hinge loss with dbpg" "not smooth" --data "$tmp/train.svm" --loss hinge
refuses "an unknown metric" "no metric 'f1'" --data "$tmp/train.svm" --metric f1
printf '1 1:1\n-1 2:1\n' >"$tmp/separable"
try "$tern" train linear --data "$tmp/separable" --l1 0 --epochs 5 --tolerance 0
check "a separable set ends at the limit, with a word" grep -q 'not converged: the limit of 5 epochs' "$err"

printf '1 1:1 1:2\n-1 2:1\n' >"$tmp/twice"
printf '1 1:3\n-1 2:1\n' >"$tmp/once"
for file in twice once; do
    try "$tern" train linear --data "$tmp/$file" --l1 0 --l2 1 --intercept none --epochs 3 --out "$tmp/model-$file"
done
check "repeated features add up" cmp "$tmp/model-twice/weights.txt" "$tmp/model-once/weights.txt"

# ---- Figures of others -----------------------------------------------------------------------------

shared=${TERN_DATA:-$ROOT/../shared/data}
if [ -r "$shared/a9a/a9a.zst" ]; then
    try "$tern" train linear --solver online --data "$shared/a9a/a9a.zst" --test "$shared/a9a/a9a.t.zst" --json --l1 0 \
        --epochs 5 --threads 1
    check "a9a.t: AUC of 0.900 or more after five passes" awk -v q="$(figure auc "$out")" 'BEGIN { exit !(q >= 0.9) }'
fi
finish
