/*
 * Whatever comes as a view is refused, or is one that can follow: nobody returns, somebody is left, every arc is at a node that
 * is present, and the view is told to others in the same bytes.
 *
 * The input is the number of nodes, the nodes that were given up before as bits of a byte, and the bytes of the view.
 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "core/view.h"

static void check_follows(const struct view *before, const struct view *next)
{
    uint32_t n_present = 0;
    require(view_epoch(next) > view_epoch(before));
    require(view_n_nodes(next) == view_n_nodes(before));
    for (uint32_t i = 0; i < view_n_nodes(next); i++) {
        require(view_is_present(before, i) || !view_is_present(next, i));
        require(view_is_present(next, view_home(next, i)));
        uint32_t backups[4];
        const uint32_t n_backups = view_backups(next, i, 3, backups);
        for (uint32_t k = 0; k < n_backups; k++)
            require(view_is_present(next, backups[k]) && backups[k] != i);
        n_present += view_is_present(next, i);
    }
    require(n_present > 0);
    require(!view_has_leaving(next) || view_is_present(next, next->leaving - 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const uint32_t n_nodes = 1 + data[0] % 16;
    uint32_t gone[8];
    size_t n_gone = 0;
    for (uint32_t i = 0; i < 8 && i + 1 < n_nodes; i++)
        if (data[1] >> i & 1)
            gone[n_gone++] = i;
    struct view *view = view_new(1, n_nodes, NULL);
    require(view);
    if (n_gone)
        view = view_without(view, 2, gone, n_gone);
    require(view);
    struct view *next = view_read(view, data + 2, size - 2);
    if (next) {
        struct buffer out = {0};
        check_follows(view, next);
        require(view_write(next, &out));
        require(buffer_size(&out) == size - 2 && !memcmp(buffer_head(&out), data + 2, size - 2));
        buffer_free(&out);
    }
    view_free(next ? next : view);
    return 0;
}
