#!/usr/bin/env bash
# `tern train lda` and `tern data bow`: topics that documents were made of are found again in every way of
# running, no count is lost, and what goes wrong is said in a sentence.
. "$(dirname "$0")/lib.sh"

# Ten topics have ten words each: a0 ... a9, b0 ... A document has words of two topics.
data=$tmp/planted
mkdir "$data"
for topic in a b c d e f g h i j; do
    for word in 0 1 2 3 4 5 6 7 8 9; do
        echo "$topic$word"
    done
done >"$data/vocab.txt"
awk 'BEGIN {
    srand(1)
    n_documents = 400
    for (document = 1; document <= n_documents; document++) {
        split("", count)
        topic[0] = int(rand() * 10)
        topic[1] = int(rand() * 10)
        for (i = 0; i < 60; i++)
            count[10 * topic[int(rand() * 2)] + int(rand() * 10)]++
        for (word = 0; word < 100; word++)
            if (count[word] > 0)
                lines[++n] = document " " word + 1 " " count[word]
    }
    print n_documents "\n100\n" n
    for (i = 1; i <= n; i++)
        print lines[i]
}' >"$data/docword.txt"
n_tokens=24000

# quality FILE - the log-likelihood of the last epoch.
quality() {
    sed -n 's/.*"log_likelihood":\([-0-9.]*\).*/\1/p' "$1" | tail -1
}

# near A B - whether two figures below 0 differ by at most 2%. Of 40 seeds, the standard deviation is 0.3% and no result
# is more than 0.7% from the mean.
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < 0 && b < 0 && a > 1.02 * b && b > 1.02 * a) }'
}

# n_found FILE - how many of the ten topics have the first five words of a topic to themselves.
n_found() {
    sed -n 's/^{"topic":[^[]*\[\(.*\)\]}/\1/p' "$1" | tr -d '"0-9' |
        grep -E '^([a-j])(,\1){4}$' | sort -u | wc -l
}

# There are more topics than planted ones, so that it does no harm when two begin alike.
train() {
    try "$tern" train lda --data "$data" --topics 20 --alpha 0.05 --epochs 60 --top 5 --seed 3 --json "$@"
}

# ---- Training in all ways ------------------------------------------------------------------------

# What to expect: the mean of some seeds.
for seed in 4 5 6 7; do
    train --plain --threads 1 --seed $seed
    quality "$out"
done >"$tmp/qualities"
train --plain --threads 1
plain=$(quality "$out")
usual=$(echo "$plain" | awk '{ sum += $1 } END { print sum / NR }' "$tmp/qualities" -)
cp "$out" "$tmp/plain"
check "plain arrays learn" [ "$status" -eq 0 ]
check "there is a line for each epoch" [ "$(grep -c '"epoch"' "$out")" -eq 60 ]
check "and for each topic" [ "$(grep -c '"topic"' "$out")" -eq 20 ]
check "an epoch samples all words" [ "$(grep -c "\"examples\":$n_tokens," "$out")" -eq 60 ]
check "the topics are those that the documents were made of" [ "$(n_found "$out")" -eq 10 ]
train --threads 1
sed '1d; s/"[a-z_]*seconds":[^,]*,//g; s/,"accesses".*//' "$out" >"$tmp/table.short"
sed '1d; s/"[a-z_]*seconds":[^,]*,//g; s/,"accesses".*//' "$tmp/plain" >"$tmp/plain.short"
check "a table gives exactly what arrays give" cmp "$tmp/table.short" "$tmp/plain.short"
# Every evaluation checks that the counts add up to the number of words, so success says that, too.
for way in "--plain --threads 2" "--threads 2" "--nodes 2 --threads 1" "--nodes 3 --threads 2" \
    "--nodes 2 --policy static" "--nodes 2 --policy replicate" "--nodes 2 --policy relocate" \
    "--nodes 2 --policy adaptive-relocate --ahead 0"; do
    # shellcheck disable=SC2086
    train $way
    check "no count is lost with $way" [ "$status" -eq 0 ]
    check "as good with $way" near "$(quality "$out")" "$usual"
    check "the topics are found with $way" [ "$(n_found "$out")" -eq 10 ]
done
try "$tern" train lda --data "$data" --topics 10 --epochs 2 --top 3 --threads 1
check "rows are under a heading" grep -q '^ *epoch  seconds *words/s *loss  log-likelihood$' "$err"
check "topics are printed with their first words" [ "$(grep -c '^ .*%  [a-j]' "$out")" -eq 10 ]
check "progress goes to standard error" grep -q '^ *2/2 .* -[0-9.]*$' "$err"
try "$tern" train lda --data "$data" --topics 10 --epochs 1000000 --time-limit 0.5 --top 0 --json
check "a time limit ends it" [ "$status" -eq 0 ]

# ---- Forms of input ------------------------------------------------------------------------------

