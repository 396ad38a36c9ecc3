// Formats in which threads report where they run.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const FORMATS[] = {
    "%L %n %N %a %t %T", "[%4n][%.4n][%0.4n]", "%{nesting_level}.%{thread_num}.%{num_threads}.%{ancestor_tnum}.%{team_num}.%{num_teams}",
    "%A|%{thread_affinity}", "%%|no field", "[%0.12A][%.12A][%12A]", "[%0.5a][%.5a][%5a]",
};

int main(void) {
    char text[4096], host[256], expected[600];
    size_t length = omp_get_affinity_format(text, sizeof text);
    printf("%zu %s\n", length, text);
    omp_set_affinity_format("%n of %N");
    length = omp_get_affinity_format(text, 4);
    printf("%zu %s\n", length, text);
    length = omp_capture_affinity(text, sizeof text, "");
    printf("%zu %s\n", length, text);
    length = omp_capture_affinity(NULL, 0, "%n");
    printf("%zu\n", length);
    omp_set_max_active_levels(2);
    for (unsigned i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++) {
        omp_capture_affinity(text, sizeof text, FORMATS[i]);
        printf("outside: %s\n", text);
#pragma omp parallel num_threads(3) private(text)
#pragma omp for ordered schedule(static, 1)
        for (int thread = 0; thread < 3; thread++) {
#pragma omp ordered
            {
                size_t needed = omp_capture_affinity(text, sizeof text, FORMATS[i]);
                printf("%zu %s\n", needed, text);
#pragma omp parallel num_threads(2) private(text)
#pragma omp single
                {
                    omp_capture_affinity(text, sizeof text, "%L %N %a");
                    printf("inside: %s\n", text);
                }
            }
        }
    }
    gethostname(host, sizeof host);
    snprintf(expected, sizeof expected, "%s %d", host, getpid());
    omp_capture_affinity(text, sizeof text, "%H %P");
    printf("%d\n", strcmp(text, expected));
    omp_display_affinity("level %L thread %n");
    return 0;
}
