#!/usr/bin/env bash
# Standard data sets run at the first try, with the defaults of --unknown: WN18RR and FB15k-237, whose validation and
# test triples have entities that the training triples lack, and the u1 split of MovieLens 100k. They are looked for
# in the folder $TERN_DATA, and left out where there are none.
. "$(dirname "$0")/lib.sh"

sets=${TERN_DATA:-$ROOT/../shared/data}

# Small vectors, since it is about the data.
for set in wn18rr fb15k-237; do
    folder=$sets/$set
    if [ ! -d "$folder" ]; then
        echo "# $folder is not there: left out"
        continue
    fi
    try timeout 500 "$tern" train kge --data "$folder" --dim 8 --negatives 8 --epochs 1
    check "$set runs" [ "$status" -eq 0 ]
    check "$set: says what was added, in one line" [ "$(grep -c '^--unknown add: ' "$err")" -eq 1 ]
    check "$set: is tested" grep -q '^test: MRR 0\.' "$out"
    try timeout 500 "$tern" train kge --data "$folder" --dim 8 --negatives 8 --epochs 1 --unknown skip
    check "$set: says what was left out" \
        grep -q "^--unknown skip: left out [0-9]* triples with names that are not in train$" "$err"
done

if [ -d "$sets/ml-100k" ]; then
    try "$tern" train mf --data "$sets/ml-100k/u1.base.zst,$sets/ml-100k/u1.test.zst" --threads 1
    check "the u1 split of MovieLens 100k runs" [ "$status" -eq 0 ]
    check "and says what was added" \
        grep -q '^--unknown add: 0 users, 32 items ([0-9]* ratings) are not in train$' "$err"
fi

# The defaults of mf do not overfit: no epoch is much better than the last one.
for file in anime/anime_ratings.dat.zst bookcrossing/book_ratings.dat.zst; do
    [ -e "$sets/$file" ] || continue
    try "$tern" train mf --data "$sets/$file" --threads 1 --json
    check "${file%/*} does not overfit" awk -F '"rmse":' '
        NF == 2 { last = $2 + 0; best = best == "" || last < best ? last : best }
        END { exit !(best > 0 && last < 1.005 * best) }' "$out"
done

finish
