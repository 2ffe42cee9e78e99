# test_train_kge.sh - tern train kge, tern predict kge and tern data wordnet: what they learn, write and
# answer, and what they say when something is wrong.
. "$(dirname "$0")/lib.sh"

# A graph of 200 pairs of twins. Every pair is there in one direction; of half of them the other
# direction is to be learned, of the other half it is asked for.
graph=$tmp/graph
mkdir "$graph"
awk -v folder="$graph" 'BEGIN {
    for (i = 0; i < 200; i++) {
        printf "a%d\ttwin\tb%d\n", i, i >(folder "/train.txt")
        printf "a%d\tcolour\tc%d\n", i, i % 7 >(folder "/train.txt")
        printf "b%d\ttwin\ta%d\n", i, i >(folder (i < 100 ? "/train.txt" : i < 150 ? "/valid.txt" : "/test.txt"))
    }
}'

train() {
    try "$tern" train kge --data "$graph" --dim 32 --batch 64 --negatives 32 --epochs 30 \
        --eval-every 10 --rate 0.3 --penalty 0.02 --relation-penalty 0.02 "$@"
}

# The quality that was printed is at least $1.
is_good() {
    [ "$status" -eq 0 ] &&
        awk -v least="$1" '/^test: MRR/ { n++; good = $3 + 0 >= least } END { exit !(n == 1 && good) }' "$out"
}

says() {
    [ "$status" -eq 1 ] && [ "$(grep -cF -- "$1" "$err")" -eq 1 ]
}

# ---- Learning ------------------------------------------------------------------------------------

train --threads 2 --out "$tmp/model" --formats npy,text,binary
check 'learns what is plain' is_good 0.5
check 'says how large the graph is' \
    [ "$(grep -c -e '^407 entities, 2 relations$' -e '^triples: 500 training, 50 validation, 50 test$' "$err")" -eq 2 ]
check 'a row per epoch' [ "$(grep -c '^ *[0-9]*/30 ' "$err")" -eq 30 ]
check 'under a heading' \
    grep -q '^ *epoch  seconds *triples/s *loss *MRR *Hits@1 *Hits@3 *Hits@10$' "$err"
check 'evaluates when told' [ "$(grep -c '/30 .*[01]\.[0-9]*$' "$err")" -eq 3 ]
check 'no line is longer than 79 characters' [ "$(grep -v "$tmp" "$err" | awk 'length > 79' | wc -l)" -eq 0 ]
check 'the model says how it was trained' [ "$(grep -c -e '^task kge$' -e '^rate 0.3$' -e '^loss softmax$' \
    -e '^seed 1$' -e "^data $(realpath "$graph")\$" -e '^version [0-9.]*$' -e '^penalty 0.02$' "$tmp/model/model.txt")" -eq 7 ]
check 'each name once' [ -z "$(cut -d ' ' -f 1 "$tmp/model/model.txt" | sort | uniq -d)" ]
check 'writes the names' [ "$(wc -l <"$tmp/model/entities.txt")" -eq 407 ]
check 'writes the vectors' [ "$(wc -c <"$tmp/model/entities.npy")" -eq $((128 + 407 * 32 * 4)) ]
check 'writes the text format' grep -q '^407 32$' "$tmp/model/entities.vec"
check 'writes the binary format' [ -s "$tmp/model/relations.bin" ]
check 'leaves nothing else' [ "$(ls -A "$tmp/model" | wc -l)" -eq 11 ]

train --plain --threads 2
check 'learns in plain arrays' is_good 0.5
train --threads 1 --model distmult --loss logistic --power 2 --epochs 60
check 'learns with DistMult and log-loss' is_good 0.3
train --threads 1 --model rescal --dim 16 --out "$tmp/rescal"
check 'learns with RESCAL' is_good 0.3
check 'its relations are matrices' \
    [ "$(wc -c <"$tmp/rescal/relations.npy")" -eq $((128 + 2 * 16 * 16 * 4)) ]
