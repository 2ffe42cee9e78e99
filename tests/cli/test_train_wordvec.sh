#!/usr/bin/env bash
# `tern train wordvec`, `tern nearest`, `tern data text` and `tern data gcide`: words that occur together
# get vectors that are close, in every way of running, and what goes wrong is said in a sentence.
. "$(dirname "$0")/lib.sh"

# Each line is about one of four subjects, with ten words of its own: a0 .. a9, b0 .. b9 and so on.
text=$tmp/text.txt
awk 'BEGIN {
    srand(7)
    for (line = 0; line < 6000; line++) {
        subject = substr("abcd", 1 + int(4 * rand()), 1)
        for (i = 0; i < 12; i++)
            printf "%s%d ", subject, int(10 * rand())
        print ""
    }
}' >"$text"

# Pairs of one subject are similar, others are not.
awk 'BEGIN {
    for (i = 0; i < 10; i++)
        for (s = 1; s <= 4; s++)
            for (t = s; t <= 4; t++)
                printf "%s%d\t%s%d\t%d\n", substr("abcd", s, 1), i, substr("abcd", t, 1),
                    (i + 3) % 10, s == t ? 9 : 1
}' >"$tmp/pairs.txt"

# field NAME - of the last epoch.
field() {
    sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p" "$out" | tail -1
}

train() {
    try "$tern" train wordvec --data "$text" --dim 20 --epochs 4 --seed 3 --sample 0 --json "$@"
}

# ---- Training in all ways ------------------------------------------------------------------------

train --plain --threads 1 --similarity "$tmp/pairs.txt"
plain=$(field loss)
check "plain arrays learn" [ "$status" -eq 0 ]
check "there is a line for each epoch" [ "$(grep -c '^{"epoch":' "$out")" -eq 4 ]
check "what occurs together is close" awk -v q="$(field similarity)" 'BEGIN { exit !(q > 0.7) }'
train --threads 1
table=$(field loss)
check "a table, whose negatives the sampling manager draws, learns the same" awk -v a="$table" -v b="$plain" \
    'BEGIN { exit !(a < 1.05 * b && b < 1.05 * a) }'
train --threads 1
check "the same seed gives the same bits" [ "$(field loss)" = "$table" ]
for level in bounded long-term non-conform; do
    TERN_SHARE=0 train --nodes 2 --threads 1 --sampling $level --similarity "$tmp/pairs.txt"
    check "as good with --sampling $level" awk -v q="$(field similarity)" 'BEGIN { exit !(q > 0.7) }'
done
gzip -c "$text" >"$tmp/text.gz"
try "$tern" train wordvec --data "$tmp/text.gz" --dim 20 --epochs 4 --seed 3 --sample 0 --json \
    --threads 1
check "so it does from a compressed file" [ "$(field loss)" = "$table" ]
for way in "--plain --threads 2" "--threads 2" "--nodes 2 --threads 1" \
    "--nodes 2 --threads 1 --policy static" "--nodes 3 --threads 2"; do
    # shellcheck disable=SC2086
    train --similarity "$tmp/pairs.txt" $way
    check "as good with $way" awk -v q="$(field similarity)" 'BEGIN { exit !(q > 0.7) }'
done

lists=
for i in 01 02 03 04 05 06 07 08 09 10 11 12; do
    cp "$tmp/pairs.txt" "$tmp/pairs-of-a-long-name-$i.txt"
    lists=$lists${lists:+,}$tmp/pairs-of-a-long-name-$i.txt
done
try "$tern" train wordvec --data "$text" --dim 4 --epochs 1 --similarity "$lists"
check "each of many tests is told" [ "$(grep -o 'long-name-[01][0-9] [-.0-9]*' "$err" | sort -u | wc -l)" -eq 12 ]

# ---- Models --------------------------------------------------------------------------------------

model=$tmp/model
train --threads 1 --out "$model" --formats npy,text,binary
files="contexts.npy model.txt words.bin words.npy words.txt words.vec"
check "a model has these files" [ "$(ls -A "$model" | tr '\n' ' ')" = "$files " ]
check "all words are in it" [ "$(sort "$model/words.txt" | tr '\n' ' ')" = "$(
    tr -s ' ' '\n' <"$text" | grep . | sort -u | tr '\n' ' ')" ]

