# test_docs.sh - the documents keep up with the tree: links lead somewhere, and the files, functions and tests that they
# name exist.
. "$(dirname "$0")/lib.sh"

cd "$ROOT" || exit 1
documents=$(ls ./*.md docs/*.md docs/tasks/*.md docs/decisions/*.md)

# Prints the relative links of the documents as FILE LINK; code blocks are left out.
links() {
    # shellcheck disable=SC2086
    awk 'FNR == 1 { code = 0 }
        /^```/ { code = !code }
        !code {
            text = $0
            while (match(text, /\]\([^) ]+\)/)) {
                print FILENAME, substr(text, RSTART + 2, RLENGTH - 3)
                text = substr(text, RSTART + RLENGTH)
            }
        }' $documents | grep -v ' https\{0,1\}:'
}

# The anchors of a document's headings, as GitHub makes them.
anchors() {
    sed -n 's/^##* //p' "$1" | tr 'A-Z ' 'a-z-' | sed 's/[^a-z0-9_-]//g'
}

# Prints what is wrong with the links.
broken_links() {
    links | while read -r file link; do
        path=${link%%#*}
        target=$(dirname "$file")/$path
        [ -n "$path" ] || target=$file
        if [ ! -e "$target" ]; then
            echo "$file: $link leads nowhere"
            continue
        fi
        case $link in
        *.md#* | '#'*) anchors "$target" | grep -qxF -- "${link#*#}" || echo "$file: $link: there is no such heading" ;;
        esac
    done
}

# The words in backquotes of a document.
quoted() {
    awk '/^```/ { code = !code } !code' "$1" | grep -o '`[^`]*`' | tr -d '`' | sort -u
}

# Prints the files of src/ that a document names and that do not exist.
missing_files() {
    quoted "$1" | grep -oE '^(src/)?(base|kernel|wire|store|update|core|net|sim|node|nd)/[a-z_0-9]+\.[ch]$' |
        while read -r name; do
            [ -e "src/${name#src/}" ] || echo "$1: there is no src/${name#src/}"
        done
}

# Prints the functions that a document names and that src/ does not have.
missing_functions() {
    quoted "$1" | grep -xE '[a-z]+(_[a-z0-9]+)+' | grep -vE '^(tern_.*|module_verb)$' | while read -r name; do
        grep -rqw "$name" src include cli tests python || echo "$1: nothing is called $name"
    done
}

# Prints the tests that docs/STATUS.md names and that do not exist.
missing_tests() {
    quoted docs/STATUS.md | grep -E '^(unit|cluster|cli|sim)/' | while read -r name; do
        # shellcheck disable=SC2086
        ls -d tests/$name >/dev/null 2>&1 || echo "docs/STATUS.md: there is no tests/$name"
    done
}

# is_silent COMMAND...: it prints nothing.
is_silent() {
    try "$@"
    [ ! -s "$out" ]
}

check 'links lead to files and headings' is_silent broken_links
for document in docs/ARCHITECTURE.md HACKING.md docs/PROTOCOL.md; do
    check "$document names files that exist" is_silent missing_files $document
    check "$document names functions that exist" is_silent missing_functions $document
done
check 'docs/STATUS.md names tests that exist' is_silent missing_tests

unlisted_decisions() {
    for file in docs/decisions/[0-9]*.md; do
        grep -qF "(${file##*/})" docs/decisions/README.md || echo "$file is not in the list"
    done
}
check 'every decision is in the list' is_silent unlisted_decisions

# Prints the options that documents give to commands and that these do not have.
missing_options() {
    # shellcheck disable=SC2086
    cat $documents | tr '\n' ' ' | grep -oE 'tern (bench|train|sim|data) [a-z]*( --[a-z][-a-z0-9]*([ =][^ `]+)?)+' |
        sort -u | while read -r _ command name options; do
        case $name in
        --*) options="$name $options" name= ;;
        esac
        # shellcheck disable=SC2086
        "$tern" $command $name --help >"$tmp/help" 2>/dev/null </dev/null || continue
        for option in $options; do
            case $option in
            --*) grep -qw -- "${option%%=*}" "$tmp/help" || echo "tern $command $name has no option ${option%%=*}" ;;
            esac
        done
    done
}
check 'commands in the documents have the options that they are given' is_silent missing_options

# What tern.h says of forked children, it says of every call that takes a handle; the list of the test must not fall behind.
untried_calls() {
    tr '\n' ' ' <include/tern/tern.h |
        grep -oE 'enum tern_status +tern_[a-z_]+\(struct tern_(node|worker|table|dist) \*[a-z]' |
        grep -oE 'tern_[a-z_]+\(' | sort -u | while read -r call; do
        grep -qF "forked($call" tests/unit/node/test_process.c || echo "$call)"
    done
}
check 'each call is tried in a forked child' is_silent untried_calls

# The first program of README is a part of the one that is compiled and run (test_examples.sh); that in Python is a whole one.
listing() {
    awk -v from="^\`\`\`$1\$" '$0 ~ from { code = 1; next } /^```$/ { if (code) exit } code' README.md
}
is_part_of() {
    listing c | awk -v file="$1" 'BEGIN { while ((getline line < file) > 0) all = all line "\n" }
        { part = part $0 "\n" } END { exit !(part && index(all, part)) }'
}
check 'the first program of README is a part of examples/first.c' is_part_of examples/first.c
listing python >"$tmp/first.py"
check 'its Python program is examples/first.py' cmp "$tmp/first.py" examples/first.py
finish