try "$tern" predict kge "$tmp/rescal" a3 colour '?' --top 1
check 'and it answers' grep -q ' c3$' "$out"
train --nodes 2 --threads 1 --model rescal --dim 16 --resume "$tmp/rescal" --epochs 31
check 'and goes on, on two nodes' is_good 0.3
train --model rescal --dim 2000
check 'refuses matrices that are too large' says '--dim can be 1024 at most for rescal'
for policy in static replicate relocate adaptive; do
    train --nodes 2 --threads 1 --policy $policy
    check "learns on two nodes, $policy" is_good 0.5
done
try "$tern" run -n 2 --no-prefix -- "$tern" train kge --data "$graph" --dim 32 --epochs 1 --nodes 2
check 'joins the nodes of a launcher' grep -q '; 2 nodes with' "$err"
try "$tern" run -n 2 --no-prefix -- "$tern" train kge --data "$graph" --dim 32 --epochs 1 --nodes 3
check 'refuses a launcher with another number of nodes' \
    says '--nodes 3 was given to a process that a launcher has started as one of 2'
try env SLURM_STEP_ID=0 "$tern" train kge --data "$graph" --epochs 1 --nodes 2
check 'also one that has started one process' says 'a launcher has started as one of 1'
train --nodes 3 --threads 2 --divide near
check 'learns on three nodes that have triples with entities in common' is_good 0.5
for sampling in bounded long-term non-conform; do
    train --nodes 2 --threads 1 --sampling $sampling --epochs 2
    check "runs with sampling $sampling" [ "$status" -eq 0 ]
done

train --json --epochs 2
json_line='^{"epoch":2,"seconds":[0-9.]*,"cpu_seconds":[0-9.]*,"examples":[0-9]*,"loss":[0-9.]*,"mrr":[0-9.]*,"hits_1":[0-9.]*,"hits_3":[0-9.]*,"hits_10":[0-9.]*,"accesses":[0-9]*,"remote_share":[0-9.]*,"bytes":[0-9]*,"request_bytes":[0-9]*,"reply_bytes":[0-9]*,"memory_bytes":[0-9]*,"staleness_ms_mean":[0-9.]*,"waited":\[[0-9.,]*\]}$'
check 'a JSON line per epoch' grep -q "$json_line" "$out"
check 'a measure is null where it was not made' grep -q '^{"epoch":1,.*"mrr":null,"hits_1":null' "$out"
check 'the first line has version, seed and options' sh -c 'head -1 "$1" | grep -q "$2"' - "$out" \
    '^{"task":"kge","version":"[0-9.]*","seed":1,"nodes":1,"threads":[0-9]*,"measure":"mrr","options":{"data":".*graph","model":"complex","dim":32,.*"json":true,"out":null,.*}}$'
check 'the last one has the test' grep -q '^{"test":{"mrr":[0-9.]*,"hits_1":.*,"hits_10":[0-9.]*}}$' "$out"
check 'all lines are JSON' sh -c 'command -v python3 >/dev/null || exit 0
    python3 -c "import json, sys; [json.loads(line) for line in sys.stdin]" <"$1"' - "$out"
check 'nothing but JSON on standard output' [ "$(grep -cv '^{.*}$' "$out")" -eq 0 ]

train --time-limit 0.5 --epochs 1000000 --eval-every 1000000
check 'ends when the time is over' is_good 0.01
train --patience 2 --epochs 1000000 --eval-every 1
check 'ends when nothing improves' is_good 0.5

# ---- Formats -------------------------------------------------------------------------------------

packed=$tmp/packed
mkdir "$packed"
sed 's/$/\r/' "$graph/train.txt" >"$packed/train.tsv"
gzip -c "$graph/valid.txt" >"$packed/valid.txt.gz"
cp "$graph/test.txt" "$packed/test.txt"
train --data "$packed" --epochs 1
check 'CRLF and gzip make no difference' grep -q '^triples: 500 training, 50 validation, 50 test$' "$err"
if command -v zstd >/dev/null; then
    zstd -q "$packed/test.txt" -o "$packed/test.zst" && rm "$packed/test.txt"
    train --data "$packed" --epochs 1
    check 'nor does zstd' grep -q '^triples: 500 training, 50 validation, 50 test$' "$err"