# The nine neighbours of a word of a subject are its other words.
for file in words.npy words.vec words.bin; do
    try "$tern" nearest "$model/$file" b4 --top 9
    check "neighbours in $file" [ "$(awk '{ print $2 }' "$out" | sort | tr '\n' ' ')" = \
        'b0 b1 b2 b3 b5 b6 b7 b8 b9 ' ]
done
try "$tern" nearest "$model" b4 --top 9
check "neighbours in the folder of a model" [ "$(awk '{ print $2 }' "$out" | sort | tr '\n' ' ')" = \
    'b0 b1 b2 b3 b5 b6 b7 b8 b9 ' ]
# An analogy: what is to b1 as a2 is to a1 is of subject b.
try "$tern" nearest "$model" a1 - a2 + b4 --top 1
check "a sum of words has neighbours" grep -q ' b[0-9]$' "$out"
cp "$out" "$tmp/sum"
try "$tern" nearest "$model" "a1 - a2 + b4" --top 1
check "also in one operand" cmp "$out" "$tmp/sum"
try "$tern" nearest "$model" b44
check "near misses are named" grep -q "no vector of 'b44' among the 40 in .*words.npy; did you mean 'b4'" "$err"
try "$tern" nearest "$model" b4 a1
check "words need a sign between them" [ "$status" -eq 2 ]
try "$tern" nearest "$model" b4 -
check "and one behind it" [ "$status" -eq 2 ]
try "$tern" nearest "$tmp" b4
check "a folder without a model is named" grep -q "there is no model in the folder $tmp" "$err"
gzip -c "$model/words.vec" >"$tmp/words.vec.gz"
try "$tern" nearest "$tmp/words.vec.gz" b4 --top 1 --json
check "neighbours as JSON" grep -Eq '^\{"word":"b[0-9]","similarity":0\.[0-9]+\}$' "$out"
try sh -c 'cat "$0" | "$@"' "$tmp/words.vec.gz" "$tern" nearest /dev/stdin b4 --top 1 --json
check "neighbours from a pipe" grep -Eq '^\{"word":"b[0-9]","similarity":0\.[0-9]+\}$' "$out"
try "$tern" nearest "$model/words.vec" nobody
check "an unknown word is named" grep -q "no vector of 'nobody'" "$err"
check "and fails" [ "$status" -eq 1 ]
printf '6 2\na 1 0\nzero 0 0\nnan nan 1\ninfinite inf 1\nlarge 3e30 4e30\nsmall 4e-30 3e-30\n' >"$tmp/odd.vec"
try "$tern" nearest "$tmp/odd.vec" a --json
check "vectors without direction are left out" [ "$(tr '\n' ' ' <"$out")" = \
    '{"word":"small","similarity":0.800000} {"word":"large","similarity":0.600000} ' ]
for word in zero nan infinite; do
    try "$tern" nearest "$tmp/odd.vec" $word
    check "nothing is close to that of $word" \
        [ "$status,$(grep -c "the vector of '$word' is zero or" "$err")" = 1,1 ]
done
printf '2 1\n-a 1\n--top 1\n' >"$tmp/dashes.vec"
try "$tern" nearest "$tmp/dashes.vec" -a
check "a word that begins with - looks like an option" [ "$status" -eq 2 ]
check "how to ask for it is said" grep -q "'-a'; .* must follow '--'" "$err"
try "$tern" nearest --json -- "$tmp/dashes.vec" -a
check "behind -- it is a word" grep -q '"word":"--top"' "$out"
try "$tern" nearest --json -- "$tmp/dashes.vec" --top
check "so is the name of an option" grep -q '"word":"-a"' "$out"
try "$tern" nearest "$model/model.txt" b4
check "a file without vectors is refused" grep -q 'neither .npy nor' "$err"
try "$tern" nearest "$model/words.vec"
check "a word must be given" [ "$status" -eq 2 ]

try "$tern" train wordvec --data "$text" --dim 20 --epochs 5 --seed 3 --sample 0 --json --nodes 2 \
    --threads 1 --resume "$model" --similarity "$tmp/pairs.txt"
