# test_train_placement_models.sh - tern train kge, wordvec and lda --placement: each row is learned from at the node of its part,
# once, and keys are at home where the placement says; what is wrong is refused.
. "$(dirname "$0")/lib.sh"
export TERN_SHARE=0

# The value of a field of the last line of JSON in $out.
field() {
    sed -n "s/.*\"$1\": \{0,1\}\([^,}]*\).*/\1/p" "$out" | tail -1
}

# 1200 rows of 4 groups in turn; each group has 60 names of its own, and one in eight is of 10 that all groups use.
names='function name(group) { return rand() < 0.125 ? int(rand() * 10) : 10 + group * 60 + int(rand() * 60) }'
mkdir "$tmp/triples" "$tmp/bags"
awk "BEGIN { srand(3); for (r = 0; r < 1200; r++) print \"n\" name(r % 4) \"\tr\" int(rand() * 3) \"\tn\" name(r % 4) } $names" \
    >"$tmp/triples/train.txt"
awk "BEGIN { srand(4); for (r = 0; r < 1200; r++) { line = \"w\" name(r % 4); for (i = 0; i < 11; i++) line = line \" w\" name(r % 4)
    print r % 100 ? line : \"\" } } $names" >"$tmp/text.txt"
awk "BEGIN { srand(5); for (r = 1; r <= 300; r++) for (i = 0; i < 8; i++) print r, 1 + name(r % 4), 1 + int(rand() * 3) } $names" |
    sort -n -k1,1 -k2,2 -u >"$tmp/lines"
seq 250 | sed 's/^/w/' >"$tmp/bags/vocab.txt"
{ printf '300\n250\n%s\n' "$(wc -l <"$tmp/lines")" && cat "$tmp/lines"; } >"$tmp/bags/docword.txt"

kge() {
    try "$tern" train kge --data "$tmp/triples" --dim 8 --negatives 4 --batch 50 --threads 1 --policy static --epochs 1 --json "$@"
}
wordvec() {
    try "$tern" train wordvec --data "$tmp/text.txt" --dim 8 --negatives 1 --min-count 1 --sample 0 --threads 1 --policy static \
        --epochs 1 --json "$@"
}
lda() {
    try "$tern" train lda --data "$tmp/bags" --topics 8 --threads 1 --policy static --epochs 1 --json "$@"
}

# model MODEL FORMAT DATA: partitions the data, and compares runs of 4 nodes with and without the placement.
model() {
    try "$tern" partition --parts 4 --format "$2" --replicas 0.05 "$3" --out "$tmp/$1"
    check "$1: 4 parts" [ "$status" -eq 0 ]
    "$1" --nodes 4
    check "$1, 4 nodes" [ "$status" -eq 0 ]
    bytes=$(field bytes) examples=$(field examples)
    "$1" --nodes 4 --placement "$tmp/$1"
    check "$1, 4 nodes, placed" [ "$status" -eq 0 ]
    check "$1: all examples" [ "$(field examples)" -eq "$examples" ]
    check "$1: fewer bytes ($(field bytes) of $bytes)" [ "$(field bytes)" -lt "$bytes" ]
    "$1" --nodes 2 --threads 2 --policy graph:10 --placement "$tmp/$1"
    check "$1, graph:10, two parts for each of two nodes with two threads" [ "$status" -eq 0 ]
    check "$1, graph:10: all examples" [ "$(field examples)" -eq "$examples" ]
    "$1" --nodes 3 --placement "$tmp/$1"
    check "$1: parts are a multiple of the nodes" grep -q 'no multiple of the 3 nodes' "$err"
}

model kge triples "$tmp/triples"
model wordvec words "$tmp/text.txt"
model lda bags "$tmp/bags"

# A model's files are in the order of the documents, whatever the placement; and a run goes on from them.
lda --epochs 0 --out "$tmp/plain"
lda --epochs 0 --nodes 2 --placement "$tmp/lda" --out "$tmp/placed"
check 'lda: the same topics of the same words' cmp "$tmp/plain/assignments.npy" "$tmp/placed/assignments.npy"
check 'lda: the same documents' cmp "$tmp/plain/documents.npy" "$tmp/placed/documents.npy"
lda --epochs 0 --nodes 4 --placement "$tmp/lda" --resume "$tmp/placed" --out "$tmp/again"
check 'lda: goes on from a model' [ "$status" -eq 0 ]
check 'lda: with its topics' cmp "$tmp/plain/assignments.npy" "$tmp/again/assignments.npy"

# Data that are not those of the partition.
printf 'n1\tr1\tn2\n' >>"$tmp/triples/train.txt"
kge --placement "$tmp/kge"
check 'kge: other triples' grep -q 'there are 1201 triples; it is the partition of other data' "$err"
echo 'w1 w2' >>"$tmp/text.txt"
wordvec --placement "$tmp/wordvec"
check 'wordvec: a longer text' grep -q 'has a line 1201; it is the partition of other data' "$err"
sed -i '1s/300/301/; 3s/.*/'"$(($(wc -l <"$tmp/lines") + 1))/" "$tmp/bags/docword.txt" && echo '301 7 1' >>"$tmp/bags/docword.txt"
lda --placement "$tmp/lda"
check 'lda: more documents' grep -q 'there is a document 301; it is the partition of other data' "$err"
sed -i '$d; s/n/m/g' "$tmp/triples/train.txt"
kge --placement "$tmp/kge"
check 'kge: other names' grep -q 'names none of the entities' "$err"
printf 'a b c\n' >"$tmp/triples/train.txt"
try "$tern" partition --parts 2 --format triples "$tmp/triples"
check 'partition: no triple, with file and line' grep -q 'train.txt:1: a triple is' "$err"
try "$tern" partition --parts 2 --format words "$tmp/triples"
check 'partition: a folder of text' grep -q 'is a folder' "$err"

finish
