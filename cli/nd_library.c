/* nd_library - see nd_library.h. */
#include "nd_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

/* FOLDER/NAME, where FOLDER has the command itself. */
static void *open_beside(const char *name)
{
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    if (n < 0)
        return NULL;
    path[n] = 0;
    char *end = strrchr(path, '/');
    if (!end)
        return NULL;
    snprintf(end + 1, 64, "%s", name);
    return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

bool nd_load(struct nd *nd)
{
    const char *given = getenv("TERN_ND_LIBRARY");
    void *library = NULL;
    if (given) {
        library = dlopen(given, RTLD_NOW);
    } else {
        /* libternnd needs libtern, which is found by its name once it is there. */
        if (open_beside("libtern.so.0"))
            library = open_beside("libternnd.so.0");
        if (!library)
            library = dlopen("libternnd.so.0", RTLD_NOW);
    }
    if (!library) {
        complain("%s", dlerror());
        return false;
    }
    bool ok = true;
#define CALL(name)                               \
    *(void **)&nd->name = dlsym(library, #name); \
    ok = ok && nd->name;
    ND_CALLS(CALL)
#undef CALL
    if (!ok) {
        complain("libternnd is of another version");
        return false;
    }
    void *blas = dlopen("libopenblas.so.0", RTLD_NOW);
    nd->sgemm = NULL;
    if (blas) {
        void (*set_threads)(int) = NULL;
        *(void **)&nd->sgemm = dlsym(blas, "cblas_sgemm");
        *(void **)&set_threads = dlsym(blas, "openblas_set_num_threads");
        if (set_threads)
            set_threads(1);
    }
    return true;
}
