/* op_list - every operator once, in the order of their names; a new operator is a line here and a struct in a file op_*.c. */
#ifndef ND_OP_LIST_H
#define ND_OP_LIST_H

/* clang-format off */
#define OP_LIST(X) \
    X(absolute) X(add) X(arange) X(argmax) X(argmin) X(batch_norm) X(batch_norm_sums) X(broadcast_to) X(cast) X(ceil) X(clip)       \
    X(concat) X(constant) X(convolution) X(convolution_data) X(convolution_weight) X(copy) X(cos) X(divide) X(dot) X(dropout) X(embedding) X(equal) X(exp) X(expm1)      \
    X(floor) X(full) X(fully_connected) X(greater) X(greater_equal) X(isnan) X(less) X(less_equal) \
    X(log) X(log1p) X(log_softmax) X(logical_and) X(logical_not) X(logical_or) X(max) X(maximum)   \
    X(mean) X(min) X(minimum) X(moments) X(multiply) X(negative) X(not_equal) X(one_hot) X(pool) X(pool_gradient) X(power)             \
    X(random_normal) X(random_uniform) X(reciprocal) X(relu) X(reshape) X(rint) X(sigmoid) X(sign) \
    X(sin) X(slice) X(softmax) X(softmax_output) X(softmax_output_gradient) X(softplus) X(sqrt)    \
    X(square) X(stop_gradient) X(subtract) X(sum) X(sum_to) X(take) X(tanh) X(transpose)           \
    X(unslice) X(untake) X(where)
/* clang-format on */

#endif
