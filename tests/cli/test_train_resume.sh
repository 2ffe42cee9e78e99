#!/usr/bin/env bash
# `tern train --checkpoint-every` and `--resume`: one worker that goes on from a checkpoint ends with the bits of a run
# without a break, for every model; other numbers of nodes go on, too; what does not fit is said in a sentence.
. "$(dirname "$0")/lib.sh"

"$tern" data zipf-matrix "$tmp/matrix" --rows 300 --columns 100 --cells 6000 >/dev/null 2>&1
mkdir "$tmp/graph"
awk 'BEGIN { srand(1); for (i = 0; i < 900; i++) printf "e%d\tr%d\te%d\n", rand() * 60, rand() * 3, rand() * 60 }' \
    >"$tmp/graph/all"
sed -n 1,800p "$tmp/graph/all" >"$tmp/graph/train.txt"
sed -n 801,850p "$tmp/graph/all" >"$tmp/graph/valid.txt"
awk 'BEGIN { srand(2); for (i = 0; i < 400; i++) { for (j = 0; j < 25; j++) printf "w%d ", rand() * rand() * 80; print "" } }' \
    >"$tmp/text.txt"
awk 'BEGIN { srand(3); for (i = 0; i < 400; i++) { l = rand() < 0.4 ? 1 : -1; printf "%d", l
     for (j = 0; j < 8; j++) printf " %d:%.3f", 1 + j * 10 + int(rand() * 10), l * 0.1 + rand(); print "" } }' \
    >"$tmp/examples.svm"
