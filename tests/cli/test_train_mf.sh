#!/usr/bin/env bash
# `tern train mf` and `tern data zipf-matrix`: a matrix with hidden factors is made, its factors are
# found in every way of running, and what goes wrong is said in a sentence.
. "$(dirname "$0")/lib.sh"

data=$tmp/matrix
try "$tern" data zipf-matrix "$data" --rows 4000 --columns 1000 --cells 300000 --noise 0.5
check "the matrix is made" [ "$status" -eq 0 ]
check "it has the cells that were asked for" [ "$(wc -l <"$data/ratings.tsv")" -eq 300000 ]
check "no cell is there twice" [ "$(cut -f1,2 "$data/ratings.tsv" | sort -u | wc -l)" -eq 300000 ]
try timeout 120 "$tern" data zipf-matrix "$tmp/steep" --rows 1000 --columns 1000 --cells 100000 --skew 3
check "a steep law comes to an end" [ "$status" -eq 0 ]
check "with all its cells, none twice" [ "$(cut -f1,2 "$tmp/steep/ratings.tsv" | sort -u | wc -l)" -eq 100000 ]
try "$tern" data zipf-matrix "$data" --rows 10 --columns 10 --cells 60
check "more cells than there can be are refused" grep -q 'more than half of the 10 x 10' "$err"
check "and what was there stays" [ "$(wc -l <"$data/ratings.tsv")" -eq 300000 ]

# ---- Training in all ways ------------------------------------------------------------------------

# quality FILE - the quality of the last epoch.
quality() {
    sed -n 's/.*"quality":\([0-9.]*\).*/\1/p' "$1" | tail -1
}

# near A B - whether two figures differ by at most 1%.
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && b > 0 && a < 1.01 * b && b < 1.01 * a) }'
}

# So many epochs that training has settled: before, copies that are a whole epoch old show.
train() {
    try "$tern" train mf --data "$data" --epochs 24 --seed 3 --json "$@"
}

train --plain --threads 1
best=$(quality "$out")
check "plain arrays learn" [ "$status" -eq 0 ]
check "there is a line for each epoch" [ "$(wc -l <"$out")" -eq 24 ]
# The variance of the cells is about 1, the noise, which cannot be predicted, 0.5.
check "most of what can be predicted is" awk -v q="$best" 'BEGIN { exit !(q > 0.5 && q < 0.65) }'
for way in "--threads 1" "--threads 2" "--nodes 2" "--nodes 2 --policy static" \
    "--nodes 2 --policy replicate" "--nodes 2 --threads 2 --policy ssp:3" \
    "--threads 2 --policy essp:1" "--nodes 3 --threads 2"; do
    # shellcheck disable=SC2086
    train $way
    check "as good with $way" near "$(quality "$out")" "$best"
done

# ---- Forms of input ------------------------------------------------------------------------------

sed 's/\t/::/g; s/$/::978300760/' "$data/ratings.tsv" | gzip >"$tmp/movielens.dat.gz"
train --threads 1
wanted=$(quality "$out")
try "$tern" train mf --data "$tmp/movielens.dat.gz" --epochs 24 --seed 3 --json --threads 1
check "MovieLens' form, compressed, is the same" [ "$(quality "$out")" = "$wanted" ]
{
    echo "userId,movieId,rating,timestamp"
    sed 's/\t/,/g; s/$/,0\r/' "$data/ratings.tsv"
} >"$tmp/matrix.csv"
try "$tern" train mf --data "$tmp/matrix.csv" --epochs 24 --seed 3 --json --threads 1
check "so is CSV with a heading and CRLF" [ "$(quality "$out")" = "$wanted" ]
for file in "$tmp/matrix.csv" "$tmp/movielens.dat.gz"; do
    try sh -c 'cat "$0" | "$@"' "$file" "$tern" train mf --data /dev/stdin --epochs 24 --seed 3 \
        --json --threads 1
    check "and ${file##*/} from a pipe" [ "$(quality "$out")" = "$wanted" ]
done

# ---- Models --------------------------------------------------------------------------------------

