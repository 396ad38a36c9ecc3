// A tool of OMPT observes this program: it prints how often each event happened, and whether the
// words that it keeps for regions, tasks and threads came back.
#include <omp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef union {
    uint64_t value;
    void *pointer;
} Data;
typedef void (*Function)(void);
typedef Function (*Lookup)(const char *);
typedef struct {
    int (*initialize)(Lookup, int, Data *);
    void (*finalize)(Data *);
    Data data;
} Start;

enum { THREAD_BEGIN = 1, THREAD_END, PARALLEL_BEGIN, PARALLEL_END, TASK_CREATE, TASK_SCHEDULE, IMPLICIT_TASK, SYNC_REGION = 23 };
enum { BEGIN = 1, END = 2, MUTEX_ACQUIRED = 27 };

static atomic_int threads, initial, begun, ended, created, switched, completed, implicit, barriers, taskwaits, wrong;
static Data *(*thread_data)(void);

static void thread_begin(int kind, Data *thread) {
    threads++;
    initial += kind == 1;
    thread->value = 77;
}

static void parallel_begin(Data *task, const void *frame, Data *region, unsigned asked, int flags, const void *address) {
    (void)task, (void)frame, (void)flags, (void)address;
    region->value = 1000 + asked;
    begun++;
}

static void parallel_end(Data *region, Data *task, int flags, const void *address) {
    (void)task, (void)flags, (void)address;
    wrong += region->value < 1000;
    ended++;
}

static void implicit_task(int endpoint, Data *region, Data *task, unsigned size, unsigned number, int flags) {
    if (!(flags & 2))
        return;
    if (endpoint == BEGIN) {
        implicit++;
        wrong += region->value != 1000 + size || number >= size || task->value != 0;
        wrong += thread_data()->value != 77;
        task->value = 500 + number;
    } else
        wrong += task->value != 500 + number;
}

static void task_create(Data *parent, const void *frame, Data *task, int flags, int has_dependences, const void *address) {
    (void)frame, (void)has_dependences, (void)address;
    wrong += !(flags & 4) || parent->value < 500;
    task->value = 9000;
    created++;
}

static void task_schedule(Data *prior, int why, Data *next) {
    switched += why == 7;
    completed += why == 1;
    wrong += why == 7 && next->value != 9000;
    wrong += why == 1 && prior->value != 9000;
}

static void sync_region(int kind, int endpoint, Data *region, Data *task, const void *address) {
    (void)region, (void)task, (void)address;
    barriers += kind == 3 && endpoint == BEGIN;
    taskwaits += kind == 5 && endpoint == END;
}

static int initialize(Lookup lookup, int device, Data *data) {
    int (*set)(int, Function) = (int (*)(int, Function))lookup("ompt_set_callback");
    thread_data = (Data * (*)(void)) lookup("ompt_get_thread_data");
    printf("device %d, data %d, unknown name %d\n", device, (int)data->value, lookup("ompt_none") != NULL);
    printf("set:");
    printf(" %d", set(THREAD_BEGIN, (Function)thread_begin));
    printf(" %d", set(PARALLEL_BEGIN, (Function)parallel_begin));
    printf(" %d", set(PARALLEL_END, (Function)parallel_end));
    printf(" %d", set(TASK_CREATE, (Function)task_create));
    printf(" %d", set(TASK_SCHEDULE, (Function)task_schedule));
    printf(" %d", set(IMPLICIT_TASK, (Function)implicit_task));
    printf(" %d", set(SYNC_REGION, (Function)sync_region));
    printf(", mutexes %d, none %d\n", set(MUTEX_ACQUIRED, (Function)sync_region), set(0, NULL));
    return 1;
}

static void finalize(Data *data) {
    printf("%d threads, %d initial, %d regions begun, %d ended, %d implicit tasks\n", threads, initial, begun, ended, implicit);
    printf("%d tasks created, %d begun, %d completed, %d barriers, %d taskwaits\n", created, switched, completed, barriers, taskwaits);
    printf("%d wrong, data %d\n", wrong, (int)data->value);
    fflush(stdout);
}

Start *ompt_start_tool(unsigned version, const char *runtime) {
    static Start start = {initialize, finalize, {5}};
    printf("%u %d\n", version, strstr(runtime, "Combray") != NULL);
    return &start;
}

int main(void) {
    atomic_int sum = 0;
    for (int region = 0; region < 10; region++)
#pragma omp parallel num_threads(3)
    {
#pragma omp barrier
        for (int i = 0; i < 5; i++)
#pragma omp task
            sum++;
#pragma omp taskwait
#pragma omp task if (0)
        sum++;
    }
    printf("sum %d\n", sum);
    return 0;
}