mkdir "$tmp/bags"
{
    printf '60\n50\n1800\n'
    awk 'BEGIN { srand(4); for (d = 1; d <= 60; d++) for (i = 0; i < 30; i++)
         printf "%d %d %d\n", d, (d + i) % 50 + 1, 1 + rand() * 3 }'
} >"$tmp/bags/docword.txt"
seq -f 'w%g' 50 >"$tmp/bags/vocab.txt"
python3 - "$tmp/images.npy" <<'E_PY'
import random, struct, sys
random.seed(5)
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (40, 16), }".ljust(117) + "\n"
with open(sys.argv[1], "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
    file.write(struct.pack("<640f", *(random.gauss(0, 1) for _ in range(640))))
E_PY

kge="kge --data $tmp/graph --dim 8 --patience 0 --unknown skip"
wordvec="wordvec --data $tmp/text.txt --dim 8 --min-count 1"
mf="mf --data $tmp/matrix --rank 4 --patience 0"
lda="lda --data $tmp/bags/docword.txt --topics 300"
linear="linear --data $tmp/examples.svm --l1 0.1 --delay 2"
online="linear --data $tmp/examples.svm --solver online"
rica="rica --data $tmp/images.npy --components 8"
fm="fm --data $tmp/examples.svm --dims 4@2,8@20 --dropout 0.1 --negatives 0.8 --test $tmp/examples.svm"

# train WORDS... - six epochs, with a checkpoint after every second one.
train() {
    try timeout "$(paced 60)" "$tern" train "$@" --epochs "${epochs:-6}" --checkpoint-every 2 --seed 5
}

# same A B - whether the files of two checkpoints have the same bits. Clocks are in the manifests, which differ.
same() {
    ls "$1"/part-* >/dev/null && for file in "$1"/part-*; do
        cmp "$file" "$2/${file##*/}" || return 1
    done
}

for model in kge wordvec mf lda linear online fm rica; do
    eval "words=\$$model"
    # shellcheck disable=SC2086
    train $words --threads 1 --checkpoints "$tmp/$model"
    check "$model: there are checkpoints" [ -e "$tmp/$model/epoch-6/manifest.json" ]
    mkdir "$tmp/$model.2"
    cp -r "$tmp/$model/epoch-2" "$tmp/$model.2"
    # shellcheck disable=SC2086
    train $words --threads 1 --checkpoints "$tmp/$model.2" --resume "$tmp/$model.2"
    check "$model: goes on from the second epoch" grep -q 'resumed from a checkpoint after epoch 2' "$err"
    check "$model: ends with the same bits" same "$tmp/$model/epoch-6" "$tmp/$model.2/epoch-6"
    check "$model: what it learned is not what it began with" \
        sh -c "! cmp -s $tmp/$model/epoch-2/part-0-0.safetensors $tmp/$model/epoch-6/part-0-0.safetensors"
    # shellcheck disable=SC2086
    train $words --nodes 2 --threads 1 --checkpoints "$tmp/$model.n" --resume "$tmp/$model/epoch-4"
    check "$model: two nodes go on from one" [ "$status" -eq 0 -a -e "$tmp/$model.n/epoch-6/manifest.json" ]
    # shellcheck disable=SC2086
    epochs=8 train $words --threads 1 --checkpoints "$tmp/$model.1" --resume "$tmp/$model.n"
    check "$model: one node goes on from two" [ "$status" -eq 0 -a -e "$tmp/$model.1/epoch-8/manifest.json" ]
done

# ---- A real kill, wherever it hits ---------------------------------------------------------------

for model in kge fm; do
    eval "words=\$$model"
    # shellcheck disable=SC2086
    "$tern" train $words --epochs 6 --checkpoint-every 2 --seed 5 --threads 1 --checkpoints "$tmp/$model.killed" \
        --out "$tmp/$model.model" >/dev/null 2>&1 &
    victim=$!
    soon test -e "$tmp/$model.killed/epoch-2/manifest.json"
    kill -9 $victim 2>/dev/null
    wait $victim 2>/dev/null
    # shellcheck disable=SC2086
    train $words --threads 1 --checkpoints "$tmp/$model.killed" --resume "$tmp/$model.killed" --out "$tmp/$model.model" --overwrite
    check "$model: a killed run ends with the same bits" same "$tmp/$model/epoch-6" "$tmp/$model.killed/epoch-6"
    check "$model: and leaves its best model" [ -e "$tmp/$model.model/model.txt" ]
done
# shellcheck disable=SC2086
train $kge --threads 1 --checkpoints "$tmp/kge.killed" --resume "$tmp/kge.killed" --out "$tmp/kge.model"
check "a run that is over says so" grep -q 'there are none left of --epochs 6' "$err"

# ---- What does not fit ---------------------------------------------------------------------------

# shellcheck disable=SC2086
train $mf --threads 1 --checkpoints "$tmp/mf"
check "checkpoints of another run are not replaced" grep -q 'there is a checkpoint of epoch 6 in .*/mf already' "$err"
# shellcheck disable=SC2086
train $mf --threads 1 --checkpoints "$tmp/other" --resume "$tmp/kge"
check "those of another model are refused" grep -q 'is one of tern train kge' "$err"
train mf --data "$tmp/matrix" --rank 5 --threads 1 --checkpoints "$tmp/other" --resume "$tmp/mf/epoch-2"
check "another dimension is refused" grep -q 'or with another dimension' "$err"
head -400 "$tmp/graph/train.txt" >"$tmp/few.txt"
mkdir "$tmp/half" && cp "$tmp/few.txt" "$tmp/half/train.txt" && cp "$tmp/graph/valid.txt" "$tmp/half"
train kge --data "$tmp/half" --dim 8 --unknown add --threads 1 --checkpoints "$tmp/other" --resume "$tmp/kge/epoch-2"
check "other data are refused" grep -q 'was made from other data' "$err"
mkdir "$tmp/empty"
# shellcheck disable=SC2086
train $mf --threads 1 --checkpoints "$tmp/other" --resume "$tmp/empty"
check "a folder without any is named" grep -q "neither a model nor a complete checkpoint in $tmp/empty" "$err"
# shellcheck disable=SC2086
try "$tern" train $mf --checkpoint-every 2
check "without a folder there are none" [ "$status" -eq 2 ]
# shellcheck disable=SC2086
train $mf --plain --checkpoints "$tmp/other"
check "nor with plain arrays" [ "$status" -eq 2 ]

finish
