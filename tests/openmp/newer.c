// Routines of GCC 13 and later. Linked with Combray's library, as GNU's of GCC 12 lacks them.
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

extern int omp_in_explicit_task(void);
extern void *omp_get_mapped_ptr(const void *, int);
extern int omp_target_is_accessible(const void *, size_t, int);
extern int omp_target_memcpy_async(void *, const void *, size_t, size_t, size_t, int, int, int, omp_depend_t *);
extern int omp_target_memcpy_rect_async(void *, const void *, size_t, int, const size_t *, const size_t *, const size_t *, const size_t *,
                                        const size_t *, int, int, int, omp_depend_t *);
extern void GOMP_taskwait_depend_nowait(void **);

static int failed;

static void check(int is_right, const char *what) {
    if (!is_right) {
        printf("wrong: %s\n", what);
        failed = 1;
    }
}

int main(void) {
    int x = 0, copy = 0, rectangle[4] = {0}, order = 0;
    check(!omp_in_explicit_task(), "outside of tasks");
    check(omp_get_mapped_ptr(&x, omp_get_initial_device()) == &x && !omp_get_mapped_ptr(&x, 5), "mapped");
    check(omp_target_is_accessible(&x, sizeof x, 0) && !omp_target_is_accessible(&x, sizeof x, 5), "accessible");
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        omp_depend_t object;
        check(!omp_in_explicit_task(), "an implicit task");
#pragma omp depobj(object) depend(in : x)
#pragma omp task depend(out : x) shared(x)
        {
            check(omp_in_explicit_task(), "in a task");
            usleep(20000);
            x = 7;
        }
        check(omp_target_memcpy_async(&copy, &x, sizeof x, 0, 0, 0, 0, 1, &object) == 0 && copy == 7, "copied after the task");
        const size_t one[1] = {1}, two[1] = {2}, four[1] = {4};
        check(omp_target_memcpy_rect_async(rectangle, &x, sizeof x, 1, one, two, (size_t[1]){0}, four, one, 0, 0, 1, &object) == 0 &&
                  rectangle[2] == 7,
              "a part copied");
#pragma omp depobj(object) destroy
        // What depends on b waits for what depends on a.
        int a, b;
        void *list[] = {(void *)2, (void *)2, &a, &b};
#pragma omp task depend(out : a) shared(order)
        {
            usleep(20000);
            order = 1;
        }
        GOMP_taskwait_depend_nowait(list);
#pragma omp task depend(in : b) shared(order)
        check(order == 1, "the second task waits for the first");
    }
    if (!failed)
        printf("as expected\n");
    return failed;
}