awk 'NR > 3 { line[$1] = line[$1] " " $2 - 1 ":" $3; n[$1]++ }
    END { for (i = 1; i in n; i++) print n[i] line[i] "\r" }' "$data/docword.txt" |
    gzip >"$tmp/planted.dat.gz"
gzip -c "$data/vocab.txt" >"$tmp/vocab.txt.gz"
try "$tern" train lda --data "$tmp/planted.dat.gz" --topics 20 --alpha 0.05 --epochs 60 --seed 3 --json \
    --threads 1
check "the form of lda-c, compressed, is the same" [ "$(quality "$out")" = "$plain" ]

printf 'The sea and the wind.\nA sail, the wind, the sea\nsail\n' >"$tmp/text"
try "$tern" data bow --from "$tmp/text" --min-documents 2 --max-share 0.7 "$tmp/bow"
check "text becomes bags of words" [ "$(tr '\n' ' ' <"$tmp/bow/vocab.txt")" = "the sea wind sail " ]
mkdir -p "$tmp/shelf/deep" && ln -s shelf "$tmp/linked" && ln -s ../text "$tmp/shelf/link" &&
    ln -s .. "$tmp/shelf/deep/loop" && echo 'wind and sail' >"$tmp/shelf/deep/file"
try "$tern" data bow --from "$tmp/linked" --min-documents 1 --max-share 1 "$tmp/shelved"
check "links to files and folders are followed" \
    [ "$(tr '\n' ' ' <"$tmp/shelved/documents.txt")" = "$tmp/linked/deep/file $tmp/linked/link " ]
ln -s nowhere "$tmp/shelf/astray"
try "$tern" data bow --from "$tmp/shelf" "$tmp/none"
check "one that leads nowhere is named" grep -q 'shelf/astray: it is a link that leads nowhere' "$err"
try "$tern" train lda --data "$tmp/bow" --topics 2 --epochs 3 --nodes 4
check "there may be more workers than documents" [ "$status" -eq 0 ]

# ---- Models --------------------------------------------------------------------------------------

model=$tmp/model
train --nodes 2 --threads 1 --out "$model" --epochs 30 --eval-every 10
saved=$(sed -n 's/^epochs //p' "$model/model.txt")
likelihood=$(sed -n "s/.*\"epoch\":$saved,.*\"log_likelihood\":\([-0-9.]*\).*/\1/p" "$out")
files="assignments.npy documents.npy model.txt topics.txt words.npy words.txt"
check "a model has these files" [ "$(ls -A "$model" | tr '\n' ' ')" = "$files " ]
check "with its facts" grep -q "^tokens $n_tokens$" "$model/model.txt"
check "a line for each topic" [ "$(wc -l <"$model/topics.txt")" -eq 20 ]
# An .npy file has 128 bytes before the numbers.
check "a topic for each word" [ "$(stat -c %s "$model/assignments.npy")" -eq $((128 + 4 * n_tokens)) ]
check "counts of documents" [ "$(stat -c %s "$model/documents.npy")" -eq $((128 + 4 * 400 * 20)) ]
check "counts of words" [ "$(stat -c %s "$model/words.npy")" -eq $((128 + 4 * 100 * 20)) ]
try "$tern" nearest "$model/words.npy" a0
check "which 'tern nearest' reads" grep -q ' a1$' "$out"
# The counts come back as they were, so the likelihood does so to the last digit, whatever was drawn.
train --nodes 3 --threads 1 --resume "$model" --epochs $((saved + 1))
check "training goes on at the next epoch" grep -q "\"epoch\":$((saved + 1))," "$out"
try "$tern" train lda --data "$data" --topics 20 --alpha 0.05 --top 0 --nodes 3 --threads 1 --resume "$model" --epochs 1
check "from where it was" grep -q "^resumed after epoch $saved: log-likelihood $(printf %.4f "$likelihood")$" "$err"
train --nodes 2 --threads 1 --resume "$model" --epochs "$saved" --out "$tmp/again"
check "a model that is complete is written again as it is" \
    cmp "$model/assignments.npy" "$tmp/again/assignments.npy"
