/*
 * The file of a sketch that is accepted has the size that its header says, cells and counts within the sum of all counts, and names
 * that fill the bytes they have.
 */
#include "fuzz/fuzz.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "sketch/sketch_file.h"

/* The input is a file without its checksum, which is put behind it: nobody finds a right one by chance. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sketch_view view;
    uint8_t *file = malloc(size + SKETCH_CHECKSUM_BYTES);
    require(file);
    if (size > 0)
        memcpy(file, data, size);
    const uint64_t checksum = XXH3_64bits(file, size);
    memcpy(file + size, &checksum, sizeof checksum);
    require(sketch_decode(file, size, &view)); /* the checksum lacks */
    if (!sketch_decode(file, size + SKETCH_CHECKSUM_BYTES, &view)) {
        const uint64_t n_cells = sketch_n_cells(&view.shape);
        require(n_cells * 8 + view.n_heavy * SKETCH_HEAVY_BYTES + view.names_bytes +
                    SKETCH_HEADER_BYTES ==
                size);
        struct sketch_heavy *heavy = malloc((view.n_heavy + 1) * sizeof *heavy);
        int64_t *cells = malloc(n_cells * sizeof *cells);
        require(heavy && cells);
        sketch_view_cells(&view, 0, n_cells, cells);
        for (uint64_t i = 0; i < n_cells; i++)
            require(cells[i] >= 0 && cells[i] <= view.sum);
        sketch_view_heavy(&view, heavy);
        const char *name = (const char *)view.names;
        for (size_t i = 0; i < view.n_heavy; i++) {
            require(heavy[i].count <= view.sum && heavy[i].error >= 0 &&
                    heavy[i].error <= heavy[i].count && heavy[i].name == name);
            name += heavy[i].name_bytes;
        }
        require(name == (const char *)view.names + view.names_bytes);
        free(heavy);
        free(cells);
    }
    free(file);
    return 0;
}
