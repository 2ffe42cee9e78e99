/* age - the age of the update that this thread applies. See age.h. */
#include "update/age.h"

static _Thread_local struct tern_age present = {.t = 1};

struct tern_age tern_update_age(void)
{
    return present;
}

void update_set_age(struct tern_age age)
{
    present = age;
}