# priors OPTION... - alpha and beta of the model when it goes on.
priors() {
    try "$tern" train lda --data "$data" --topics 20 --top 0 --resume "$tmp/priors" --epochs 2 "$@"
    sed -n 's/^20 topics, \(.*\);.*/\1/p' "$err"
}
try "$tern" train lda --data "$data" --topics 20 --alpha 0.3 --beta 0.2 --epochs 1 --out "$tmp/priors"
check "alpha and beta go on as they were" [ "$(priors)" = "alpha 0.3, beta 0.2" ]
check "at all nodes" [ "$(priors --nodes 2)" = "alpha 0.3, beta 0.2" ]
check "unless they are given" [ "$(priors --beta 0.1)" = "alpha 0.3, beta 0.1" ]
try "$tern" train lda --data "$data" --topics 20 --epochs 1
check "and have defaults" grep -q '^20 topics, alpha 2.5, beta 0.01;' "$err"
try "$tern" train lda --data "$data" --beta 1e-9
check "a beta that is too small is refused" [ "$status" -eq 2 ]
try "$tern" train lda --data "$data" --topics 9 --resume "$model"
check "a model of other topics is refused" grep -q 'has --topics 20' "$err"
try "$tern" train lda --data "$tmp/bow" --topics 20 --resume "$model"
check "so is one of other words" grep -q 'words.txt:1: the words are not those of the data' "$err"
sed '$d; 3s/.*/'"$(($(sed -n 3p "$data/docword.txt") - 1))"'/' "$data/docword.txt" >"$tmp/docword.txt"
try "$tern" train lda --data "$tmp/docword.txt" --topics 20 --resume "$model"
check "and of other documents" grep -q 'was made from 400 documents with 24000 words' "$err"
cp -r "$model" "$tmp/odd"
sed 's/^epochs .*/epochs 99999999999999999999/' "$model/model.txt" >"$tmp/odd/model.txt"
train --resume "$tmp/odd"
check "and of more epochs than can be counted" grep -q "model.txt:3: '99.*' is not a whole number" "$err"
cp -r "$model" "$tmp/cut"
head -c 1000 "$model/assignments.npy" >"$tmp/cut/assignments.npy"
train --nodes 2 --resume "$tmp/cut"
check "and of a model that is cut off" grep -q 'assignments.npy ends before all its 24000 rows' "$err"

# ---- Predictions ---------------------------------------------------------------------------------

echo 'b1 b2 b3 b4 unheard-of b5 b6 b7 b8 b9 b1 b2' >"$tmp/document"
try "$tern" predict lda "$model" "$tmp/document" --json
check "the topics of a document are those of its words" sh -c '
    sed -n "s/.*\"share\":\([0-9.]*\),\"words\":\[\"b[0-9]\",\"b.*/\1/p" "$1" |
        awk "{ sum += \$1 } END { exit !(sum > 0.8) }"' - "$out"
try "$tern" predict lda "$model" "$tmp/document"
check "they are printed with their words" grep -Eq '^ *[0-9.]+%  topic [0-9]+:  b[0-9] b[0-9]' "$out"
check "what is known is said" grep -q '^11 of 13 words are known to the model$' "$err"
try sh -c 'cat "$0" | "$@"' "$tmp/document" "$tern" predict lda "$model" - --json --top 1
check "a document may come from a pipe" [ "$(wc -l <"$out")" -eq 1 ]
echo 'nothing of that kind' >"$tmp/document"
try "$tern" predict lda "$model" "$tmp/document"
check "a document of unknown words is refused" grep -q 'knows none of the 4 words of' "$err"
try "$tern" predict lda "$model" "$tmp/nowhere"
check "so is one that is not there" grep -q "$tmp/nowhere" "$err"

# ---- Failures ------------------------------------------------------------------------------------

printf '2\n100\n1\n3 1 1\n' >"$tmp/docword.bad.txt"
try "$tern" train lda --data "$tmp/docword.bad.txt" --out "$tmp/none"
check "a bad line ends it" [ "$status" -eq 1 ]
check "with file and line" grep -q "docword.bad.txt:4: document 3 is not one of the 2" "$err"
check "and leaves nothing behind" [ ! -e "$tmp/none" ]
try "$tern" train lda --data "$tmp/docword.bad.txt" --nodes 2
check "of several nodes one says so" [ "$(grep -c 'docword.bad.txt:4:' "$err")" -eq 1 ]
printf '2147483647\n100\n1\n1 1 1\n' >"$tmp/docword.many.txt"
try timeout 60 "$tern" train lda --data "$tmp/docword.many.txt" --vocab "$data/vocab.txt"
check "so is a head of too many documents" \
    grep -q 'docword.many.txt:4: 2147483647 documents are too many for the 1 line with' "$err"
printf '2147483647\n100\n1\n2147483647 1 1\n' >"$tmp/docword.many.txt"
try timeout 60 "$tern" train lda --data "$tmp/docword.many.txt" --vocab "$data/vocab.txt"
check "also if a line has the last one" grep -q 'docword.many.txt:4: 2147483646 documents' "$err"
sed '2s/$/\r\r/' "$data/vocab.txt" >"$tmp/vocab.bad.txt"
try "$tern" train lda --data "$data" --vocab "$tmp/vocab.bad.txt"
check "a word that ends in CR is refused" grep -q 'vocab.bad.txt:2: the name has a carriage' "$err"
try "$tern" train lda --data "$data" --topics 10 --epochs 1 --out "$tmp/no/where"
check "a folder that cannot be made is named" grep -q 'cannot make the folder' "$err"
try "$tern" train lda --data "$tmp/nowhere"
check "a missing file is named" grep -q "$tmp/nowhere" "$err"
try "$tern" train lda
check "without data there is nothing to do" [ "$status" -eq 2 ]
try "$tern" data bow "$tmp/bow"
check "nor without text" [ "$status" -eq 2 ]

finish