model=$tmp/model
train --threads 1 --out "$model" --formats npy,text,binary
files="items.bin items.npy items.txt items.vec items_biases.npy items_sums.npy model.txt \
users.bin users.npy users.txt users.vec users_biases.npy users_sums.npy"
check "a model has these files" [ "$(ls -A "$model" | tr '\n' ' ')" = "$(echo $files) " ]
check "all users are in it" [ "$(wc -l <"$model/users.txt")" -eq 4000 ]
check "with rank and mean" grep -q '^rank 32$' "$model/model.txt"
saved=$(quality "$out")
try "$tern" train mf --data "$data" --epochs 25 --seed 3 --json --nodes 2 --resume "$model"
check "training goes on at the next epoch" grep -q '"epoch":25,' "$out"
check "from where it was" near "$(quality "$out")" "$saved"
mkdir -p "$tmp/apart/0"
cp -r "$model" "$tmp/apart/0/model"
try_apart "$tern" train mf --data "$data" --epochs 25 --seed 3 --json --threads 1 --resume model
check "also where only node 0 has the model" near "$(quality "$out")" "$saved"
try "$tern" train mf --data "$data" --rank 8 --resume "$model"
check "a model of another rank is refused" grep -q 'has --rank 32' "$err"
cp -r "$model" "$tmp/odd"
sed 's/^epochs .*/epochs -5/' "$model/model.txt" >"$tmp/odd/model.txt"
try "$tern" train mf --data "$data" --resume "$tmp/odd"
check "so is one of -5 epochs" grep -q "model.txt:2: '-5' is not a whole number" "$err"
sed 's/^mean .*/mean nan/' "$model/model.txt" >"$tmp/odd/model.txt"
try "$tern" train mf --data "$data" --resume "$tmp/odd"
check "and one whose mean is no number" grep -q "model.txt:5: 'nan' is not a number" "$err"

try "$tern" train mf --data "$data" --epochs 25 --seed 4 --json --resume "$model"
check "so is another draw of the test" grep -q 'give the --seed 3 and --test-share 0.1 that' "$err"
try "$tern" train mf --data "$data" --epochs 25 --seed 3 --test-share 0.2 --json --resume "$model"
check "and another share" [ "$status,$(wc -l <"$out")" = 1,0 ]
try "$tern" train mf --data "$data" --epochs 25 --seed 4 --test-share 0 --json --resume "$model" \
    --out "$tmp/all"
check "without a test no draw matters" [ "$status,$(wc -l <"$out")" = 0,1 ]
try "$tern" train mf --data "$data" --epochs 26 --seed 4 --json --resume "$tmp/all"
check "a model that knows all ratings cannot be tested by some" grep -q 'has learned from all' "$err"
try "$tern" train mf --data "$data/ratings.tsv,$data/ratings.tsv" --epochs 25 --json --resume "$model"
check "a file to test by is taken" [ "$status,$(wc -l <"$out")" = 0,1 ]
cp -r "$model" "$tmp/older"
sed '/^seed/d; /^test-share/d' "$model/model.txt" >"$tmp/older/model.txt"
try "$tern" train mf --data "$data" --epochs 25 --seed 4 --json --resume "$tmp/older"
check "models that do not tell the draw may go on" [ "$status,$(wc -l <"$out")" = 0,1 ]

# ---- Failures ------------------------------------------------------------------------------------

printf '1,2,3\n1,3,four\n' >"$tmp/bad.csv"
try "$tern" train mf --data "$tmp/bad.csv" --out "$tmp/none"
check "a bad line ends it" [ "$status" -eq 1 ]
check "with file and line" grep -q "bad.csv:2: 'four' is not a number" "$err"
check "and leaves nothing behind" [ ! -e "$tmp/none" ]
printf '1,2,1e300\n' >"$tmp/large.csv"
try "$tern" train mf --data "$tmp/large.csv"
check "a rating that is too large is refused, be it in the first line" \
    grep -q "large.csv:1: '1e300' is too large" "$err"
