# test_rows.sh - long values, which are read and written where the caller has them, arrive whole and in
# their places over every kind of connection, and when connections break in the middle of them.
. "$(dirname "$0")/lib.sh"

steps=400
cut_s=3
cut_least=20
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

cut_ms=20
run_cut 3 "$programs/rows" $steps
check "rows: right although $n_cut connections were cut" right
check 'connections were cut' [ "$n_cut" -gt $cut_least ]
finish
