#!/usr/bin/env bash
# `tern train fm` and `tern predict fm`: planted interactions are found in every way of running, without embeddings the
# model is that of `tern train linear`, models are written and gone on with, and what goes wrong is said in a sentence.
. "$(dirname "$0")/lib.sh"

# Examples of 3 features of 60, of which the third is often rare; the label depends on the pair of the first two.
awk 'BEGIN {
    srand(11)
    for (i = 0; i < 4000; i++) {
        a = int(10 * rand()); b = int(10 * rand()); c = int(1000 * rand() * rand() * rand())
        print ((a % 2 == b % 2) == (rand() < 0.9) ? 1 : -1) " " a + 1 ":1 " b + 11 ":1 " c + 21 ":1"
    }
}' >"$tmp/all.svm"
head -3000 "$tmp/all.svm" >"$tmp/train.svm"
tail -1000 "$tmp/all.svm" >"$tmp/test.svm"

# figure NAME FILE - a figure of the last epoch.
figure() {
    sed -n "s/.*\"$1\":\([-0-9.]*\).*/\1/p" "$2" | tail -1
}

# near A B X - whether two figures differ by at most a share X.
near() {
    awk -v a="$1" -v b="$2" -v x="$3" 'BEGIN { d = a - b; exit !(a != "" && b != "" && d <= x * b && -d <= x * b) }'
}

# line NAME MODEL - what model.txt says.
line() {
    sed -n "s/^$1 //p" "$tmp/$2/model.txt"
}

train() {
    try "$tern" train fm --data "$tmp/train.svm" --test "$tmp/test.svm" --json --epochs 8 --patience 0 --dims 4@10 --l1 0.01 "$@"
}

# ---- Learning ------------------------------------------------------------------------------------

train --threads 1 --out "$tmp/model"
best=$(figure auc "$out")
check "interactions are found" awk -v q="$best" 'BEGIN { exit !(q > 0.85) }'
train --threads 1 --dims 0
check "which a linear model does not find" awk -v q="$(figure auc "$out")" 'BEGIN { exit !(q < 0.6) }'
train --threads 1 --plain --out "$tmp/plain"
check "plain arrays give the same model" cmp "$tmp/plain/weights.txt" "$tmp/model/weights.txt"
for way in "--threads 2" "--nodes 2 --threads 1" "--nodes 2 --threads 1 --policy static" "--dims 2@10,4@100" \
    "--dims 4 --no-shrink" "--dropout 0.1 --clip 1" "--normalise" "--min-count 3" "--negatives 0.7"; do
    # shellcheck disable=SC2086
    train $way
    check "as good with $way" near "$(figure auc "$out")" "$best" 0.05
done
train --threads 1 --loss squared
check "a regression is measured by its RMSE" awk -v q="$(figure rmse "$out")" 'BEGIN { exit !(q > 0 && q < 0.85) }'

# ---- Which features have embeddings --------------------------------------------------------------

occurring() {
    cut -d' ' -f2- "$tmp/train.svm" | tr ' ' '\n' | sort | uniq -c | awk -v n="$1" '$1 > n { sub(":1", "", $2); print $2 }' | sort
}
train --threads 1 --no-shrink --l1 0 --out "$tmp/wide"
awk 'NF > 2 { print $1 }' "$tmp/wide/weights.txt" | sort >"$tmp/with"
occurring 10 >"$tmp/often"
check "exactly the features that occur often have one" cmp "$tmp/with" "$tmp/often"
try "$tern" train fm --data "$tmp/train.svm" --epochs 3 --threads 1 --min-count 5 --dims 0 --l1 0 --out "$tmp/few"
grep -v intercept "$tmp/few/weights.txt" | cut -d' ' -f1 | sort >"$tmp/with"
occurring 4 >"$tmp/often"
check "and those have a weight that occur --min-count times" cmp "$tmp/with" "$tmp/often"
train --threads 1 --l1 3 --out "$tmp/lean"
check "a feature whose weight is 0 has none" [ "$(awk '$2 == 0' "$tmp/lean/weights.txt" | wc -l)" -eq 0 ]
check "and so there are fewer" [ "$(line embeddings lean)" -lt "$(line embeddings wide)" ]

# ---- Without embeddings: the online solver of linear models ------------------------------------------

for solver in "fm --dims 0" "linear --solver online"; do
    # shellcheck disable=SC2086
    try "$tern" train $solver --data "$tmp/train.svm" --epochs 2 --patience 0 --l1 0.1 --threads 1 --out "$tmp/${solver%% *}0"
done
check "no dimensions: the weights of train linear" cmp "$tmp/fm0/weights.txt" "$tmp/linear0/weights.txt"

