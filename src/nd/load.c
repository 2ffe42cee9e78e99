/* load - the public calls that read arrays from files, and parameters of modules from and to safetensors files. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "nd/file.h"
#include "nd/format.h"
#include "nd/module.h"

/* ---- Arrays -------------------------------------------------------------------------------------- */

static enum tern_status array_from(const struct spec *spec, const void *data,
                                   struct tern_array **array)
{
    struct tern_nd_shape shape = {.type = spec->type, .n_dims = spec->n_dims};
    memcpy(shape.dims, spec->dims, sizeof shape.dims);
    return tern_array_new(&shape, data, array);
}

static void turn_around(uint8_t *bytes, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++, bytes += size) {
        for (size_t k = 0; k < size / 2; k++) {
            const uint8_t byte = bytes[k];
            bytes[k] = bytes[size - 1 - k];
            bytes[size - 1 - k] = byte;
        }
    }
}

static enum tern_status from_elements(const struct elements *elements, uint8_t *bytes,
                                      struct tern_array **array)
{
    if (elements->is_big_endian)
        turn_around(bytes + elements->offset, spec_count(&elements->spec),
                    spec_type_bytes(elements->spec.type));
    return array_from(&elements->spec, bytes + elements->offset, array);
}

enum tern_status tern_array_load(const char *path, const char *format, struct tern_array **array)
{
    struct buffer bytes = {0}, numbers = {0};
    struct elements elements = {0};
    if (!array || !format)
        return fail(TERN_INVALID, "the format or the result is NULL");
    enum tern_status status = file_read(path, &bytes);
    if (!status && !strcmp(format, "idx")) {
        status = format_idx(buffer_head(&bytes), buffer_size(&bytes), &elements);
    } else if (!status && !strcmp(format, "npy")) {
        status = format_npy(buffer_head(&bytes), buffer_size(&bytes), &elements);
    } else if (!status && !strcmp(format, "csv")) {
        status =
            format_csv((char *)buffer_head(&bytes), buffer_size(&bytes), &elements.spec, &numbers);
        if (!status)
            status = array_from(&elements.spec, buffer_head(&numbers), array);
    } else if (!status) {
        status = fail(TERN_INVALID, "'%.40s' is no format of arrays: idx, npy or csv", format);
    }
    if (!status && strcmp(format, "csv") != 0)
        status = from_elements(&elements, buffer_head(&bytes), array);
    buffer_free(&bytes);
    buffer_free(&numbers);
    return status;
}

enum tern_status tern_array_load_libsvm(const char *path, struct tern_array **data,
                                        struct tern_array **labels)
{
    struct buffer bytes = {0}, numbers = {0}, answers = {0};
    struct spec spec;
    struct tern_array *both[2] = {NULL, NULL};
    if (!data || !labels)
        return fail(TERN_INVALID, "a result is NULL");
    enum tern_status status = file_read(path, &bytes);
    if (!status)
        status = format_libsvm((char *)buffer_head(&bytes), buffer_size(&bytes), &spec, &numbers,
                               &answers);
    if (!status)
        status = array_from(&spec, buffer_head(&numbers), &both[0]);
    if (!status) {
        spec.n_dims = 1;
        status = array_from(&spec, buffer_head(&answers), &both[1]);
    }
    if (status && both[0])
        (void)tern_array_close(both[0]);
    if (!status) {
        *data = both[0];
        *labels = both[1];
    }
    buffer_free(&bytes);
    buffer_free(&numbers);
    buffer_free(&answers);
    return status;
}

/* Images and labels of a file, apart. */
static enum tern_status split_cifar(const uint8_t *bytes, size_t n, struct tern_array **both)
{
    struct spec spec = {.type = TERN_ND_U8, .n_dims = 4, .dims = {(int64_t)n, 3, 32, 32}};
    void *images, *labels;
    enum tern_status status = array_from(&spec, NULL, &both[0]);
    spec.n_dims = 1;
    if (!status)
        status = array_from(&spec, NULL, &both[1]);
    if (!status)
        status = tern_array_data(both[0], &images, NULL);
    if (!status)
        status = tern_array_data(both[1], &labels, NULL);
    for (size_t i = 0; i < n && !status; i++, bytes += 1 + FORMAT_CIFAR_IMAGE) {
        ((uint8_t *)labels)[i] = *bytes;
        memcpy((uint8_t *)images + i * FORMAT_CIFAR_IMAGE, bytes + 1, FORMAT_CIFAR_IMAGE);
    }
    return status;
}

