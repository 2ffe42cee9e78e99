/*
 * Files of arrays. The first byte of the input chooses the format: IDX, npy, CSV, libsvm or CIFAR-10.
 * What is accepted has a shape whose
 * elements lie within the bytes.
 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "nd/format.h"

static void check_elements(enum tern_status status, const struct elements *elements, size_t size)
{
    if (status)
        return;
    require(!spec_check(&elements->spec));
    require(elements->offset + spec_bytes(&elements->spec) == size);
}

static void check_text(const uint8_t *data, size_t size, bool is_libsvm)
{
    struct buffer numbers = {0}, labels = {0};
    struct spec spec;
    /* A matrix from few bytes may be large, which costs time. */
    if (is_libsvm && memchr(data, ':', size) && size > 512)
        return;
    if (!(is_libsvm ? format_libsvm((const char *)data, size, &spec, &numbers, &labels)
                    : format_csv((const char *)data, size, &spec, &numbers))) {
        require(!spec_check(&spec) && buffer_size(&numbers) == spec_bytes(&spec));
        require(!is_libsvm || buffer_size(&labels) == 4 * (size_t)spec.dims[0]);
    }
    buffer_free(&numbers);
    buffer_free(&labels);
}

static void check_cifar(const uint8_t *data, size_t size)
{
    size_t n;
    if (!format_cifar(data, size, &n))
        require(n > 0 && n * (1 + FORMAT_CIFAR_IMAGE) == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct elements elements;
    if (size < 1)
        return 0;
    const uint8_t kind = data[0] % 5;
    data++;
    size--;
    if (kind == 0)
        check_elements(format_idx(data, size, &elements), &elements, size);
    else if (kind == 1)
        check_elements(format_npy(data, size, &elements), &elements, size);
    else if (kind == 4)
        check_cifar(data, size);
    else
        check_text(data, size, kind == 3);
    return 0;
}
