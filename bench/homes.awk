# homes.awk - how unequally the homes of keys are used: the use of the busiest of some homes over the mean, when each home has a
# range of the keys, and when keys are dealt out (`scatter`). Reads a name per line, one for each use; keys are numbered as names are
# met, or, with -v numbered=1, are the names, which count from 1.
#
#     cut -f1,3 train.txt | tr '\t' '\n' | awk -v homes=4 -f bench/homes.awk

{
    if (numbered)
        key = $1 - 1
    else if ($1 in keys)
        key = keys[$1]
    else
        key = keys[$1] = n
    if (key >= n)
        n = key + 1
    uses[key]++
}

function busiest(use, i, most) {
    for (i = 0; i < homes; i++)
        most = use[i] > most ? use[i] : most
    return most * homes / NR
}

END {
    for (key in uses) {
        at = key % (2 * homes)
        ranges[int(key * homes / n)] += uses[key]
        dealt[at < homes ? at : 2 * homes - 1 - at] += uses[key]
    }
    printf "%d keys, %d homes, the busiest over the mean: ranges %.2f, dealt out %.2f\n", n, homes, busiest(ranges), busiest(dealt)
}
