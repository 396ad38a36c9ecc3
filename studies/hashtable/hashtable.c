/* A hash table that is spread over all processes, changed by one-sided atomic operations alone.
 *
 *     mpicc -O2 hashtable.c -o hashtable -lm && mpirun -n 4 ./hashtable [KEYS [BATCH [REPETITIONS]]]
 *
 * Each process inserts KEYS keys out of its own sequence, of which every fourth is one that its neighbour
 * inserts too, and counts each key's insertions. A slot has a key and a count; a key belongs to
 * the process and slot that its hash names, or to the next free slot of that process. To insert,
 * a process claims a slot by MPI_Compare_and_swap and adds to the count by MPI_Accumulate. Ways:
 *
 *     insert    one key after another: each compare-and-swap is flushed before the next
 *     batched   BATCH compare-and-swaps are underway at the same time
 *     lookup    counts are read by MPI_Rget, BATCH at the same time
 *
 * Afterwards each process compares its own slots with what all sequences together must give. */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"
#include <stdint.h>

enum { BATCH_MAX = 1024 };

static int keys, batch;
static uint64_t slots;        /* of each process, a power of two */
static uint64_t *table;       /* key and count of each slot; a free one has the key 0 */
static MPI_Win window;

/* A mixing function: every bit of the input has an effect on every bit of the output. */
static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    value = (value ^ (value >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return value ^ (value >> 33);
}

/* The key that a process inserts as its i-th: never 0. */
static uint64_t key_of(int process, int i) {
    int owner = i % 4 == 0 ? (process + 1) % size : process;
    int index = i % 4 == 0 ? i + 1 : i; /* a key of the neighbour's own */
    return mix((uint64_t)owner << 32 | (uint64_t)(index + 1)) | 1;
}

static int home(uint64_t key) {
    return (int)(mix(key) % (uint64_t)size);
}

static uint64_t first_slot(uint64_t key) {
    return mix(key + 2) & (slots - 1);
}

/* A key on its way to its slot. */
struct insertion {
    uint64_t key, slot, found;
    int process;
};

static const uint64_t FREE = 0, ONE = 1;

static void claim(struct insertion *insertion) {
    MPI_Compare_and_swap(&insertion->key, &FREE, &insertion->found, MPI_UINT64_T, insertion->process,
                         (MPI_Aint)(2 * insertion->slot), window);
}

/* Begins with a key of the sequence. */
static struct insertion insertion_of(uint64_t key) {
    return (struct insertion){.key = key, .slot = first_slot(key), .process = home(key)};
}

/* Claims the slots of up to `width` keys at the same time; those whose slot has another key try the next. */
static void insert_all(int width) {
    static struct insertion pending[BATCH_MAX];
    int begun = 0, underway = 0;
    while (begun < keys || underway > 0) {
        while (begun < keys && underway < width) pending[underway++] = insertion_of(key_of(rank, begun++));
        for (int i = 0; i < underway; i++) claim(&pending[i]);
        MPI_Win_flush_all(window);
        int left = 0;
        for (int i = 0; i < underway; i++) {
            if (pending[i].found == FREE || pending[i].found == pending[i].key) {
                MPI_Accumulate(&ONE, 1, MPI_UINT64_T, pending[i].process, (MPI_Aint)(2 * pending[i].slot + 1), 1, MPI_UINT64_T,
                               MPI_SUM, window);
            } else {
                pending[i].slot = (pending[i].slot + 1) & (slots - 1);
                pending[left++] = pending[i];
            }
        }
        underway = left;
    }
    MPI_Win_flush_all(window);
}

/* Reads the counts of this process's keys; gives how many are wrong. */
static long look_up_all(int width) {
    static struct insertion pending[BATCH_MAX];
    static uint64_t entries[BATCH_MAX][2];
    static MPI_Request requests[BATCH_MAX];
    int begun = 0, underway = 0;
    long wrong = 0;
    while (begun < keys || underway > 0) {
        while (begun < keys && underway < width) pending[underway++] = insertion_of(key_of(rank, begun++));
        for (int i = 0; i < underway; i++)
            MPI_Rget(entries[i], 2, MPI_UINT64_T, pending[i].process, (MPI_Aint)(2 * pending[i].slot), 2, MPI_UINT64_T, window,
                     &requests[i]);
        MPI_Waitall(underway, requests, MPI_STATUSES_IGNORE);
        int left = 0;
        for (int i = 0; i < underway; i++) {
            if (entries[i][0] == pending[i].key || entries[i][0] == FREE) {
                wrong += entries[i][0] == FREE || entries[i][1] == 0;
            } else {
                pending[i].slot = (pending[i].slot + 1) & (slots - 1);
                pending[left++] = pending[i];
            }
        }
        underway = left;
    }
    return wrong;
}

static int compare_keys(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* How many keys of this process's slots have another count than all sequences together give. */
static long wrong_slots(void) {
    size_t total = (size_t)keys * (size_t)size, mine = 0, full = 0;
    uint64_t *expected = study_allocate(total, sizeof *expected), *stored = study_allocate(2 * slots, sizeof *stored);
    for (int process = 0; process < size; process++)
        for (int i = 0; i < keys; i++)
            if (home(key_of(process, i)) == rank) expected[mine++] = key_of(process, i);
    qsort(expected, mine, sizeof *expected, compare_keys);
    for (uint64_t slot = 0; slot < slots; slot++)
        if (table[2 * slot] != FREE) {
            stored[2 * full] = table[2 * slot];
            stored[2 * full++ + 1] = table[2 * slot + 1];
        }
    qsort(stored, full, 2 * sizeof *stored, compare_keys);
    long wrong = 0;
    size_t next = 0;
    for (size_t i = 0; i < mine;) {
        size_t same = i;
        while (same < mine && expected[same] == expected[i]) same++;
        wrong += next >= full || stored[2 * next] != expected[i] || stored[2 * next + 1] != same - i;
        next++;
        i = same;
    }
    free(expected);
    free(stored);
    return wrong + (long)(full > next ? full - next : 0);
}

static void clear(void) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    memset(table, 0, 2 * slots * sizeof *table);
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void run(const char *name, int width, int lookup) {
    MPI_Barrier(MPI_COMM_WORLD);
    double started = MPI_Wtime();
    long wrong = 0;
    MPI_Win_lock_all(0, window);
    if (lookup)
        wrong = look_up_all(width);
    else
        insert_all(width);
    MPI_Win_unlock_all(window);
    double total = MPI_Wtime() - started;
    /* All of it is communication, but for the hashing. */
    study_case(name, total, total);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    wrong += wrong_slots();
    MPI_Win_unlock(rank, window);
    study_verify(name, (double)wrong, 0);
}

int main(int argc, char **argv) {
    study_begin("hashtable", &argc, &argv, MPI_THREAD_SINGLE);
    keys = study_number(argc, argv, 1, 10000);
    batch = study_number(argc, argv, 2, 64);
    int repetitions = study_number(argc, argv, 3, 1);
    study_need(keys && keys <= 10000000 && batch && batch <= BATCH_MAX && repetitions,
               "hashtable [KEYS [BATCH [REPETITIONS]]]: at most 10000000 keys, a batch of at most 1024");
    for (slots = 64; slots < 4 * (uint64_t)keys; slots *= 2) continue;
    MPI_Win_allocate((MPI_Aint)(2 * slots * sizeof *table), sizeof *table, MPI_INFO_NULL, MPI_COMM_WORLD, &table, &window);
    for (int repetition = 0; repetition < repetitions; repetition++) {
        clear();
        run("insert", 1, 0);
        clear();
        run("batched", batch, 0);
        run("lookup", batch, 1);
    }
    MPI_Win_free(&window);
    return study_end();
}