fi
# piped FILE OPTION... - trains on what comes through a pipe.
piped() {
    file=$1
    shift
    try sh -c 'cat "$0" | "$@"' "$file" "$tern" train kge --data /dev/stdin --dim 8 \
        --negatives 4 --epochs 1 "$@"
}
gzip -c "$graph/train.txt" >"$tmp/facts.gz"
for file in "$graph/train.txt" "$tmp/facts.gz" "$packed/test.zst"; do
    [ -e "$file" ] || continue
    piped "$file"
    check "reads ${file##*/} from a pipe" [ "$status" -eq 0 ]
    check "and all of it" grep -q "$([ "${file##*.}" = zst ] && echo 50 || echo 500) training" "$err"
done
piped "$graph/train.txt" --nodes 2
check 'but not for several nodes' says '/dev/stdin is a pipe'
train --data "$graph/train.txt,$graph/valid.txt" --epochs 1
check 'takes files' grep -q '500 training, 50 validation, 0 test' "$err"

try "$tern" train kge --data "$graph" --dim 8 --epochs 0 --out "$tmp/untrained"
check 'what is not to be trained is measured' grep -q '^ended after epoch 0: MRR 0\.' "$err"
check 'and written' grep -q '^epochs 0$' "$tmp/untrained/model.txt"

# ---- Going on ------------------------------------------------------------------------------------

train --epochs 5 --out "$tmp/first" --eval-every 5
train --epochs 7 --resume "$tmp/first"
check 'goes on where it ended' grep -q '^ *6/7 ' "$err"
check 'and not from the beginning' [ "$(grep -c '^ *[0-9]*/7 ' "$err")" -eq 2 ]
train --nodes 2 --threads 1 --epochs 7 --resume "$tmp/first"
check 'goes on with two nodes' [ "$status" -eq 0 ]
train --dim 16 --resume "$tmp/first"
check 'refuses a model of another shape' says '--dim 32'
train --epochs 5 --resume "$tmp/first"
said="the model in $tmp/first has seen 5 epochs already, so there are none left of --epochs 5;"
check 'says when there is nothing left to do' grep -qF "$said" "$err"
first=$(cat "$out")
train --epochs 1 --dim 32 --out "$tmp/another"
train --epochs 5 --resume "$tmp/first" --out "$tmp/another"
check 'does not replace the model of another run' \
    says "there is a model in $tmp/another already: go on with it (--resume $tmp/another), replace it (--overwrite)"
check 'which stays as it was' grep -q '^epochs 1$' "$tmp/another/model.txt"
train --epochs 1 --out "$tmp/another"
check 'neither when it begins anew' says "there is a model in $tmp/another already"
train --epochs 1 --nodes 2 --threads 1 --out "$tmp/another"
check 'on two nodes it is said once' says "there is a model in $tmp/another already"
train --epochs 5 --resume "$tmp/first" --out "$tmp/another" --overwrite
check 'and tests the model that it resumed, not what another run wrote' [ "$(cat "$out")" = "$first" ]
train --epochs 5 --resume "$tmp/first" --out "$tmp/new"
check 'nor what nobody wrote' [ "$status,$(cat "$out")" = "0,$first" ]
train --epochs 5 --resume "$tmp/first" --json
check 'but not in JSON' [ "$status,$(cat "$err")" = 0, ]
sed 's/a7/other/' "$graph/train.txt" >"$tmp/other.txt"
train --data "$tmp/other.txt" --resume "$tmp/first"
check 'refuses a model of another graph' says 'entities.txt:'
train --epochs 8 --eval-every 1 --rate 500 --resume "$tmp/first" --out "$tmp/best"
check 'measures what it resumes' [ "$(grep -c '^resumed after epoch 5: MRR [01]\.' "$err")" -eq 1 ]
check 'a worse model does not take its place' grep -q '^epochs 5$' "$tmp/best/model.txt"
check 'and it is tested' [ "$(cat "$out")" = "$first" ]
train --epochs 8 --rate 500 --json --resume "$tmp/first"
check 'JSON tells of epochs alone' \
    [ "$(cut -c 1-10 "$out" | tr '\n' ' ')" = '{"task":"k {"epoch":6 {"epoch":7 {"epoch":8 {"test":{" ' ]
train --data "$graph/train.txt" --epochs 2 --out "$tmp/unmeasured"
train --data "$graph/train.txt" --epochs 3 --resume "$tmp/unmeasured" --out "$tmp/unmeasured"
check 'what is not measured is written in the end' grep -q '^epochs 3$' "$tmp/unmeasured/model.txt"
try_apart "$tern" train kge --data "$graph" --dim 32 --epochs 2 --threads 1 --out model
check 'hosts need not share a folder to test the model that was written' grep -q '^test: MRR' "$out"
try_apart "$tern" train kge --data "$graph" --dim 32 --epochs 3 --threads 1 --resume model
check 'nor to go on' grep -q '^ *3/3 ' "$err"
check 'only node 0 has a model' [ ! -e "$tmp/apart/1/model" ]
for epochs in -5 99999999999999999999; do
    sed "s/^epochs .*/epochs $epochs/" "$tmp/first/model.txt" >"$tmp/facts"
    cp -r "$tmp/first" "$tmp/odd" && cp "$tmp/facts" "$tmp/odd/model.txt"
    train --resume "$tmp/odd"
    check "refuses a model of $epochs epochs" says "model.txt:4: '$epochs' is not a whole number"
    rm -r "$tmp/odd"
done
truncate -s 1000 "$tmp/first/entities.npy"
train --resume "$tmp/first"
check 'refuses a model that was cut off' says 'entities.npy ends before'

# ---- The bar ---------------------------------------------------------------------------------------

# Two nodes on a terminal. Steps of one triple and many negatives make the epoch long, and many questions the evaluation.
if command -v script >/dev/null; then
    mkdir "$tmp/chain"
    awk -v folder="$tmp/chain" 'BEGIN {
        for (i = 0; i < 20000; i++)
            printf "e%d\tnext\te%d\n", i, i + 1 >(folder (i % 14 == 0 ? "/valid.txt" : "/train.txt"))
    }'
    on_terminal() {
        try timeout 300 script -qec "stty cols 80; exec $tern train kge --nodes 2 --threads 1 --epochs 1 $*" /dev/null
        tr '\r' '\n' <"$out" | sed 's/\x1b\[K//g' >"$tmp/shown"
    }
    on_terminal --data "$graph/train.txt" --dim 64 --batch 1 --negatives 5000
    check 'the bar tells the rate and the time that is left' \
        grep -Eq '^epoch 1/1 \[#* *\] +[0-9]+%  [0-9]+ triples/s  loss [0-9.]+  [0-9].* left$' "$tmp/shown"
    on_terminal --data "$tmp/chain" --dim 256 --batch 20000 --negatives 1
    check 'evaluation shows one as well' grep -Eq '^evaluating \[#* *\] +[0-9]+%  [0-9]+ entities/s$' "$tmp/shown"
    check 'neither is wider than the terminal' [ "$(awk 'length > 79' "$tmp/shown" | wc -l)" -eq 0 ]
