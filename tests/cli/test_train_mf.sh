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

# rmse FILE - the RMSE of the last epoch.
rmse() {
    sed -n 's/.*"rmse":\([0-9.]*\).*/\1/p' "$1" | tail -1
}

# n_epochs FILE - how many epochs it tells of.
n_epochs() {
    grep -c '^{"epoch":' "$1"
}

# near A B - whether two figures differ by at most 1%.
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && b > 0 && a < 1.01 * b && b < 1.01 * a) }'
}

# So many epochs that training has settled: before, copies that are a whole epoch old show.
train() {
    try "$tern" train mf --data "$data" --epochs 24 --patience 0 --seed 3 --json "$@"
}

train --plain --threads 1
best=$(rmse "$out")
check "plain arrays learn" [ "$status" -eq 0 ]
check "there is a line for each epoch" [ "$(n_epochs "$out")" -eq 24 ]
# The variance of the cells is about 1, the noise, which cannot be predicted, 0.5.
check "most of what can be predicted is" awk -v q="$best" 'BEGIN { exit !(q > 0.5 && q < 0.65) }'
for way in "--threads 1" "--threads 2" "--nodes 2" "--nodes 2 --policy static" \
    "--nodes 2 --policy multi --hot 2" \
    "--nodes 2 --policy adaptive-apart --staleness 100" \
    "--nodes 2 --policy replicate" "--nodes 2 --threads 2 --policy ssp:3" \
    "--threads 2 --policy essp:1" "--nodes 3 --threads 2"; do
    # shellcheck disable=SC2086
    train $way
    check "as good with $way" near "$(rmse "$out")" "$best"
done

# ---- Forms of input ------------------------------------------------------------------------------

sed 's/\t/::/g; s/$/::978300760/' "$data/ratings.tsv" | gzip >"$tmp/movielens.dat.gz"
train --threads 1
wanted=$(rmse "$out")
try "$tern" train mf --data "$tmp/movielens.dat.gz" --epochs 24 --patience 0 --seed 3 --json --threads 1
check "MovieLens' form, compressed, is the same" [ "$(rmse "$out")" = "$wanted" ]
{
    echo "userId,movieId,rating,timestamp"
    sed 's/\t/,/g; s/$/,0\r/' "$data/ratings.tsv"
} >"$tmp/matrix.csv"
try "$tern" train mf --data "$tmp/matrix.csv" --epochs 24 --patience 0 --seed 3 --json --threads 1
check "so is CSV with a heading and CRLF" [ "$(rmse "$out")" = "$wanted" ]
for file in "$tmp/matrix.csv" "$tmp/movielens.dat.gz"; do
    try sh -c 'cat "$0" | "$@"' "$file" "$tern" train mf --data /dev/stdin --epochs 24 --seed 3 \
        --json --threads 1
    check "and ${file##*/} from a pipe" [ "$(rmse "$out")" = "$wanted" ]
done

# ---- Models --------------------------------------------------------------------------------------

model=$tmp/model
train --threads 1 --out "$model" --formats npy,text,binary
files="items.bin items.npy items.txt items.vec items_biases.npy items_sums.npy model.txt \
users.bin users.npy users.txt users.vec users_biases.npy users_sums.npy"
check "a model has these files" [ "$(ls -A "$model" | tr '\n' ' ')" = "$(echo $files) " ]
check "all users are in it" [ "$(wc -l <"$model/users.txt")" -eq 4000 ]
check "with what it is and how it was trained" [ "$(grep -c -e '^task mf$' -e '^rank 32$' -e '^scale [0-9.]*$' \
    -e '^rate 0.1$' -e '^penalty 0\.0[0-9]*$' -e "^data $(realpath "$data")\$" -e '^seed 3$' "$model/model.txt")" -eq 7 ]
