# test_users.sh - another user of the host: cannot take a node's place at a Unix socket, cannot call one, and cannot
# prepare the folder where nodes of a launcher meet. Leaves out what needs root where this is not root.
. "$(dirname "$0")/lib.sh"

other=65534 # nobody, who is to attack root's job
sums=$tmp/sums
cp "$programs/sums" "$programs/crowd" "$tmp"
chmod 755 "$sums" "$tmp/crowd"
chmod 711 "$tmp"
mkdir -m 1777 "$tmp/open" # as /tmp is

# as_other K COMMAND...: starts it as the other user, as node K.
as_other() {
    k=$1
    shift
    setpriv --reuid $other --regid $other --clear-groups env "$@" >"$tmp/$k.out" 2>"$tmp/$k.err" </dev/null &
    eval "pid_$k=$!"
    running="$running $!"
}

is_other() {
    setpriv --reuid $other --regid $other --clear-groups "$@"
}

# refused K WORD...: node K failed, with a sentence that has each of the words.
refused() {
    k=$1
    shift
    eval "p=\$pid_$k"
    wait "$p" 2>/dev/null
    ended=$?
    forget "$p"
    [ $ended -eq 1 ] || return 1
    for word in "$@"; do
        grep -qF -- "$word" "$tmp/$k.err" || return 1
    done
}

until_socket() {
    soon [ -S "$1" ]
}

# A launcher's variables for node K of 2 on one host.
launched() {
    k=$1
    shift
    env RANK="$k" WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29501 \
        TMPDIR="$tmp/open" TERN_DEADLINE="$(paced 3)" TERN_JOIN_DEADLINE="$(paced 3)" "$@" \
        >"$tmp/$k.out" 2>"$tmp/$k.err" </dev/null &
    eval "pid_$k=$!"
    running="$running $!"
}

run_sums() {
    launched "$1" "$sums" dense 1000 1 20
}

run_sums 0
run_sums 1
collect 0 1
check 'nodes of a launcher meet' [ "$statuses" = '0 0' ]
folder=$tmp/open/tern-$(id -u)
check 'in a folder of their user alone' [ "$(stat -c %a "$folder")" = 700 ]
check 'where they leave no socket' [ -z "$(find "$folder" -type s)" ]

chmod 755 "$folder"
run_sums 0
check 'a folder that is open to others is refused' refused 0 "$folder" 'chmod 700'
rm -rf "$folder"
mkdir -m 700 "$tmp/elsewhere"
ln -s "$tmp/elsewhere" "$folder"
run_sums 0
check 'a link in its place is refused' refused 0 "$folder" 'not a folder'
rm "$folder"

if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null || ! is_other "$sums" dense 10 1 1 >/dev/null; then
    echo '# not root, or no setpriv: nobody can act as another user; left out'
    finish
fi

is_other mkdir -m 777 "$folder"
run_sums 0
check "another user's folder in its place is refused" refused 0 "$folder" "another user (uid $other"
rmdir "$folder"

# The other user listens where node 0 is expected.
coordinator=unix:$tmp/open/c
as_other 0 TERN_NODE=0 TERN_NODES=2 TERN_COORDINATOR=$coordinator TERN_DEADLINE="$(paced 8)" \
    TERN_JOIN_DEADLINE="$(paced 8)" "$sums" dense 1000 1 20
until_socket "$tmp/open/c"
TERN_DEADLINE=$(paced 3) TERN_JOIN_DEADLINE=$(paced 3) start 1 2 "$sums" dense 1000 1 20
check "another user's node 0 is not joined" refused 1 "another user (uid $other"
end "$pid_0"

# A node of the other user is called by this one, who may open every file: it does not answer.
as_other 0 TERN_NODE=0 TERN_NODES=2 TERN_COORDINATOR=unix:$tmp/open/d TERN_DEADLINE="$(paced 30)" \
    TERN_JOIN_DEADLINE="$(paced 30)" "$sums" dense 1000 1 20
until_socket "$tmp/open/d"
try timeout "$(paced 20)" "$programs/crowd" welcome 3 tern 2 0 "unix:$tmp/open/d"
check 'a node answers no other user' grep -q '^0 of 3 were welcomed' "$out"
end "$pid_0"

# Over loopback TCP, started by hand, every user can connect and listen.
new_tcp
start 0 2 "$sums" dense 1000 1 1000000000
start 1 2 "$sums" dense 1000 1 1000000000
until_says 0 ready
try is_other "$tmp/crowd" welcome 3 tern 2 0 "$coordinator"
check 'another user is not welcomed on loopback TCP' grep -q '^0 of 3 were welcomed' "$out"
kill -USR1 "$pid_0" "$pid_1"
collect 0 1
check 'and the job goes on' [ "$statuses" = '0 0' ]

new_tcp
as_other 0 TERN_NODE=0 TERN_NODES=2 TERN_COORDINATOR="$coordinator" TERN_DEADLINE="$(paced 8)" \
    TERN_JOIN_DEADLINE="$(paced 8)" "$sums" dense 1000 1 20
soon is_port_used "$port"
TERN_DEADLINE=$(paced 3) TERN_JOIN_DEADLINE=$(paced 3) start 1 2 "$sums" dense 1000 1 20
check "another user's node 0 is not joined on loopback TCP" refused 1 TERN_TOKEN
end "$pid_0"
secret=${TMPDIR:-/tmp}/tern-$(id -u)/secret
check 'the secret is for its user alone' [ "$(stat -c %a "$secret")" = 600 ]
finish
