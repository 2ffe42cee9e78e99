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

# The help in $out names the option $1 and its default $2, be it on a later line.
lists_option() {
    sed -e ':a' -e '$!N' -e 's/\n   *\([^ -]\)/ \1/' -e 'ta' -e 'P;D' "$out" |
        grep -Eq -- "^ +--$1 .*\(default: $2\)"
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

# ---- Every command ------------------------------------------------------------------------------

# The names that a command lists, one a line.
commands_of() {
    "$tern" "$@" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'
}

# Each command as a line: "bench local".
all_commands() {
    for command in $(commands_of); do
        echo "$command"
        for inner in $(commands_of "$command"); do
            echo "$command $inner"
        done
    done
}

is_narrow() {
    [ "$(awk '{ print length }' "$1" | sort -n | tail -1)" -le 80 ]
}

same_as_help() {
    # shellcheck disable=SC2086
    "$tern" help $1 | cmp -s - "$out"
}

# The options that a text of --help lists: with their dashes, one a line, aliases too.
options_of() {
    sed -n 's/^  \(-[a-z], \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p' "$1"
    grep -o 'also --[a-z0-9-]*\(, --[a-z0-9-]*\)*' "$1" | grep -o -- '--[a-z0-9-]*'
}

mkdir "$tmp/man"
try "$tern" help --man "$tmp/man"
check 'tern help --man writes man pages' [ "$status" -eq 0 ]
check 'and says nothing' [ ! -s "$out" ] && [ ! -s "$err" ]
try "$tern" help --man "$tmp/nowhere"
check 'tern help --man: a folder that is not there' [ "$status" -eq 1 ]
check 'is named' grep -q "$tmp/nowhere" "$err"
try "$tern" help --completion
check 'tern help --completion prints a script' [ "$status" -eq 0 ]
cp "$out" "$tmp/completion"
check 'that bash can read' bash -n "$tmp/completion"

# complete WORD...: what <TAB> offers for the last word.
complete() {
    bash --norc -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tern
        printf "%s\n" "${COMPREPLY[@]}"' "$tmp/completion" "$@"
}
completes() {
    want=$1
    shift
    [ "$(complete "$@" | tr '\n' ' ')" = "$want " ]
}

is_in_page() {
    sed 's/\\-/-/g' "$tmp/man/tern-$(echo "$1" | tr ' ' -).1" | grep -q -- "^\\\\fB.*$2\\\\fR"
}

groups_in_order() {
    [ "$(grep -E '^[A-Z][a-z]+:$' "$out" | tr -d '\n')" = "$1" ]
}

all_commands >"$tmp/commands"
check 'tern --help leads to all commands' [ "$(wc -l <"$tmp/commands")" -ge 30 ]
while read -r command <&3; do
    page=$tmp/man/tern-$(echo "$command" | tr ' ' -).1
    # shellcheck disable=SC2086
    try "$tern" $command --help
    check "tern $command --help explains itself" helps
    check "tern $command --help has 80 columns" is_narrow "$out"
    check "tern help $command prints the same" same_as_help "$command"
    check "tern $command has a man page" [ -s "$page" ]
    if command -v groff >/dev/null; then
        groff -man -ww -Tutf8 "$page" >/dev/null 2>"$tmp/warnings"
        check "groff has no warning about its man page" [ ! -s "$tmp/warnings" ]
    fi
    if command -v mandoc >/dev/null; then
        check "mandoc has no warning about its man page" mandoc -Tlint -Wwarning "$page"
    fi
    options_of "$out" >"$tmp/options"
    # shellcheck disable=SC2086
    complete tern $command -- >"$tmp/offered"
    while read -r option <&4; do
        # In one test, or there would be hundreds.
        is_in_page "$command" "$option" || echo "$option: man page"
        grep -qx -- "$option" "$tmp/offered" || echo "$option: completion"
    done 4<"$tmp/options" >"$tmp/missing"
    check "each option of tern $command is in its man page and completed" [ ! -s "$tmp/missing" ]
    sed -n "s/^    'tern $command --.* words='\([^']*\)' ;;/\1/p" "$tmp/completion" | tr ' ' '\n' |
        while read -r choice; do
            grep -qwF -- "$choice" "$out" || echo "$choice"
        done >"$tmp/missing"
    check "the help of tern $command names each choice" [ ! -s "$tmp/missing" ]
done 3<"$tmp/commands"

check 'tern tr<TAB>' completes 'trace train' tern tr
check 'tern train k<TAB>' completes kge tern train k
check 'tern help tr<TAB>' completes 'trace train' tern help tr
check 'tern help train k<TAB>' completes kge tern help train k
check 'tern help --m<TAB>' completes --man tern help --m
check 'tern train kge --mod<TAB>' completes --model tern train kge --mod
check 'tern train kge --model d<TAB>' completes distmult tern train kge --model d
check 'tern train kge --model=d<TAB>' completes distmult tern train kge --model = d
check 'tern bench local --op pull,p<TAB>' completes 'pull,pull pull,push' tern bench local --op pull,p
check 'a value that is no choice is left to bash' completes '' tern train kge --dim ''

try "$tern" help train
check 'tern help train works' grep -q '^Usage: tern train COMMAND' "$out"
try "$tern" help tarin
check 'tern help of a misspelt command' is_usage_error tarin "did you mean 'train'"
try "$tern" help train --man "$tmp/man"
check 'tern help does one thing' is_usage_error 'one of'

if command -v script >/dev/null && command -v stty >/dev/null; then
    try script -qec "stty cols 60; '$tern' help bench loop" /dev/null
    tr -d '\r' <"$out" >"$tmp/narrow"
    check 'help follows a narrow terminal' [ "$(awk '{ print length }' "$tmp/narrow" | sort -n | tail -1)" -le 60 ]
    check 'and is all there' grep -q 'values_checked' "$tmp/narrow"
fi

# ---- Groups and aliases --------------------------------------------------------------------------

try "$tern" train kge --help
check 'options are in groups' groups_in_order 'Data:Model:Training:Output:Cluster:'
check 'help names the aliases' grep -q 'also --lr, --learning-rate' "$out"
for option in '--lr=x' '--learning-rate=x' '--init-std=x' '--batch-size=x'; do
    try "$tern" train kge "$option"
    check "kge has the alias ${option%=x}" is_usage_error 'takes a' "'x'"
done
for command in mf wordvec; do
    try "$tern" train $command --lr x
    check "$command has the alias --lr" is_usage_error '--rate takes a number'
done
try "$tern" train mf --l2 x
check 'mf has the alias --l2' is_usage_error '--penalty takes a number'
try "$tern" train kge --learning-rat 1
check 'aliases are suggested' is_usage_error "did you mean '--learning-rate'"
try "$tern" trace -o
check 'a short option without its value' is_usage_error '--out FILE'
try "$tern" trace -x
check 'an unknown short option' is_usage_error "'-x'"

finish
