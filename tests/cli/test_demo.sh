# test_demo.sh - tools/demo, which `make demo` runs: all its steps, on the verbs of WordNet alone, so that it
# takes seconds. It finds a `tern` that cuts the graph down when it is made, and is the real one otherwise.
. "$(dirname "$0")/lib.sh"

build=$tmp/build
graph=$build/demo/wordnet
mkdir "$build"
try "$ROOT/tools/demo" "$build"
check 'says that there is nothing to run' grep -q "$build/tern is not there" "$err"
check 'fails without it' [ $status -eq 1 ]

if [ ! -r /usr/share/wordnet/data.noun ]; then
    echo '# WordNet is not installed: the rest of the demo is left out'
    finish
fi

# Of the facts to be tested, those whose entities and relation occur among the others.
cat >"$build/cut" <<'EOF'
cd "$1" || exit 1
for part in train valid test; do
    awk -F '\t' '$1 ~ /\.v\./ && $3 ~ /\.v\./' $part.txt >$part.cut && mv $part.cut $part.txt
done
for part in valid test; do
    awk -F '\t' 'NR == FNR { known[$1] = known[$2] = known[$3] = 1; next }
        known[$1] && known[$2] && known[$3]' train.txt $part.txt >$part.cut && mv $part.cut $part.txt
done
EOF
cat >"$build/tern" <<EOF
#!/bin/sh
"$tern" "\$@" || exit
case \$1 in data) sh "$build/cut" "$graph" ;; esac
EOF
chmod +x "$build/tern"

try "$ROOT/tools/demo" "$build"
check 'runs to its end' [ $status -eq 0 ]
check 'has facts to learn' [ "$(wc -l <"$graph/train.txt")" -gt 10000 ]
check 'has facts to test' [ "$(wc -l <"$graph/test.txt")" -gt 20 ]
check 'runs on two nodes' grep -q '2 nodes with 1 thread' "$out"
check 'trains all epochs' grep -q '^ *20/20 ' "$out"
check 'asks for facts of the test' grep -q ' [1-9][0-9]* questions were asked\.)$' "$out"
check 'reports the test' grep -q '^Test: MRR 0\.[0-9]* ' "$out"
check 'reports local accesses' grep -q '^[0-9.]*% of all accesses to parameters were local' "$out"
check 'leaves vectors' [ -s "$build/demo/model/entities.npy" ]
check 'leaves names for them' grep -q '\.v\.01$' "$build/demo/model/entities.txt"
finish
