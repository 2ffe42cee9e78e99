# test_sketch.sh - `tern sketch` counts keys, whatever the number of nodes, answers questions and merges; and says what is wrong.
. "$(dirname "$0")/lib.sh"

# Whether it ended with a status, and said so.
ends() {
    [ "$status" = "$1" ] && grep -q -- "$2" "$err"
}

# A word, its rank, as often as 3000 / rank; numbers likewise.
awk 'BEGIN { for (i = 1; i <= 600; i++) for (k = 0; k < 3000 / i; k++) print (i % 2 ? "word" i : i * 7) }' >"$tmp/keys"
sort "$tmp/keys" | uniq -c | awk '{ print $2 "\t" $1 }' >"$tmp/counted"
sort -k1,1 "$tmp/counted" >"$tmp/truth"

try "$tern" sketch count "$tmp/keys" --epsilon 1e-4 --top 5 --counters 600 --out "$tmp/one"
check 'count prints the heaviest keys' \
    [ "$status $(cut -f 1,2 "$out" | tr '\t\n' '  ')" = '0 word1 3000 14 1500 word3 1000 28 750 word5 600 ' ]
check 'count says how fast it was' grep -q '^[0-9]* keys in .* M/s$' "$err"
try "$tern" sketch count - --epsilon 1e-4 --counters 600 --out "$tmp/same" <"$tmp/counted"
check 'lines may have counts' cmp "$tmp/one" "$tmp/same"

try "$tern" sketch query "$tmp/one" word1 14 none
check 'query answers' [ "$status $(tr '\t\n' '  ' <"$out")" = '0 word1 3000 14 1500 none 0 ' ]
cut -f 1 "$tmp/truth" | "$tern" sketch query "$tmp/one" | sort -k1,1 >"$tmp/estimates"
check 'no estimate is too low, and few are too high' \
    sh -c 'join "$0" "$1" | awk "{ low += \$3 < \$2; high += \$3 > \$2 + 2 } END { exit low > 0 || high > 6 || NR != 600 }"' \
    "$tmp/truth" "$tmp/estimates"
try "$tern" sketch query "$tmp/one" --top 2
check 'query --top' [ "$(tr '\t\n' '  ' <"$out")" = 'word1 3000 0 14 1500 0 ' ]

try "$tern" sketch count "$tmp/counted" --nodes 3 --epsilon 1e-4 --counters 600 --top 600 --out "$tmp/three"
cut -f 1,2 "$out" | sort -k1,1 >"$tmp/listed"
check 'three nodes: all keys have their counts' cmp "$tmp/listed" "$tmp/truth"
check 'three nodes write the file of one' cmp "$tmp/one" "$tmp/three"

head -n 300 "$tmp/counted" | "$tern" sketch count --epsilon 1e-4 --counters 600 --out "$tmp/a" 2>"$err"
tail -n 300 "$tmp/counted" | "$tern" sketch count --epsilon 1e-4 --counters 600 --out "$tmp/b" 2>"$err"
try "$tern" sketch merge --out "$tmp/ab" "$tmp/a" "$tmp/b"
tail -c +65 "$tmp/ab" | head -c 1000000 >"$tmp/cells"
tail -c +65 "$tmp/one" | head -c 1000000 >"$tmp/cells_of_one"
check 'merge adds up' cmp "$tmp/cells" "$tmp/cells_of_one"
try "$tern" sketch query "$tmp/ab" --top 2
check 'merge joins the heaviest keys' [ "$(cut -f 1,2 "$out" | tr '\t\n' '  ')" = 'word1 3000 14 1500 ' ]

# What is wrong.
"$tern" sketch count "$tmp/counted" --epsilon 1e-3 --out "$tmp/wide" 2>"$err"
"$tern" sketch count "$tmp/counted" --epsilon 1e-4 --seed 2 --out "$tmp/seeded" 2>"$err"
for other in wide seeded; do
    try "$tern" sketch merge --out "$tmp/none" "$tmp/a" "$tmp/$other"
    check "merge refuses a sketch of another shape: $other" ends 1 'other shapes cannot be merged'
done
printf 'a 1\nb -2\n' >"$tmp/bad"
try "$tern" sketch count "$tmp/bad" --out "$tmp/none"
check 'a negative count' ends 1 'bad:2: the count is negative'
printf 'a 1\nb 2 3\n' >"$tmp/bad"
try "$tern" sketch count "$tmp/bad" --nodes 2 --out "$tmp/none"
check 'too much in a line, with two nodes' ends 1 'bad:2: a line is a key and perhaps a count'
try "$tern" sketch count "$tmp/counted" "$tmp/missing" --out "$tmp/none"
check 'a file that is not there' ends 1 'missing'
try "$tern" sketch query "$tmp/counted" a
check 'a file that is no sketch' ends 1 'not the file of a sketch'
head -c 5000 "$tmp/one" >"$tmp/short"
try "$tern" sketch query "$tmp/short" a
check 'a file that was cut' ends 1 'size'
cp "$tmp/one" "$tmp/damaged"
printf '\001' | dd of="$tmp/damaged" bs=1 seek=4000 conv=notrunc 2>"$err"
try "$tern" sketch merge --out "$tmp/none" "$tmp/damaged"
check 'a file that is damaged' ends 1 'checksum'
try "$tern" sketch count "$tmp/counted" --epsilon 1 --out "$tmp/none"
check 'epsilon outside (0, 1)' ends 2 '--epsilon must be above 0 and below 1'
try "$tern" sketch count "$tmp/counted" --delta 0 --out "$tmp/none"
check 'delta outside (0, 1)' ends 2 '--delta must be above 0 and below 1'
try "$tern" sketch count "$tmp/counted" --delta 1e-9 --out "$tmp/none"
check 'too many rows' ends 2 'at most 2^40 cells in each of 16 rows'
check 'nothing is half-written' [ -z "$(find "$tmp" -name 'none*' -o -name '*.new')" ]
finish
