/*
 * nd_library - libternnd and OpenBLAS, loaded when a command needs them, so that `tern` depends on neither.
 */
#ifndef CLI_ND_LIBRARY_H
#define CLI_ND_LIBRARY_H

#include <stdbool.h>

#include <tern/nd.h>

/* clang-format off */
#define ND_CALLS(X)                                                                            \
    X(tern_array_new) X(tern_array_close) X(tern_array_apply) X(tern_array_assign)             \
    X(tern_array_shape) X(tern_array_read) X(tern_array_reshape) X(tern_array_wait_all)        \
    X(tern_array_load) X(tern_array_load_cifar)                                                \
    X(tern_symbol_variable) X(tern_symbol_apply) X(tern_symbol_close) X(tern_symbol_plan)      \
    X(tern_symbol_save) X(tern_symbol_load)                                                    \
    X(tern_module_bind) X(tern_module_close) X(tern_module_init) X(tern_module_optimizer)      \
    X(tern_module_forward) X(tern_module_backward) X(tern_module_update) X(tern_module_memory) \
    X(tern_module_name) X(tern_module_gradient) X(tern_module_score) X(tern_module_save)       \
    X(tern_module_load) X(tern_iterator_open) X(tern_iterator_close) X(tern_iterator_next)     \
    X(tern_store_open) X(tern_store_close) X(tern_store_set_function) X(tern_store_push)       \
    X(tern_store_pull) X(tern_store_wait)                                                      \
    X(tern_node_open) X(tern_node_close) X(tern_node_self) X(tern_barrier)                     \
    X(tern_nd_set_threads) X(tern_nd_gemm) X(tern_nd_convolution) X(tern_error)
/* clang-format on */

typedef void sgemm_function(int order, int transpose_a, int transpose_b, int m, int n, int k,
                            float alpha, const float *a, int lda, const float *b, int ldb,
                            float beta, float *c, int ldc);

struct nd {
#define CALL(name) __typeof__(&(name)) name;
    ND_CALLS(CALL)
#undef CALL
    sgemm_function *sgemm; /* NULL: OpenBLAS is not there */
};

/* Loads libternnd from TERN_ND_LIBRARY, from beside the command, from where packages are installed. Complains. */
bool nd_load(struct nd *nd);

#endif