enum tern_status tern_array_load_cifar(const char *path, struct tern_array **data,
                                       struct tern_array **labels)
{
    struct buffer bytes = {0};
    struct tern_array *both[2] = {NULL, NULL};
    size_t n = 0;
    if (!data || !labels)
        return fail(TERN_INVALID, "a result is NULL");
    enum tern_status status = file_read(path, &bytes);
    if (!status)
        status = format_cifar(buffer_head(&bytes), buffer_size(&bytes), &n);
    if (!status)
        status = split_cifar(buffer_head(&bytes), n, both);
    for (unsigned i = 0; i < 2 && status; i++)
        if (both[i])
            (void)tern_array_close(both[i]);
    if (!status) {
        *data = both[0];
        *labels = both[1];
    }
    buffer_free(&bytes);
    return status;
}

/* ---- Modules ------------------------------------------------------------------------------------- */

enum tern_status tern_module_save(struct tern_module *module, const char *path)
{
    MODULE_CHECK(module);
    const uint32_t n = module->n_parameters;
    if (n > SAFETENSORS_MAX)
        return fail(TERN_LIMIT, "a file has at most %d tensors", SAFETENSORS_MAX);
    struct safetensor *tensors = calloc(n + (size_t)1, sizeof *tensors);
    struct slice *parts = calloc(n + (size_t)1, sizeof *parts);
    struct buffer header = {0};
    enum tern_status status = TERN_OK;
    uint64_t at = 0;
    for (uint32_t i = 0; i < n && tensors && parts && !status; i++) {
        const struct module_value *value = &module->parameters[i];
        status = nd_engine_wait(&value->storage->variable);
        tensors[i] = (struct safetensor){
            .spec = value->spec, .begin = at, .end = at + spec_bytes(&value->spec)};
        at = tensors[i].end;
        strcpy(tensors[i].name, value->name);
        parts[i + 1] = (struct slice){value->storage->data, spec_bytes(&value->spec)};
    }
    if (!status && (!tensors || !parts || !format_put_safetensors(tensors, n, &header)))
        status = fail(TERN_NO_MEMORY, "there is no memory for the header of a file");
    if (!status) {
        parts[0] = (struct slice){buffer_head(&header), buffer_size(&header)};
        status = file_write(path, parts, n + (size_t)1);
    }
    free(tensors);
    free(parts);
    buffer_free(&header);
    return status;
}

static const struct safetensor *find(const struct safetensor *tensors, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(tensors[i].name, name))
            return &tensors[i];
    return NULL;
}

/* Copies all parameters, or none: `pass` 0 checks, 1 copies. */
static enum tern_status take_parameters(struct tern_module *module,
                                        const struct safetensor *tensors, uint32_t n,
                                        const uint8_t *data)
{
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < module->n_parameters; i++) {
            struct module_value *value = &module->parameters[i];
            const struct safetensor *tensor = find(tensors, n, value->name);
            if (!tensor || tensor->spec.type != value->spec.type ||
                !spec_same_shape(&tensor->spec, &value->spec)) {
                char wanted[SPEC_TEXT];
                return fail(TERN_MISMATCH, "the file has no tensor '%s' of type %s and shape %s",
                            value->name, spec_type_name(value->spec.type),
                            spec_print(&value->spec, wanted));
            }
            if (!pass)
                continue;
            (void)nd_engine_wait_idle(&value->storage->variable);
            nd_engine_forget(&value->storage->variable);
            memcpy(value->storage->data, data + tensor->begin, spec_bytes(&value->spec));
        }
    }
    return TERN_OK;
}

enum tern_status tern_module_load(struct tern_module *module, const char *path)
{
    MODULE_CHECK(module);
    struct buffer bytes = {0};
    struct safetensor *tensors = malloc(SAFETENSORS_MAX * sizeof *tensors);
    uint32_t n = 0;
    uint64_t length = 0;
    enum tern_status status =
        tensors ? file_read(path, &bytes)
                : fail(TERN_NO_MEMORY, "there is no memory for the header of a file");
    const uint8_t *head = buffer_head(&bytes);
    const size_t size = buffer_size(&bytes);
    for (unsigned i = 0; i < 8 && size >= 8; i++)
        length |= (uint64_t)head[i] << 8 * i;
    if (!status && (size < 8 || length > size - 8))
        status = fail(TERN_INVALID, "%.300s is cut off, or no safetensors file", path);
    if (!status)
        status = format_safetensors((const char *)head + 8, (size_t)length, size - 8 - length,
                                    tensors, &n);
    if (!status)
        status = take_parameters(module, tensors, n, head + 8 + length);
    free(tensors);
    buffer_free(&bytes);
    return status;
}