fi

# ---- Interrupted -----------------------------------------------------------------------------------

# interrupted OPTION... - Ctrl-C as soon as there is a model, or a row if there is no --out; $status, $err.
interrupted() {
    env --default-signal=INT setsid "$tern" train kge --data "$graph" --dim 32 --epochs 1000000 \
        --threads 1 "$@" >"$out" 2>"$err" &
    trainer=$!
    case "$*" in
    *--out*) soon [ -e "$tmp/ended/model.txt" ] ;;
    *) soon grep -q '^ *1/1000000 ' "$err" ;;
    esac
    kill -s INT -- -$trainer
    wait $trainer
    status=$?
}

for nodes in 1 2; do
    rm -rf "$tmp/ended"
    interrupted --nodes $nodes --out "$tmp/ended"
    check "Ctrl-C ends it ($nodes)" [ "$status" -ne 0 ]
    check "it says what was saved ($nodes)" \
        [ "$(grep -c "^tern: interrupted; the model after epoch [0-9]* is in $tmp/ended$" "$err")" -eq 1 ]
    check "and how to go on ($nodes)" \
        grep -q "^To go on from there, give the same command with --resume $tmp/ended$" "$err"
    check "leaves no temporary folder ($nodes)" [ ! -e "$tmp/.ended.new" ]
    saved=$(sed -n 's/^epochs //p' "$tmp/ended/model.txt")
    try "$tern" train kge --data "$graph" --dim 32 --epochs $((saved + 1)) --threads 1 \
        --out "$tmp/ended" --resume "$tmp/ended"
    check "so it goes on ($nodes)" grep -q "^ *$((saved + 1))/$((saved + 1)) " "$err"
