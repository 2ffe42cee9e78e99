# test_ca.sh - tern ca: the files it makes, who may read them, what they say and what is refused.
. "$(dirname "$0")/lib.sh"

dir=$tmp/certs

works() {
    [ "$status" -eq 0 ] && [ ! -s "$err" ]
}

# is_refused STATUS WORD...: that exit status, nothing on stdout, one sentence with each of the words.
is_refused() {
    [ "$status" -eq "$1" ] && [ ! -s "$out" ] && [ "$(wc -l <"$err")" -eq 1 ] || return 1
    shift
    for word in "$@"; do
        grep -qF -- "$word" "$err" || return 1
    done
}

mode_is() {
    [ "$(stat -c %a "$1")" = "$2" ]
}

says() {
    openssl x509 -in "$1" -noout -text | grep -qF -- "$2"
}

# The days from now to the end of a certificate, rounded.
days_left() {
    end=$(date -d "$(openssl x509 -in "$1" -noout -enddate | cut -d= -f2)" +%s)
    echo $(((end - $(date +%s) + 43200) / 86400))
}

# The sums of all files, to see that nothing was changed; and that nothing was left over.
sums() {
    (cd "$dir" && sha256sum -- * && ls -A)
}

for arguments in 'ca --help' 'ca new --help' 'ca node --help' 'ca show --help' 'ca node x --help'; do
    # shellcheck disable=SC2086
    try "$tern" $arguments
    check "tern $arguments explains itself" grep -q '^Usage: tern ca' "$out"
done

try "$tern" ca new "$dir" --name 'Our cluster' --days 100
check 'an authority is made' works
check 'its two files are named' [ "$(cat "$out")" = "$dir/ca.crt
$dir/ca.key" ]
check 'its key is for its owner alone' mode_is "$dir/ca.key" 600
check 'its folder is for its owner alone' mode_is "$dir" 700
check 'its certificate is for everybody' mode_is "$dir/ca.crt" 644
check 'it has its name' [ "$(openssl x509 -in "$dir/ca.crt" -noout -subject -nameopt RFC2253)" = \
    'subject=CN=Our cluster' ]
check 'it is an authority' says "$dir/ca.crt" 'CA:TRUE, pathlen:0'
check 'its key is of the curve P-256' says "$dir/ca.crt" 'NIST CURVE: P-256'
check 'it ends after the days given' [ "$(days_left "$dir/ca.crt")" -eq 100 ]

try "$tern" ca node "$dir" alpha --host alpha.example --host=10.0.0.7 --host ::1 --days 10
check 'a node is made' works
check 'its key is for its owner alone, too' mode_is "$dir/alpha.key" 600
check 'the authority vouches for it as a server' \
    openssl verify -purpose sslserver -CAfile "$dir/ca.crt" "$dir/alpha.crt"
check 'the authority vouches for it as a client' \
    openssl verify -purpose sslclient -CAfile "$dir/ca.crt" "$dir/alpha.crt"
check 'it has its hosts' says "$dir/alpha.crt" \
    'DNS:alpha.example, IP Address:10.0.0.7, IP Address:0:0:0:0:0:0:0:1'
check 'it can vouch for nobody' says "$dir/alpha.crt" 'CA:FALSE'
check 'it ends after the days given, too' [ "$(days_left "$dir/alpha.crt")" -eq 10 ]
check 'its key is its own' [ "$(openssl x509 -in "$dir/alpha.crt" -noout -pubkey)" = \
    "$(openssl pkey -in "$dir/alpha.key" -pubout)" ]

try "$tern" ca node "$dir" bound --nodes 0-7
check 'a certificate is bound to nodes' says "$dir/bound.crt" 'URI:tern:node:0-7'
for range in x -1 3-1 0-65536 '' 1-2-3 '1 2'; do
    try "$tern" ca node "$dir" never --nodes "$range"
    check "--nodes '$range' is refused" is_refused 2 --nodes
done
chmod 640 "$dir/bound.key"
try "$tern" ca show "$dir"
check 'show warns of a key that others can read' grep -q "$dir/bound.key can be used by others.*chmod 600" "$err"
rm "$dir"/bound.*

try "$tern" ca node --days 1000 "$dir" beta
check 'options may come first' works
check 'a node ends with its authority' [ "$(days_left "$dir/beta.crt")" -eq 100 ]

try "$tern" ca new "$tmp/other"
try "$tern" ca node "$tmp/other" gamma
cp "$tmp/other/gamma.crt" "$dir/"
try "$tern" ca show "$dir"
check 'show lists the certificates' works
check 'show knows the authority' grep -Eq '^Our cluster +authority +20..-..-.. ..:.. UTC  valid$' "$out"
check 'show knows a node' grep -Eq '^alpha +node +20..-..-.. ..:.. UTC  valid$' "$out"
check 'show knows a stranger' grep -Eq '^gamma +node .*of another authority$' "$out"
check 'show lists all' [ "$(wc -l <"$out")" -eq 4 ]
rm "$dir/gamma.crt"

before=$(sums)
try "$tern" ca new "$dir"
check 'an authority is not overwritten' is_refused 1 "$dir/ca.crt" exists
try "$tern" ca node "$dir" alpha
check 'a node is not overwritten' is_refused 1 "$dir/alpha.crt" exists
try "$tern" ca node "$dir" ca
check 'a node does not take the place of the authority' is_refused 2 "'ca'"
for name in '' . .. a/b ../x 'a b' .hidden; do
    try "$tern" ca node "$dir" "$name"
    check "a node is not called '$name'" is_refused 2 "'$name'"
done
check 'nothing was changed or left over' [ "$(sums)" = "$before" ]

try "$tern" ca
check 'no command' is_refused 2 'tern ca --help'
try "$tern" ca nwe
check 'misspelt command' is_refused 2 "did you mean 'new'"
try "$tern" ca new
check 'new without a folder' is_refused 2 DIR
try "$tern" ca node "$dir"
check 'node without a name' is_refused 2 NAME
try "$tern" ca new "$tmp/a" stray
check 'stray word' is_refused 2 stray
try "$tern" ca new "$tmp/a" --days 0
check 'no days' is_refused 2 --days
try "$tern" ca new "$tmp/a" --name ''
check 'no name' is_refused 2 --name
try "$tern" ca node "$dir" delta --host
check 'no host' is_refused 2 --host
try "$tern" ca node "$dir" delta --host '' --host delta.example
check 'an empty host' is_refused 2 --host
check 'no certificate was made for it' [ ! -e "$dir/delta.crt" ]
try "$tern" ca node "$dir" delta epsilon
check 'a second name' is_refused 2 epsilon "'tern ca node --help'"
(cd "$tmp" && "$tern" ca new -- -odd) >"$out" 2>"$err"
status=$?
check 'a folder that begins with -' works
try "$tern" ca node "$tmp/nowhere" alpha
check 'no authority' is_refused 1 "$tmp/nowhere/ca.crt" 'No such file'
try "$tern" ca new "$tmp/no/where"
check 'no place for the folder' is_refused 1 "$tmp/no/where" 'No such file'
try "$tern" ca show "$tmp/nowhere"
check 'nothing to show' is_refused 1 "$tmp/nowhere"
cp "$dir/ca.crt" "$tmp/other/ca.crt"
try "$tern" ca node "$tmp/other" delta
check 'a key of another authority' is_refused 1 ca.key ca.crt
echo nonsense >"$tmp/other/ca.key"
try "$tern" ca node "$tmp/other" delta
check 'a key that is none' is_refused 1 "$tmp/other/ca.key"
check 'nothing is made without authority' [ ! -e "$tmp/other/delta.key" ]

finish
