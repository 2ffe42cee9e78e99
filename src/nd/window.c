/* window - see window.h. */
#include "nd/window.h"

#include "base/status.h"

enum { WINDOW_MOST = 1024 };

/* Two numbers of a list, or one for both axes. */
static enum tern_status read_pair(const struct list *list, const char *name, int64_t least,
                                  int64_t usual, int64_t *pair)
{
    if (list->n != -1 && list->n != 1 && list->n != 2)
        return fail(TERN_INVALID, "'%s' has one or two numbers, not %d", name, list->n);
    for (int i = 0; i < 2; i++) {
        pair[i] = list->n < 0 ? usual : list->at[i % list->n];
        if (pair[i] < least || pair[i] > WINDOW_MOST)
            return fail(TERN_INVALID, "'%s' is %lld, which is not in %lld .. %d", name,
                        (long long)pair[i], (long long)least, WINDOW_MOST);
    }
    return TERN_OK;
}

enum tern_status window_read(const struct attributes *attributes, const int64_t *in,
                             struct window *window)
{
    enum tern_status status = read_pair(&attributes->lists[0], "kernel", 1, 1, window->kernel);
    if (!status)
        status = read_pair(&attributes->lists[1], "stride", 1, 1, window->stride);
    if (!status)
        status = read_pair(&attributes->lists[2], "pad", 0, 0, window->pad);
    for (int i = 0; i < 2 && !status; i++) {
        window->in[i] = in[i];
        const int64_t room = in[i] + 2 * window->pad[i] - window->kernel[i];
        if (room < 0 || window->pad[i] >= window->kernel[i])
            status =
                fail(TERN_MISMATCH,
                     "a kernel of %lld with %lld zeros at each end does not fit into %lld",
                     (long long)window->kernel[i], (long long)window->pad[i], (long long)in[i]);
        window->out[i] = room / window->stride[i] + 1;
    }
    return status;
}

void window_inside(const struct window *window, int axis, int64_t at, int64_t *first, int64_t *end)
{
    const int64_t shift = at - window->pad[axis], stride = window->stride[axis];
    const int64_t last = window->in[axis] - 1 - shift; /* of the places times their step */
    /* Divisions are slow, and only the ends need them. */
    *first = shift < 0 ? (-shift + stride - 1) / stride : 0;
    *end = last >= (window->out[axis] - 1) * stride ? window->out[axis]
           : last < 0                               ? 0
                                                    : last / stride + 1;
    if (*first > *end)
        *first = *end;
}