saved=$(rmse "$out")
try "$tern" train mf --data "$data" --epochs 25 --seed 3 --json --nodes 2 --resume "$model"
check "training goes on at the next epoch" grep -q '"epoch":25,' "$out"
check "from where it was" near "$(rmse "$out")" "$saved"
mkdir -p "$tmp/apart/0"
cp -r "$model" "$tmp/apart/0/model"
try_apart "$tern" train mf --data "$data" --epochs 25 --seed 3 --json --threads 1 --resume model
check "also where only node 0 has the model" near "$(rmse "$out")" "$saved"
try "$tern" train mf --data "$data" --rank 8 --resume "$model"
check "a model of another rank is refused" grep -q 'has --rank 32' "$err"
cp -r "$model" "$tmp/odd"
sed 's/^epochs .*/epochs -5/' "$model/model.txt" >"$tmp/odd/model.txt"
try "$tern" train mf --data "$data" --resume "$tmp/odd"
check "so is one of -5 epochs" grep -q "model.txt:3: '-5' is not a whole number" "$err"
sed 's/^mean .*/mean nan/' "$model/model.txt" >"$tmp/odd/model.txt"
try "$tern" train mf --data "$data" --resume "$tmp/odd"
check "and one whose mean is no number" grep -q "model.txt:6: 'nan' is not a number" "$err"

try "$tern" train mf --data "$data" --epochs 25 --seed 4 --json --resume "$model"
check "so is another draw of the test" grep -q 'give the --seed 3 and --test-share 0.1 that' "$err"
try "$tern" train mf --data "$data" --epochs 25 --seed 3 --test-share 0.2 --json --resume "$model"
check "and another share" [ "$status,$(wc -l <"$out")" = 1,0 ]
try "$tern" train mf --data "$data" --epochs 25 --seed 4 --test-share 0 --json --resume "$model" \
    --out "$tmp/all"
check "without a test no draw matters" [ "$status,$(n_epochs "$out")" = 0,1 ]
try "$tern" train mf --data "$data" --epochs 26 --seed 4 --json --resume "$tmp/all"
check "a model that knows all ratings cannot be tested by some" grep -q 'has learned from all' "$err"
try "$tern" train mf --data "$data/ratings.tsv,$data/ratings.tsv" --epochs 25 --json --resume "$model"
check "a file to test by is taken" [ "$status,$(n_epochs "$out")" = 0,1 ]
cp -r "$model" "$tmp/older"
sed '/^seed/d; /^test-share/d' "$model/model.txt" >"$tmp/older/model.txt"
try "$tern" train mf --data "$data" --epochs 25 --seed 4 --json --resume "$tmp/older"
check "models that do not tell the draw may go on" [ "$status,$(n_epochs "$out")" = 0,1 ]

# ---- Predictions ---------------------------------------------------------------------------------

# The first rating of the file, and a user who has rated much.
read -r user item rating <"$data/ratings.tsv"
try "$tern" predict mf "$model" "$user" "$item"
check "a rating is predicted" grep -Eq '^-?[0-9]+\.[0-9]{4}$' "$out"
predicted=$(cat "$out")
try "$tern" predict mf "$model" "$user" "$item" --json
check "also in JSON" grep -Eq '^\{"rating":-?[0-9.e-]+\}$' "$out"
try "$tern" predict mf "$model" "$user" '?' --top 1000
check "all items of a user are ranked" [ "$(wc -l <"$out")" -eq 1000 ]
awk '{ print $2 }' "$out" >"$tmp/scores"
check "best first" sort -c -gr "$tmp/scores"
check "each as it is predicted alone" [ "$(awk -v item="$item" '$3 == item { print $2 }' "$out")" = "$predicted" ]
n_rated=$(cut -f 1 "$data/ratings.tsv" | grep -cx "$user")
try "$tern" predict mf "$model" "$user" '?' --top 1000 --data "$data"
check "what is rated in the data is left out" [ "$(wc -l <"$out")" -eq $((1000 - n_rated)) ]
check "this item, for example" [ "$(awk -v item="$item" '$3 == item' "$out" | wc -l)" -eq 0 ]
try "$tern" predict mf "$model" '?' "$item" --top 3 --json
check "users of an item" grep -q '^{"rank":3,"rating":[-0-9.e]*,"name":"[0-9]*"}$' "$out"
try "$tern" predict mf "$model" "${user}x" "$item"
check "near misses are named" grep -q "does not know '${user}x'; did you mean '" "$err"
try "$tern" predict mf "$model" '?' '?'
check "one of the two must be given" [ "$status" -eq 2 ]
try "$tern" predict kge "$model" a b c
check "a model of another task is refused" \
    grep -q "model.txt describes a model of 'tern train mf', not of 'tern train kge'" "$err"
# The test RMSE that training told is that of the predictions.
awk 'BEGIN { srand(5) } rand() < 0.002' "$data/ratings.tsv" >"$tmp/some.tsv"
while read -r user item rating; do
    echo "$("$tern" predict mf "$model" "$user" "$item") $rating"