check "training goes on at the next epoch" [ "$(field epoch),$(grep -c '^{"epoch":' "$out")" = 5,1 ]
check "from where it was" awk -v q="$(field similarity)" 'BEGIN { exit !(q > 0.7) }'
mkdir -p "$tmp/apart/0"
cp -r "$model" "$tmp/apart/0/model"
try_apart "$tern" train wordvec --data "$text" --dim 20 --epochs 5 --json --threads 1 --resume model
check "also where only node 0 has the model" [ "$(field epoch),$(grep -c '^{"epoch":' "$out")" = 5,1 ]
try "$tern" train wordvec --data "$text" --dim 30 --resume "$model"
check "a model of another size is refused" grep -q 'have dimension 20, not 30' "$err"
try "$tern" train wordvec --data "$tmp/pairs.txt" --dim 20 --resume "$model" --min-count 1
check "a model of another text is refused" grep -q 'words.txt:1: the words are not those of the data' "$err"
cp -r "$model" "$tmp/odd"
sed 's/^epochs .*/epochs -5/' "$model/model.txt" >"$tmp/odd/model.txt"
train --resume "$tmp/odd"
check "a model of -5 epochs is refused" grep -q "model.txt:3: '-5' is not a whole number" "$err"
sed '/^epochs/d' "$model/model.txt" >"$tmp/odd/model.txt"
train --resume "$tmp/odd"
check "so is one that does not tell them" grep -q 'model.txt does not describe a model of .tern train wordvec.: it lacks .epochs.' "$err"

# ---- Corpora -------------------------------------------------------------------------------------

printf '<doc>\nThe Cat sat.\r\n\nOn 7 mats!\n</doc>\n' | gzip >"$tmp/raw.gz"
try "$tern" data text --from "$tmp/raw.gz" "$tmp/corpus"
check "letters remain of a text" [ "$(cat "$tmp/corpus/text.txt")" = "$(
    printf 'the cat sat\non mats')" ]
printf '12\n<doc>\n' >"$tmp/wordless"
try "$tern" data text --from "$tmp/wordless" "$tmp/none"
check "a text without words is refused" grep -q 'there is no word in .*wordless' "$err"
check "and leaves nothing behind" [ ! -e "$tmp/none" ]
printf 'About\nRope \\Rope\\, n. [OE. rop.]\n   A large cord.\n   [1913 Webster]\n' >"$tmp/raw"
try "$tern" data gcide --from "$tmp/raw" "$tmp/corpus"
check "definitions remain of a dictionary" \
    [ "$(cat "$tmp/corpus/gcide.txt")" = 'rope n a large cord' ]
try "$tern" data gcide --from "$tmp/nowhere" "$tmp/corpus"
check "a missing dictionary is named, and where it is" grep -q 'nowhere.*dict-gcide' "$err"

# ---- Failures ------------------------------------------------------------------------------------

# refused NAME SENTENCE OPTION... - training fails with the sentence and leaves no model.
refused() {
    refused_name=$1 sentence=$2
    shift 2
    try "$tern" train wordvec --data "$text" --out "$tmp/none" "$@"
    check "$refused_name" [ "$status" -eq 1 ]
    check "$refused_name: says so" grep -q "$sentence" "$err"
    check "$refused_name: leaves nothing behind" [ ! -e "$tmp/none" ]
}
refused 'a missing text' "$tmp/nowhere" --data "$tmp/nowhere"
: >"$tmp/empty"
refused 'an empty text' 'there are no words' --data "$tmp/empty"
refused 'rare words alone' 'none occurs 1000000 times' --min-count 1000000
mkfifo "$tmp/pipe"
refused 'a pipe' 'pipe is not a regular file' --data "$tmp/pipe"
printf ': pairs\na0 a1 b0 b1\na0 a1 b0\n' >"$tmp/questions"
refused 'a question of three words' 'questions:3: a question has four words' \
    --questions "$tmp/questions"
printf 'a0 a1 7\na0 a2 much\n' >"$tmp/bad"
refused 'a rating that is no number' "bad:2: 'much' is not a number" --similarity "$tmp/bad"
refused 'a rate that is too large' 'is not a finite number' --rate 1000 --epochs 2 --threads 1
refused 'a folder that cannot be made' 'cannot make the folder' --epochs 1 --threads 1 \
    --out "$tmp/no/such/none"
refused 'a bad file at several nodes' 'questions:3:' --questions "$tmp/questions" --nodes 2
check 'is reported once' [ "$(grep -c 'questions:3:' "$err")" -eq 1 ]
try "$tern" train wordvec --data "$text" --nodes 2 --similarity "$tmp/pairs.txt,$tmp/pipe"
check 'nor does a pipe serve several nodes as a test' grep -q 'pipe is a pipe, which several nodes' "$err"
try "$tern" train wordvec
check "without text there is nothing to do" [ "$status" -eq 2 ]

finish
