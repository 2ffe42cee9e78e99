# test_examples.sh - the examples run, and say what is wrong when something is.
. "$(dirname "$0")/lib.sh"

first=$BUILD/examples/first
logistic=$BUILD/examples/logistic

try "$first"
check 'first runs' [ "$status" -eq 0 ]
check 'first comes close to its goal' grep -q '^step 20: .* 0\.000' "$out"

try "$BUILD/examples/mlp"
check 'mlp runs' [ "$status" -eq 0 ]
check 'mlp finds the prototypes' grep -q '^epoch 3: accuracy \(0\.9[5-9]\|1\.0\)' "$out"
check 'mlp is short' [ "$(wc -l <"$ROOT/examples/mlp.c")" -le 80 ]
try "$BUILD/examples/mlp" /nowhere
check 'mlp names the file that is missing' grep -q '/nowhere/train-images-idx3-ubyte.gz cannot be opened' "$err"

# Alone, then four nodes with steps that are up to two rounds late.
for nodes in 1 4; do
    try "$tern" run -n $nodes -- "$BUILD/examples/proximal" 2
    check "proximal runs on $nodes" [ "$status" -eq 0 ]
    check "proximal finds what counts on $nodes" grep -q 'among them 20 of the 20 that count' "$out"
done

# A dictionary of two kinds, each with words of its own.
dictionary=$tmp/dictionary
mkdir "$dictionary"
for kind in noun:13:n:fruit verb:38:v:move adj:00:a:having adv:02:r:manner; do
    IFS=: read -r file number letter word <<EOF
$kind
EOF
    awk -v number="$number" -v letter="$letter" -v word="$word" 'BEGIN {
        for (i = 0; i < 200; i++)
            printf "%08d %s %s 01 w%d 0 000 | %s thing number %d; \"an example\"  \n", i, number,
                letter, i, word, i
    }' >"$dictionary/data.$file"
done

try "$logistic" --data "$dictionary" --passes 20 --threads 2 'fruit of the tree'
check 'logistic runs' [ "$status" -eq 0 ]
check 'logistic learns what is plain' grep -q 'it filed 100.0% under the right one' "$out"
check 'logistic answers' grep -q '^    noun.food ([0-9]*% sure)$' "$out"

try "$logistic" --data "$tmp/nowhere"
check 'logistic without its data fails' [ "$status" -eq 1 ]
check 'logistic names the package' grep -q wordnet-base "$err"

try "$logistic" --threads 0
check 'logistic refuses 0 threads' [ "$status" -eq 2 ]
try "$logistic" --help
check 'logistic explains itself' [ "$status" -eq 0 ]

finish
