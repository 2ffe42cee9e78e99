# test_checkpoint.sh - `tern checkpoint` lists, verifies and exports checkpoints, and says what is wrong with them.
. "$(dirname "$0")/lib.sh"

# Whether it ended with a status, and said so.
ends() {
    [ "$status" = "$1" ] && grep -q "$2" "$err"
}

refuses_to_write() {
    [ "$status" = 1 ] && [ ! -e "$1" ]
}

writer=$BUILD/tests/cluster/checkpoint
folder=$tmp/checkpoints
mkdir "$folder"
try "$writer" write "$folder/step-2" 2
check 'a program writes a checkpoint' [ "$status" = 0 ]
try "$writer" write "$folder/step-10" 10

try "$tern" checkpoint ls "$folder"
check 'ls lists a folder, in the order of numbers' \
    [ "$status $(grep -o 'step-[0-9]*: 19 tables' "$out" | tr '\n' ' ')" = '0 step-2: 19 tables step-10: 19 tables ' ]
check 'ls names tables and updaters' grep -q 'learned  *dense, 600 rows of 3 f32, updater adagrad' "$out"
try "$tern" checkpoint ls --json "$folder/step-2"
check 'ls --json: a line per table' [ "$(grep -c '^{"checkpoint":' "$out")" = 19 ]
try "$tern" checkpoint ls "$tmp"
check 'ls: no checkpoint is a sentence' ends 1 'there is no checkpoint'

try "$tern" checkpoint verify "$folder/step-2" "$folder/step-10"
check 'verify: good' [ "$status $(grep -c ': good$' "$out")" = '0 2' ]
try "$tern" checkpoint verify "$folder"
check 'verify takes a folder of checkpoints' [ "$status $(grep -c ': good$' "$out")" = '0 2' ]
cp -r "$folder/step-2" "$tmp/bad"
printf 'X' | dd of="$tmp/bad/part-0-3.safetensors" bs=1 seek=400 conv=notrunc 2>/dev/null
try "$tern" checkpoint verify "$tmp/bad"
check 'verify names a damaged file' ends 1 'part-0-3.safetensors. is damaged'

try "$tern" checkpoint export "$folder/step-2" --table 'static dense' --format word2vec --out "$tmp/text"
check 'export writes text' [ "$status $(head -n 1 "$tmp/text") $(wc -l <"$tmp/text")" = '0 600 3 601' ]
check 'export: the values are there' grep -qx '599 5 5 5' "$tmp/text"
try "$tern" checkpoint export "$folder/step-2" --table 'static dense' --out "$tmp/matrix.npy"
check 'export writes a matrix' [ "$status $(wc -c <"$tmp/matrix.npy")" = "0 $((128 + 600 * 3 * 8))" ]
try "$tern" checkpoint export "$folder/step-2" --table 'static sparse' --out "$tmp/sparse.npy"
check 'export writes the keys of a sparse table' [ -s "$tmp/sparse.npy.keys.npy" ]
try "$tern" checkpoint export "$folder/step-2" --out "$tmp/x"
check 'export asks which table' ends 1 'choose one with --table'
try "$tern" checkpoint export "$folder/step-2" --table none --out "$tmp/x"
check 'export: no such table' ends 1 "no table 'none'"
try "$tern" checkpoint export "$folder" --table none --out "$tmp/x"
check 'export: a folder of checkpoints is none itself' ends 1 "checkpoints' is no checkpoint: it has no manifest.json"
try "$tern" checkpoint export "$tmp/bad" --table 'static dense' --out "$tmp/x"
check 'export refuses a damaged checkpoint' refuses_to_write "$tmp/x"
try "$tern" checkpoint ls
check 'ls without a folder is wrong usage' [ "$status" = 2 ]
finish
