// Cancellation, which needs OMP_CANCELLATION=true. Prints only what every order of threads gives.
#include <omp.h>
#include <stdio.h>

static int faults;

static void expect(const char *what, int is_right) {
    printf("%s: %s\n", what, is_right ? "right" : "wrong");
    faults += !is_right;
}

int main(void) {
    printf("cancellation %d\n", omp_get_cancellation());
    for (int round = 0; round < 200; round++) {
        int found = 0, ran = 0, past = 0, after = 0;
#pragma omp parallel num_threads(4)
        {
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 100000; i++) {
#pragma omp atomic
                ran++;
                if (i == 50) {
#pragma omp atomic write
                    found = 1;
#pragma omp cancel for
                }
#pragma omp cancellation point for
            }
#pragma omp atomic
            after++;
        }
        if (round == 0)
            expect("loop", found && after == 4 && (!omp_get_cancellation() || ran < 100000));
        faults += !found || after != 4;
        after = 0;
#pragma omp parallel num_threads(4)
        {
#pragma omp barrier
            if (omp_get_thread_num() == round % 4) {
#pragma omp cancel parallel
            }
#pragma omp barrier
#pragma omp atomic
            past++;
#pragma omp single
            after++;
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 8; i++)
#pragma omp atomic
                after++;
#pragma omp barrier
        }
        int wanted = omp_get_cancellation() ? 0 : 4;
        if (round == 0)
            expect("region", past == wanted);
        faults += past != wanted;
        // The constructs of the next region are whole again.
        int sum = 0, singles = 0;
#pragma omp parallel num_threads(4)
        for (int i = 0; i < 10; i++) {
#pragma omp for schedule(dynamic) reduction(+ : sum)
            for (int j = 0; j < 10; j++)
                sum += j;
#pragma omp single
            singles++;
        }
        faults += sum != 450 || singles != 10;
        int sections = 0;
#pragma omp parallel num_threads(2)
#pragma omp sections
        {
#pragma omp atomic
            sections++;
#pragma omp section
            {
#pragma omp cancel sections
#pragma omp atomic
                sections += 100;
            }
        }
        faults += sections % 100 > 1 || (omp_get_cancellation() && sections >= 100);
        int begun = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
        {
#pragma omp taskgroup
            for (int i = 0; i < 200; i++) {
#pragma omp task
                {
#pragma omp atomic
                    begun++;
#pragma omp cancel taskgroup
#pragma omp atomic
                    begun += 1000;
                }
            }
#pragma omp task
#pragma omp atomic
            begun += 1000000;
        }
        faults += begun < 1000000 || (omp_get_cancellation() ? begun % 1000000 >= 1000 : begun != 1200200);
    }
    expect("all rounds", faults == 0);
    return faults != 0;
}
