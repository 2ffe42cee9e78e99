/*
 * A symbol that is accepted from JSON is written again as text that is read as the same; binding it to small shapes succeeds
 * or is refused.
 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "tern/nd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tern_symbol *symbol, *again;
    char *text, *text_again;
    const char *name;
    struct tern_nd_shape shapes[8], shape;
    const char *names[8];
    size_t n = 0;
    if (tern_symbol_load((const char *)data, size, &symbol))
        return 0;
    require(!tern_symbol_save(symbol, &text));
    require(!tern_symbol_load(text, strlen(text), &again));
    require(!tern_symbol_save(again, &text_again));
    require(!strcmp(text, text_again));
    while (n < 8 && !tern_symbol_argument(symbol, n, &name) && name) {
        names[n] = name;
        shapes[n++] = (struct tern_nd_shape){.type = TERN_ND_F32, .n_dims = 2, .dims = {3, 4}};
    }
    if (!tern_symbol_infer(symbol, n, names, shapes, NULL, &shape))
        require(shape.n_dims >= 0 && shape.n_dims <= TERN_ND_MAX_DIMS);
    require(!tern_symbol_close(symbol) && !tern_symbol_close(again));
    free(text);
    free(text_again);
    return 0;
}