done
interrupted
check 'without --out it says that nothing was saved' \
    grep -q '^tern: interrupted; nothing was saved: there is no --out$' "$err"

# ---- Answers -------------------------------------------------------------------------------------

try "$tern" predict kge "$tmp/model" a3 twin '?' --top 2 --data "$graph"
check 'predicts the object' grep -q '^   1 .* b3  (known)$' "$out"
check 'as many answers as wanted' [ "$(wc -l <"$out")" -eq 2 ]
try "$tern" predict kge "$tmp/model" b170 twin '?' --top 1000 --data "$graph"
check 'what is to be tested is not known' [ "$(grep -c '(known)' "$out")" -eq 0 ]
try "$tern" predict kge "$tmp/model" b170 twin '?' --top 1000 \
    --data "$graph/train.txt,$graph/valid.txt,$graph/test.txt"
check 'nor from a list of files' [ "$(grep -c '(known)' "$out")" -eq 0 ]
try "$tern" predict kge "$tmp/model" b70 twin '?' --top 1000 --data "$graph"
check 'what was learned is' [ "$(grep '(known)' "$out" | awk '{ print $3 }')" = a70 ]
try "$tern" predict kge "$tmp/model" a3 twin b3
check 'a whole triple has a score' grep -q '^score [0-9.]*$' "$out"
score=$(sed -n 's/^score //p' "$out")
check 'and ranks' grep -q '^as subject it ranks 1 of 407, as object 1$' "$out"
try "$tern" predict kge "$tmp/model" a3 twin '?' --top 1
check 'the score is that of the answer' [ "$(awk '{ print $2 }' "$out")" = "$score" ]
try "$tern" predict kge "$tmp/model" a3 twin b4 --json --data "$graph"
check 'a wrong one ranks lower, in JSON' \
    grep -q '^{"score":-*[0-9.]*,"subject_rank":[0-9.]*,"object_rank":[1-9][0-9.]*,"entities":407,"known":false}$' "$out"
try "$tern" predict kge "$tmp/model" a3 twin b3 --data "$graph"
check 'one of the training is marked' grep -q '^score [0-9.]*  (known)$' "$out"
try "$tern" predict kge "$tmp/model" a3 twim b3
check 'near misses are named' says "does not know 'twim'; did you mean 'twin'? Its relations are listed in"
try "$tern" nearest "$tmp/model" a3 --top 2
check 'entities have neighbours' [ "$(wc -l <"$out")" -eq 2 ]
try "$tern" predict kge "$tmp/model" '?' twin a3 --json --top 1
check 'predicts the subject, in JSON' grep -q '^{"rank":1,"score":[0-9.]*,"name":"b3"}$' "$out"
printf '%s\ttwin\t%s\n' -1 --help --help -1 >"$tmp/dashes.txt"
try "$tern" train kge --data "$tmp/dashes.txt" --dim 4 --negatives 2 --epochs 1 --out "$tmp/dashes"
try "$tern" predict kge --top 2 -- "$tmp/dashes" -1 twin '?'
check 'predicts names that look like options' [ "$(grep -c -e ' --help$' -e ' -1$' "$out")" -eq 2 ]
printf 'caf\351\ttwin\tcaf\303\251\n"\001\355\240\200\ttwin\t\342\202\254\n' >"$tmp/bytes.txt"
try "$tern" train kge --data "$tmp/bytes.txt" --dim 4 --negatives 2 --epochs 1 --out "$tmp/bytes"
try "$tern" predict kge "$tmp/bytes" '?' twin '€' --json
check 'JSON is UTF-8, whatever the names are' [ "$(sed 's/.*"name"://' "$out" | LC_ALL=C sort | tr '\n' ' ')" = \
    '"\"\u0001\ufffd\ufffd\ufffd"} "caf\ufffd"} "café"} "€"} ' ]
