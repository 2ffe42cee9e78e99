# test_rows.sh - long values, which are read and written where the caller has them, arrive whole and in
# their places over every kind of connection, and when connections break in the middle of them.
. "$(dirname "$0")/lib.sh"

steps=400
cut_s=3
$quick && steps=60

right() {
    [ "$statuses" = '0 0 0' ] && [ "$(grep -c ': 0 wrong elements, 0 wrong sums' "$out")" -eq 3 ]
}

# rows [PREFIX]: three nodes; PREFIX K COMMAND... starts node K.
rows() {
    prefix=${1:-plain}
    for i in 0 1 2; do
        $prefix "$i" start "$i" 3 "$programs/rows" $steps
    done
    collect 0 1 2
}

plain() {
    shift
    "$@"
}

# A proxy takes the place of a node's socket; the node itself is reached behind it.
intercept() {
    tries=0
    until [ -S "$1" ] || [ $tries -gt 500 ]; do
        tries=$((tries + 1))
        sleep 0.01
    done
    mv "$1" "$1.real"
    "$programs/proxy" -c 20 -f $cut_s "unix:$1" "unix:$1.real" >"$1.log" 2>&1 &
    proxies="$proxies $!"
    running="$running $!"
}

new_unix
rows
check 'rows: Unix sockets' right

new_tcp
rows
check 'rows: TCP' right

make_certificates
new_tcp
rows with_tls
check 'rows: TLS' right

new_unix
path=${coordinator#unix:}
proxies=
for k in 1 2 0; do
    start $k 3 "$programs/rows" $steps
    if [ $k -eq 0 ]; then intercept "$path"; else intercept "$path.$k"; fi
done
collect 0 1 2
for p in $proxies; do
    kill -TERM "$p"
    wait "$p"
    forget "$p"
done
n_cut=$(cat "$path"*.log | awk '{ n += $3 } END { print n + 0 }')
check "rows: right although $n_cut connections were cut" right
check 'connections were cut' [ "$n_cut" -gt 20 ]
finish
