/* timing - see timing.h. */
#include "core/timing.h"

#include <math.h>

static const double smoothing = 0.1, quantile = 0.9999;
/* Clocks that are expected within the horizon: at least, and while nothing is known of a worker. */
static const double least_expected = 2, first_expected = 20;

#define MS UINT64_C(1000000)
#define BREAK_NS (100 * MS) /* a step that takes longer says nothing about the others */
#define PAUSE_MIN_NS (MS / 20)
#define PAUSE_MAX_NS (2 * MS)

enum {
    JUMP = 1 << 20,  /* clocks that nobody advances in a round */
    AHEAD_PARTS = 8, /* a pause is at most this part of the look-ahead, */
    AGE_PARTS = 4,   /* and of the age that replicas may have */
    LAG_PARTS = 64,  /* by one of which the lag shrinks in a round */
};

/* Sums the probabilities from a k below which there is nothing to speak of: at most some ten standard
 * deviations of them. */
uint64_t poisson_quantile(double rate, double p)
{
    if (rate <= 0)
        return 0;
    double first = floor(rate - 9 * sqrt(rate));
    double k = first > 0 ? first : 0;
    int sign; /* lgamma() would write a variable that all threads share */
    double probability = exp(k * log(rate) - rate - lgamma_r(k + 1, &sign));
    double sum = probability;
    while (sum < p && k < rate + 20 * sqrt(rate) + 50) {
        k++;
        probability *= rate / k;
        sum += probability;
    }
    return (uint64_t)k;
}

uint64_t timing_round(struct timing *timing, uint64_t clock, uint64_t now_ns, uint64_t horizon_ns)
{
    const uint64_t advanced = clock - timing->clock;
    const uint64_t elapsed_ns = now_ns > timing->at_ns ? now_ns - timing->at_ns : 0;
    double rate = timing->rate;
    /* A worker that pauses, as for an evaluation, says nothing about its speed. Nor does one whose clock was set. */
    if (advanced && advanced < JUMP && elapsed_ns && timing->at_ns && elapsed_ns < BREAK_NS) {
        const double now = (double)advanced / (double)elapsed_ns;
        timing->rate = rate > 0 ? (1 - smoothing) * rate + smoothing * now : now;
        rate = now > timing->rate ? now : timing->rate;
    }
    if (advanced || !timing->at_ns) {
        timing->clock = clock;
        timing->at_ns = now_ns;
    }
    double expected = rate > 0 ? rate * (double)horizon_ns : first_expected;
    return clock +
           poisson_quantile(expected > least_expected ? expected : least_expected, quantile);
}

uint64_t timing_duration_ns(const struct timing *timing, uint64_t n_clocks)
{
    return timing->rate > 0 ? (uint64_t)((double)n_clocks / timing->rate) : 0;
}

/* ---- Rounds ------------------------------------------------------------------------------------- */

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void pace_plan(struct pace *pace, uint64_t ahead_ns, uint64_t max_age_ns, uint64_t least_ns)
{
    uint64_t pause_ns = lower(ahead_ns / AHEAD_PARTS, max_age_ns / AGE_PARTS);
    pause_ns = lower(pause_ns, PAUSE_MAX_NS);
    if (pause_ns < PAUSE_MIN_NS)
        pause_ns = PAUSE_MIN_NS;
    pace->pause_ns = pause_ns > least_ns ? pause_ns : least_ns;
    pace->age_ns = max_age_ns < UINT64_MAX ? max_age_ns : 0;
}

void pace_note(struct pace *pace, uint64_t due_ns, uint64_t ended_ns)
{
    const uint64_t took_ns = ended_ns > due_ns ? ended_ns - due_ns : 0;
    const uint64_t left_ns = pace->lag_ns - pace->lag_ns / LAG_PARTS;
    pace->lag_ns = took_ns > left_ns ? took_ns : left_ns;
}

uint64_t pace_horizon_ns(const struct pace *pace, uint64_t pause_ns)
{
    const uint64_t next_ns = pause_ns > pace->pause_ns ? pause_ns : pace->pause_ns;
    const uint64_t horizon_ns = next_ns + 2 * pace->lag_ns;
    return horizon_ns > pace->age_ns / 2 ? horizon_ns : pace->age_ns / 2;
}

uint64_t pace_refresh_ns(const struct pace *pace, uint64_t max_age_ns)
{
    return pace->pause_ns < max_age_ns / 2 ? max_age_ns - pace->pause_ns : max_age_ns / 2;
}