for nodes in 1 2; do
    try "$tern" train mf --data "$tmp/no-such-file" --nodes $nodes --policy nonsense
    check "a policy that there is not is a mistake ($nodes)" [ "$status" -eq 2 ]
    check "and is said once, before data are looked at ($nodes)" \
        [ "$(grep -c "no policy 'nonsense'" "$err"),$(grep -c no-such-file "$err")" = 1,0 ]
done
try "$tern" train mf --data "$tmp/bad.csv" --nodes 2
check "of several nodes one says so" [ "$(grep -c 'bad.csv:2:' "$err")" -eq 1 ]
printf '1,2,3\n1,4\r,3\n' >"$tmp/return.csv"
try "$tern" train mf --data "$tmp/return.csv"
check "a name that ends in CR is refused" \
    grep -q 'return.csv:2: the name of the item has a carriage return' "$err"
printf '1,2,3\n' >"$tmp/train.csv"
printf '1,9,3\n' >"$tmp/test.csv"
try "$tern" train mf --data "$tmp/train.csv,$tmp/test.csv"
check "an unknown item of the test is named" grep -q "test.csv:1: item '9' does not occur" "$err"
try "$tern" train mf --data "$tmp/train.csv,$tmp/test.csv" --unknown add
check "and taken if wanted" [ "$status" -eq 0 ]
printf '1,1,1\n1,2,1e30\n2,1,1\n' >"$tmp/huge.csv"
try "$tern" train mf --data "$tmp/huge.csv" --test-share 0
check "a loss that explodes is reported" grep -q 'is not a finite number' "$err"
try "$tern" train mf --data "$tmp/nowhere"
check "a missing file is named" grep -q "$tmp/nowhere" "$err"
# unlike NAME SENTENCE OPTION... - two nodes are refused whose options differ; $TERN_NODE is their number.
unlike() {
    unlike_name=$1 sentence=$2
    shift 2
    try timeout 60 "$tern" run -n 2 --no-prefix -- \
        sh -c "exec \"\$0\" train mf --data \"\$1\" --epochs 2 $*" "$tern" "$tmp/train.csv"
    check "$unlike_name" [ "$(grep -cF -- "$sentence" "$err"),$status" = 1,1 ]
}
unlike "different threads are refused" \
    'node 1 has --threads 2, but node 0 has --threads 1: the default is the cores of the host' \
    '--threads $((1 + TERN_NODE))'
unlike "so are different epochs" 'node 1 has --epochs 5, but node 0 has --epochs 4' \
    '--threads 1 --epochs $((4 + TERN_NODE))'
unlike "and steps of different sizes" 'node 1 has --rate 0.2, but node 0 has --rate 0.1' \
    '--threads 1 --rate 0.$((1 + TERN_NODE))'
unlike "and different choices" 'node 1 has --unknown skip, but node 0 has --unknown refuse' \
    '--threads 1 $([ $TERN_NODE = 0 ] || echo --unknown skip)'
unlike "and a model that only one node is to write" 'node 1 was given --out, but node 0 was not' \
    '--threads 1 $([ $TERN_NODE = 0 ] || echo --out none)'
sed '$s/^[^,]*/other/' "$tmp/train.csv" >"$tmp/other.csv"
unlike "and other data, of the same size" 'node 1 has read other data than node 0' \
    '--threads 1 $([ $TERN_NODE = 0 ] || echo --data "$(dirname "$1")/other.csv")'
unlike "and a file that only one node has" 'cannot open ' \
    '--threads 1 $([ $TERN_NODE = 0 ] || echo --data none.csv)'
try "$tern" train mf
check "without data there is nothing to do" [ "$status" -eq 2 ]

# A signal ends the program with its unfinished files, and the folder if it was made for them.
for signal in TERM INT HUP; do
    env --default-signal=INT "$tern" data zipf-matrix "$tmp/ended" >"$out" 2>"$err" &
    maker=$!
    soon [ -s "$tmp/ended/.ratings.tsv.new" ]
    kill -s $signal "$maker"
    wait "$maker"
    check "SIG$signal leaves nothing half-written" [ ! -e "$tmp/ended" ]
done

finish