try "$tern" train kge --data "$tmp/bytes.txt" --model distmult --dim 4 --spread 1e13 --epochs 0 --out "$tmp/infinite"
try "$tern" predict kge "$tmp/infinite" '?' twin '€' --json
check 'a score that is infinite' says 'the score is not a finite number'
try "$tern" predict kge "$tmp/model" nobody twin '?'
check 'an unknown name' says "does not know 'nobody'"
try "$tern" predict kge "$tmp/model" a3 friend '?'
check 'an unknown relation' says "does not know 'friend'"
try "$tern" predict kge "$tmp/nowhere" a3 twin '?'
check 'a model that is not there' says "$tmp/nowhere/model.txt"
try "$tern" predict kge "$tmp/model" a3 twin
check 'too few words' [ "$status" -eq 2 ]
try "$tern" predict kge "$tmp/model" '?' twin '?'
check 'nothing is given' [ "$status" -eq 2 ]

# ---- What is wrong -------------------------------------------------------------------------------

wrong=$tmp/wrong
mkdir "$wrong"
put() {
    rm -rf "$wrong" && mkdir "$wrong" && cp "$graph/train.txt" "$wrong"
    printf "$2" >>"$wrong/$1"
}

put train.txt 'a1\ttwin\n'
train --data "$wrong" --out "$tmp/none"
check 'a line with too few names' says "$wrong/train.txt:501: "
check 'leaves no folder behind' [ ! -e "$tmp/none" ]
put train.txt 'a1\t\tb1\n'
train --data "$wrong"
check 'an empty name' says "$wrong/train.txt:501: field 2"
put train.txt 'a\000b\ttwin\tc\n'
train --data "$wrong"
check 'a NUL character' says "$wrong/train.txt:501: "
put train.txt 'a1\ttwin\tb1\r\r\n'
train --data "$wrong" --out "$tmp/none"
check 'a name that ends in CR' says "$wrong/train.txt:501: field 3 of the triple has a carriage return"
check 'is not written' [ ! -e "$tmp/none" ]
put valid.txt 'a1\ttwin\tb2\na1\ttwin\tstranger\n'
train --data "$wrong" --epochs 1
check 'an unknown name in valid is added' grep -q '^408 entities' "$err"
check 'and that is said in one line' \
    grep -q '^--unknown add: 1 entities, 0 relations (1 triples) are not in train$' "$err"
train --data "$wrong" --epochs 1 --unknown skip
check 'its triple may be skipped' \
    grep -q '^--unknown skip: left out 1 triples with names that are not in train$' "$err"
train --data "$wrong" --epochs 1 --unknown refuse
check 'or refused' says "$wrong/valid.txt:2: 'stranger'"
train --data "$wrong" --epochs 1 --nodes 2 --unknown refuse
check 'two nodes say it once' says "$wrong/valid.txt:2: 'stranger'"
put test.txt ''
train --data "$wrong"
check 'an empty file' says "$wrong/test.txt is empty"
train --data "$tmp/nowhere"
check 'no such file' says "$tmp/nowhere: No such file"
train --data "$tmp"
check 'a folder without facts' says "there is no file 'train'"
gzip -c "$graph/train.txt" | head -c 500 >"$wrong/cut.gz"
train --data "$wrong/cut.gz"
check 'a gzip file that was cut off' says "$wrong/cut.gz: cannot read it"

