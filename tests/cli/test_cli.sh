# test_cli.sh - help, version, and what a wrong command line gets: a sentence and exit status 2.
. "$(dirname "$0")/lib.sh"

# Exit status 2, nothing on stdout, and a sentence on stderr that holds each of the words.
is_usage_error() {
    [ "$status" -eq 2 ] && [ ! -s "$out" ] && [ "$(wc -l <"$err")" -eq 1 ] || return 1
    for word in "$@"; do
        grep -qF -- "$word" "$err" || return 1
    done
}

helps() {
    [ "$status" -eq 0 ] && [ ! -s "$err" ] && grep -q '^Usage: tern' "$out"
}

lists_option() {
    grep -Eq -- "^ +--$1 .*\(default: $2\)" "$out"
}

for arguments in --help -h 'bench --help' 'bench -h' 'bench local --help' 'bench local -h'; do
    # shellcheck disable=SC2086
    try "$tern" $arguments
    check "tern $arguments explains itself" helps
done

check 'help names the option --op and its default' lists_option 'op LIST' pull,push
check 'help names the option --len and its default' lists_option 'len LIST' 1,8,32,128,512
check 'help names the option --keys and its default' lists_option 'keys N' 1000000

try "$tern" --help
check 'tern --help lists the commands' grep -q '^  bench ' "$out"

try "$tern" --version
check 'tern --version prints version and kernel' \
    grep -Eq '^tern [0-9]+\.[0-9]+\.[0-9]+ \((scalar|avx2|avx512|neon)\)$' "$out"

try env TERN_KERNEL=scalar "$tern" --version
check 'TERN_KERNEL chooses the kernel' grep -q '(scalar)' "$out"

try "$tern"
check 'no command' is_usage_error 'tern --help'
try "$tern" frobnicate
check 'unknown command' is_usage_error frobnicate
try "$tern" bnech
check 'misspelt command' is_usage_error bnech "did you mean 'bench'"
try "$tern" --frobnicate
check 'unknown option of tern' is_usage_error --frobnicate
try "$tern" bench
check 'no benchmark' is_usage_error 'tern bench --help'
try "$tern" bench locl
check 'misspelt benchmark' is_usage_error locl "did you mean 'local'"

try "$tern" bench local --frobnicate
check 'unknown option' is_usage_error --frobnicate
try "$tern" bench local --treads 2
check 'misspelt option' is_usage_error --treads "did you mean '--threads'"
try "$tern" bench local stray
check 'stray word' is_usage_error stray
try "$tern" bench local --len
check 'option without its value' is_usage_error '--len LIST'
try "$tern" bench local --json=yes
check 'flag with a value' is_usage_error --json yes
try "$tern" bench local --op pull,psh
check 'unknown choice' is_usage_error --op psh push
for value in 0 -1 65537 8x '' 8,,8 1e1 99999999999999999999; do
    try "$tern" bench local "--len=$value"
    check "--len '$value'" is_usage_error --len 'from 1 to 65536'
done
for value in 0 nan inf -1 x ''; do
    try "$tern" bench local --seconds-per-point "$value"
    check "--seconds-per-point '$value'" is_usage_error --seconds-per-point 'a number'
done
try "$tern" bench local --len "$(seq -s , 1 65)"
check 'too long a list' is_usage_error --len 'at most 64'
try "$tern" bench local --op "$(printf 'pull,%.0s' $(seq 1 200))pull"
check 'far too long a list' is_usage_error --op characters

finish
