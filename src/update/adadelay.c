/* adadelay - AdaGrad whose rate falls with the delay of an update (Li's thesis, chapter 8). */
#include <math.h>

#include "update/update.h"

/* One element. `ratio` is (t + delay) / t. */
static inline double step(const double *p, double ratio, double gradient, double *sum)
{
    *sum += gradient * gradient / ratio;
    return p[0] * gradient / (sqrt(*sum * ratio) + p[1]);
}

static void apply(const struct tern_updater *updater, enum tern_type type, size_t length,
                  void *value, void *state, const void *update)
{
    const struct tern_age age = tern_update_age();
    const double ratio = 1 + (double)age.delay / (double)age.t;
    for (size_t i = 0; i < length; i++) {
        double sum = update_get(type, state, i);
        const double change = step(updater->parameters, ratio, update_get(type, update, i), &sum);
        update_put(type, state, i, sum);
        update_put(type, value, i, update_get(type, value, i) - change);
    }
}

struct tern_updater tern_updater_adadelay(double rate, double epsilon)
{
    return (struct tern_updater){
        .name = "adadelay",
        .state_per_element = 1,
        .apply = apply,
        .check = update_check_adagrad,
        .parameters = {rate, epsilon},
        .asks_age = true,
    };
}