train --spread 1e15 --epochs 2 --out "$tmp/none"
check 'a loss that is not a number' says 'the loss of epoch 1 is not a finite number'
check 'writes no such model' [ ! -e "$tmp/none" ]

full() (
    trap '' XFSZ
    ulimit -f 16
    exec "$tern" train kge --data "$graph" --epochs 1 --out "$tmp/full" >"$out" 2>"$err"
)
full && status=0 || status=$?
check 'a full disk' says "cannot write $tmp/full/entities"
check 'leaves nothing behind' [ ! -e "$tmp/full" ]
train --out "$tmp/no/where" --epochs 1
check 'a folder that cannot be made' says "cannot make the folder $tmp/no/where"
check 'is found before the first epoch' [ "$(grep -c '^ *[0-9]*/' "$err")" -eq 0 ]
train --nodes 2 --threads 1 --out "$graph/train.txt" --epochs 1
check 'a file in the place of the folder' says 'Not a directory'
check 'is found before the first epoch, too' [ "$(grep -c '^ *[0-9]*/' "$err")" -eq 0 ]

train --plain --nodes 2
check '--plain takes no nodes' [ "$status" -eq 2 ]
try "$tern" run -n 2 --no-prefix -- "$tern" train kge --data "$graph" --epochs 1 --plain
check 'also not those of a launcher' grep -q 'but a launcher has started 2, which' "$err"
try "$tern" run -n 1 --no-prefix -- "$tern" train kge --data "$graph" --epochs 1 --plain
check 'but a launcher may start one' [ "$status" -eq 0 ]
train --dim 31
check 'complex numbers have two parts' says '--dim must be even'
train --policy frobnicate
check 'an unknown policy' [ "$status,$(grep -c frobnicate "$err")" = 2,1 ]
try "$tern" train kge
check 'no data' [ "$status" -eq 2 ]
try "$tern" train
check 'no model' [ "$status" -eq 2 ]

# ---- WordNet -------------------------------------------------------------------------------------

if [ -r /usr/share/wordnet/data.noun ]; then
    try "$tern" data wordnet "$tmp/wordnet"
    check 'makes a graph from WordNet' [ "$status" -eq 0 ]
    leaks=$(awk -F '\t' '{ pair = $1 < $3 ? $1 FS $3 : $3 FS $1 }
        FILENAME ~ /train/ { train[pair]; known[$1]; known[$3]; next }
        pair in train || !($1 in known) || !($3 in known)' \
        "$tmp/wordnet/train.txt" "$tmp/wordnet/valid.txt" "$tmp/wordnet/test.txt" | wc -l)
    check 'no fact of valid or test leaks, none has unknown names' [ "$leaks" -eq 0 ]
    check 'has no inverse relation' [ "$(cut -f 2 "$tmp/wordnet/train.txt" | grep -c hyponym)" -eq 0 ]
    check 'names meanings' grep -q '^dog.n.01	hypernym	canine.n.02$' "$tmp/wordnet/train.txt"
fi
try "$tern" data wordnet --from "$tmp/nowhere" "$tmp/none"
check 'names the package of WordNet' says wordnet-base
check 'makes no folder' [ ! -e "$tmp/none" ]
mkdir "$tmp/dictionary"
for part in noun verb adj adv; do
    echo 'dog n 1 0 1 0 00000001' >"$tmp/dictionary/index.$part"
    echo '00000001 03 n 01 dog 0 001 @ 00000099 n 0000 | an animal' >"$tmp/dictionary/data.$part"
done
try "$tern" data wordnet --from "$tmp/dictionary" "$tmp/none"
check 'a pointer that leads nowhere' says 'data.noun:1: there is no synset 00000099'
word=$(printf '%0508d' 0)
for part in noun verb adj adv; do
    echo "$word n 1 0 1 0 1" >"$tmp/dictionary/index.$part"
    echo "1 03 n 01 $word 0 001 @ 2 n 0000 | a long word" >"$tmp/dictionary/data.$part"
done
try "$tern" data wordnet --from "$tmp/dictionary" "$tmp/none"
check 'a word that is too long' says 'data.noun:1: this is not a line of WordNet'

finish
