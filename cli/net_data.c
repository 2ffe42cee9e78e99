/* net_data - see net_data.h. */
#include "net_data.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"

enum { MAX_FILES = 16 };

struct tern_array *net_compute(const struct nd *nd, const char *op, const char *attributes,
                               struct tern_array **inputs, size_t n)
{
    struct tern_array *out = NULL;
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        ok = ok && inputs[i];
    if (ok && nd->tern_array_apply(op, attributes, inputs, n, &out))
        out = NULL;
    for (size_t i = 0; i < n; i++)
        if (inputs[i])
            nd->tern_array_close(inputs[i]);
    return out;
}

/* Whether a path ends so, perhaps with .gz behind it. */
static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path);
    const size_t m = strlen(end);
    if (n > 3 && strcmp(path + n - 3, ".gz") == 0)
        n -= 3;
    return n > m && strncmp(path + n - m, end, m) == 0;
}

static bool is_cifar(const char *path)
{
    return ends_with(path, ".bin");
}

static const char *format_of(const char *path)
{
    return ends_with(path, ".npy") ? "npy" : ends_with(path, ".csv") ? "csv" : "idx";
}

/* All files of a list, one behind the other. `labels` NULL: there are none in these files. */
static bool read_list(const struct nd *nd, const char *list, struct tern_array **data,
                      struct tern_array **labels)
{
    struct tern_array *parts[2][MAX_FILES] = {0};
    size_t n = 0;
    bool ok = true;
    while (ok && *list) {
        char path[PATH_MAX];
        const size_t length = strcspn(list, ",");
        snprintf(path, sizeof path, "%.*s", (int)length, list);
        list += length + (list[length] == ',');
        if (n == MAX_FILES) {
            complain("at most %d files can be read", MAX_FILES);
            break;
        }
        ok = is_cifar(path) && labels
                 ? nd->tern_array_load_cifar(path, &parts[0][n], &parts[1][n]) == TERN_OK
                 : nd->tern_array_load(path, format_of(path), &parts[0][n]) == TERN_OK;
        n++;
    }
    struct tern_array *all[2] = {0};
    for (int i = 0; i < 2; i++)
        all[i] = ok && n > 1   ? net_compute(nd, "concat", "axis=0", parts[i], n)
                 : ok && n > 0 ? parts[i][0]
                               : NULL;
    if (!all[0] || (labels && !all[1]))
        complain("%s", n == 0 ? "there is no file in the list" : nd->tern_error());
    *data = all[0];
    if (labels)
        *labels = all[1];
    return all[0] && (!labels || all[1]);
}

/* The data as f32, bytes as 0 to 1, and images with their channels. */
static struct tern_array *prepare(const struct nd *nd, struct tern_array *data)
{
    struct tern_nd_shape shape;
    struct tern_array *view;
    if (nd->tern_array_shape(data, &shape))
        return NULL;
    data = net_compute(nd, "cast", "type=f32", &data, 1);
    if (shape.type == TERN_ND_U8) {
        struct tern_array *scale = net_compute(nd, "constant", "value=255 type=f32", NULL, 0);
        data = net_compute(nd, "divide", NULL, (struct tern_array *[]){data, scale}, 2);
    }
    if (shape.n_dims != 3 || !data)
        return data;
    const int64_t dims[] = {shape.dims[0], 1, shape.dims[1], shape.dims[2]};
    const bool ok = nd->tern_array_reshape(data, 4, dims, &view) == TERN_OK;
    nd->tern_array_close(data);
    return ok ? view : NULL;
}

/* The file FOLDER/NAME or FOLDER/NAME.gz, behind what `list` has already; false: there is none. */
static bool find(const char *folder, const char *name, char *list, size_t size)
{
    const size_t used = strlen(list);
    const char *comma = used > 0 ? "," : "";
    for (int i = 0; i < 2; i++) {
        snprintf(list + used, size - used, "%s%s/%s%s", comma, folder, name, i == 0 ? "" : ".gz");
        if (access(list + used + strlen(comma), R_OK) == 0)
            return true;
    }
    list[used] = 0;
    return false;
}

/* The files of MNIST or CIFAR-10 in a folder. */
static bool find_all(const char *folder, bool is_test, char *data, char *labels, size_t size)
{
    const char *images = is_test ? "t10k-images-idx3-ubyte" : "train-images-idx3-ubyte";
    const char *digits = is_test ? "t10k-labels-idx1-ubyte" : "train-labels-idx1-ubyte";
    if (find(folder, images, data, size))
        return find(folder, digits, labels, size);
    if (is_test)
        return find(folder, "test_batch.bin", data, size);
    for (int i = 1; i <= 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        find(folder, name, data, size);
    }
    return data[0] != 0;
}

bool net_read(const struct nd *nd, bool is_test, const char *data, const char *labels,
              struct net_set *set)
{
    static char found[8 * PATH_MAX], found_labels[PATH_MAX + 64];
    struct stat status;
    *set = (struct net_set){0};
    if (stat(data, &status) == 0 && S_ISDIR(status.st_mode)) {
        found[0] = found_labels[0] = 0;
        if (!find_all(data, is_test, found, found_labels, sizeof found_labels)) {
            complain("%s has neither the files of MNIST nor those of CIFAR-10", data);
            return false;
        }
        data = found;
        labels = found_labels[0] ? found_labels : NULL;
    }
    const bool has_labels = is_cifar(data);
    if (!has_labels && !labels) {
        complain("which labels has %s? see --%slabels", data, is_test ? "test-" : "");
        return false;
    }
    if (!read_list(nd, data, &set->data, has_labels ? &set->labels : NULL) ||
        (!has_labels && !read_list(nd, labels, &set->labels, NULL)))
        return false;
    set->data = prepare(nd, set->data);
    set->labels = net_compute(nd, "cast", "type=i64", &set->labels, 1);
    if (!set->data || !set->labels || nd->tern_array_shape(set->data, &set->shape)) {
        complain("%s: %s", data, nd->tern_error());
        return false;
    }
    return true;
}

void net_release(const struct nd *nd, struct net_set *set)
{
    if (set->data)
        nd->tern_array_close(set->data);
    if (set->labels)
        nd->tern_array_close(set->labels);
}