# ---- The model -------------------------------------------------------------------------------------

check "a line has a key, a weight and an embedding" grep -Eq '^[0-9]+( [-0-9.e]+){5}$' "$tmp/model/weights.txt"
check "the same embeddings are an .npy file" [ "$(wc -c <"$tmp/model/embeddings.npy")" -eq $((128 + 16 * $(line embeddings model))) ]
try "$tern" predict fm "$tmp/model" "$tmp/test.svm" --json
check "it predicts as well as it was measured" near "$(figure auc "$out")" "$best" 0.01
"$tern" predict fm "$tmp/model" - <"$tmp/test.svm" >"$tmp/predictions"
check "a line for each example of a pipe" [ "$(wc -l <"$tmp/predictions")" -eq 1000 ]
train --resume "$tmp/model" --epochs 9 --threads 1
check "it goes on where it was" near "$(figure auc "$out")" "$best" 0.02

# ---- What goes wrong -------------------------------------------------------------------------------

# refuses WHAT WORDS ARGUMENTS... - training fails with these words and exit 1, and writes nothing.
refuses() {
    local what=$1 words=$2
    shift 2
    try "$tern" train fm --out "$tmp/nothing" "$@"
    check "$what is refused" grep -q -- "$words" "$err"
    check "$what writes nothing" [ "$status" -eq 1 -a ! -e "$tmp/nothing" ]
}
try "$tern" train linear --data "$tmp/train.svm" --solver online --epochs 1 --checkpoint-every 1 --checkpoints "$tmp/points"
refuses "a checkpoint" "is one of tern train linear" --data "$tmp/train.svm" --resume "$tmp/points"
try "$tern" train fm --data "$tmp/train.svm" --dims 4@2 --epochs 1 --checkpoint-every 1 --checkpoints "$tmp/fm.points"
refuses "a checkpoint of other dimensions" "or with another dimension" --data "$tmp/train.svm" --dims 4@3 --resume "$tmp/fm.points"
refuses "a tier that does not rise" "--dims 8@10,8@20: dimensions and occurrences must rise" --data "$tmp/train.svm" --dims 8@10,8@20
refuses "a model of other dimensions" "has other dimensions (4 in 1 tiers)" --data "$tmp/train.svm" --dims 8@10 --resume "$tmp/model"
refuses "a model of another loss" "was trained with --loss logistic" --data "$tmp/train.svm" --dims 4@10 --loss squared --resume "$tmp/model"
printf '1 1:1\n-1 2:nan\n' >"$tmp/bad"
refuses "a value that is not finite" "bad:2: '2:nan' is no feature" --data "$tmp/bad"
printf '1 1:1\n-1\n' >"$tmp/bad"
refuses "a row without features" "bad:2: the example has no feature" --data "$tmp/bad"
printf '1 1:1\n3 2:1\n' >"$tmp/bad"
refuses "a wrong label" "bad:2: the label 3 is none of" --data "$tmp/bad"
refuses "a wrong label at two nodes" "bad:2: the label 3 is none of" --data "$tmp/bad" --nodes 2
cp -r "$tmp/model" "$tmp/broken"
sed -i '2s/ [^ ]*$//' "$tmp/broken/weights.txt"
refuses "a line that was cut" "weights.txt:2: the line is not a key, a weight and an embedding" --data "$tmp/train.svm" --dims 4@10 --resume "$tmp/broken"
try "$tern" train fm --data "$tmp/train.svm" --loss squared --negatives 0.5
check "fewer negatives of a regression are refused" [ "$status" -eq 2 ]

# ---- The benchmark ---------------------------------------------------------------------------------

try "$tern" bench fm --figure fixed --rows 500 --features 500 --epochs 1 --dims 2 --nodes 1 --json --svg "$tmp/fixed.svg"
check 'the bench compares rounded numbers with exact ones' \
    sh -c "grep -c '\"number_bytes\":[1234],' '$out' | grep -qx 16 && grep -q 'bytes of a number' '$tmp/fixed.svg'"
try "$tern" bench fm --figure size --rows 2000 --features 1000 --epochs 1 --dims 2 --json --svg "$tmp/size.svg"
entries() {
    sed -n "s/.*\"setting\":\"$1\".*\"entries\":\([0-9]*\).*/\1/p" "$out"
}
check "a fixed machine has more entries than an adaptive one" [ "$(entries fixed)" -gt "$(entries threshold)" ]
check "logistic regression has none" [ "$(entries 'logistic regression')" -eq 0 ]
check "the figure is drawn" grep -q '^</svg>' "$tmp/size.svg"
finish