done <"$tmp/some.tsv" >"$tmp/pairs"
check "predictions are close to ratings" awk '{ e += ($1 - $2) ^ 2 } END { exit !(NR > 300 && sqrt(e / NR) < 0.7) }' "$tmp/pairs"

# ---- Defaults ------------------------------------------------------------------------------------

# Ratings of 1 to 10 of few users each, mostly noise: the best epoch is kept, and training ends soon after it.
awk 'BEGIN {
    srand(3)
    for (u = 0; u < 500; u++)
        for (i = 0; i < 12; i++)
            print "u" u "\ti" int(1500 * rand()) "\t" 1 + int(10 * rand())
}' | sort -u -k 1,2 >"$tmp/ten.tsv"
try "$tern" train mf --data "$tmp/ten.tsv" --epochs 100 --threads 1 --out "$tmp/ten" --json
best=$(sed -n 's/.*"epoch":\([0-9]*\),.*"rmse":\([0-9.]*\).*/\2 \1/p' "$out" | sort -g | head -1)
check "it ends three epochs after the best one" [ "$(n_epochs "$out")" -eq $((${best#* } + 3)) ]
check "which is the one that is kept" grep -qx "epochs ${best#* }" "$tmp/ten/model.txt"
try "$tern" train mf --data "$tmp/ten.tsv" --epochs 100 --threads 1
check "it says so" grep -q '^ended early: no better for 3 evaluations (--patience)$' "$err"
check "and which was the best" grep -q "^best: epoch ${best#* }, RMSE " "$err"
check "and at the start that nothing is kept" \
    [ "$(head -1 "$err")" = 'there is no --out DIR: the model will not be kept' ]
# On a scale that is ten times as wide, all is ten times as large.
awk '{ print $1 "\t" $2 "\t" 10 * $3 }' "$tmp/ten.tsv" >"$tmp/hundred.tsv"
try "$tern" train mf --data "$tmp/hundred.tsv" --epochs 100 --threads 1 --json
check "the scale of ratings does not matter" awk -v a="${best% *}" -v b="$(
    sed -n 's/.*"rmse":\([0-9.]*\).*/\1/p' "$out" | sort -g | head -1)" \
    'BEGIN { exit !(b > 9.99 * a && b < 10.01 * a) }'

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
try "$tern" train mf --data "$tmp/bad.csv" --staleness 100 --policy static
check '--staleness without replicas is a mistake' [ "$status" -eq 2 ]
try "$tern" train mf --data "$tmp/bad.csv" --hot 2
check '--hot without --policy multi is a mistake' [ "$status" -eq 2 ]
try "$tern" train mf --data "$tmp/bad.csv" --nodes 2
check "of several nodes one says so" [ "$(grep -c 'bad.csv:2:' "$err")" -eq 1 ]
printf '1,2,3\n1,4\r,3\n' >"$tmp/return.csv"
try "$tern" train mf --data "$tmp/return.csv"
check "a name that ends in CR is refused" \
    grep -q 'return.csv:2: the name of the item has a carriage return' "$err"
printf '1,2,3\n' >"$tmp/train.csv"
printf '1,9,3\n' >"$tmp/test.csv"
try "$tern" train mf --data "$tmp/train.csv,$tmp/test.csv"
check "an unknown item of the test is added" [ "$status" -eq 0 ]
check "and that is said in one line" \
    grep -q '^--unknown add: 0 users, 1 items (1 ratings) are not in train$' "$err"
printf '1,2,3\n' >>"$tmp/test.csv"
try "$tern" train mf --data "$tmp/train.csv,$tmp/test.csv" --unknown skip
check "its rating may be skipped" \
    grep -q '^--unknown skip: left out 1 ratings of users or items that are not in train$' "$err"
try "$tern" train mf --data "$tmp/train.csv,$tmp/test.csv" --unknown refuse
check "or refused" grep -q "test.csv:1: item '9' does not occur" "$err"
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
unlike "and different choices" 'node 1 has --unknown skip, but node 0 has --unknown add' \
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
    soon [ -s "$tmp/.ended.new/ratings.tsv" ]
    kill -s $signal "$maker"
    wait "$maker"
    check "SIG$signal leaves nothing half-written" [ ! -e "$tmp/ended" ]
    check "nor a temporary folder" [ ! -e "$tmp/.ended.new" ]
done

finish
