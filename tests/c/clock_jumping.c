// Interposes the system calls that return the time of day, which jumps back and forth by hours from
// one call to the next, as if the clock were set. Monotonic clocks are left alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

enum { HOUR = 3600 };

static long jump(void) {
    static atomic_uint calls;
    static const long by[] = {0, HOUR, -HOUR, 24 * HOUR, -24 * HOUR};
    return by[atomic_fetch_add(&calls, 1) % 5];
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jump();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return result;
}

time_t time(time_t *also) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (also) *also = precise.tv_sec;
    return precise.tv_sec;
}
