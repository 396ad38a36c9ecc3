/* Distributed shared memory: each process owns some pages, and all work on all of them.
 *
 *     mpicc -O2 page_server.c -o page_server && mpirun -n 4 ./page_server [PAGE_BYTES [ROUNDS]]
 *
 * A process asks for three pages at once, wherever they live, changes them and writes them back. The owner
 * takes a page back only if nobody else did so meanwhile; else the writer fetches it anew. While a process
 * waits for pages, it serves its own: so one thread is enough, and nobody waits for nobody. Every page
 * that comes is checked byte by byte. At the end the versions of all pages together must be the number of
 * successful writes. */
#define _POSIX_C_SOURCE 200112L
#include <combray.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FETCH_TAG = 0, STORE_TAG = 1, FIRST_ANSWER_TAG = 2 };
enum { PAGES_EACH = 16, AT_ONCE = 3, SENDS_MAX = 64, TIMED = 300 };

/* What a page begins with; the rest of its bytes follow from it. */
struct head {
    int number, version, writer;
};

/* What a question begins with; with a store, the page follows. */
struct question {
    int page, answer_tag;
};

static int rank, size, pages;
static size_t page_bytes = 8192;
static char *own[PAGES_EACH];

/* Questions that may come at any time. */
static combray_message asked_fetch, asked_store;

/* Answers on their way, and memory that they may still use. */
static MPI_Request sends[SENDS_MAX];
static char *retired[SENDS_MAX];
static int sends_count, retired_count;

static void check(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    if (code == MPI_SUCCESS)
        return;
    combray_error_string(code, text, sizeof text);
    fprintf(stderr, "page_server: %s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define CHECK(call) check(call, #call)

static void wrong(const char *what, int page) {
    fprintf(stderr, "page_server: rank %d: page %d: %s\n", rank, page, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static char *new_page(void) {
    char *page = malloc(page_bytes);
    if (!page)
        wrong("no memory", -1);
    return page;
}

static unsigned char content(const struct head *head, size_t at) {
    return (unsigned char)(at * 7 + (size_t)(head->number * 31 + head->version * 17 + head->writer));
}

static void fill(char *page, struct head head) {
    memcpy(page, &head, sizeof head);
    for (size_t i = sizeof head; i < page_bytes; i++)
        page[i] = (char)content(&head, i);
}

/* What a page says of itself, if it is what was asked for and nothing in it is mixed up. */
static struct head checked(const char *page, int number) {
    struct head head;
    memcpy(&head, page, sizeof head);
    if (head.number != number)
        wrong("is another page", number);
    for (size_t i = sizeof head; i < page_bytes; i++)
        if ((unsigned char)page[i] != content(&head, i))
            wrong("has wrong bytes", number);
    return head;
}

/* Waits for the answers on their way; the memory that they used is free then. */
static void settle(void) {
    CHECK(MPI_Waitall(sends_count, sends, MPI_STATUSES_IGNORE));
    sends_count = 0;
    while (retired_count > 0)
        free(retired[--retired_count]);
}

static void answer_fetch(void) {
    struct question question;
    MPI_Status status;
    combray_message answer;
    CHECK(combray_unpack(asked_fetch, &question, sizeof question, COMBRAY_EXPRESS));
    CHECK(combray_end_unpack(&asked_fetch, NULL, &status));
    CHECK(combray_begin_unpack(MPI_COMM_WORLD, MPI_ANY_SOURCE, FETCH_TAG, &asked_fetch));
    if (question.page < 0 || question.page >= pages || question.page % size != rank)
        wrong("was asked for, but lives elsewhere", question.page);
    CHECK(combray_begin(MPI_COMM_WORLD, status.MPI_SOURCE, question.answer_tag, &answer));
    CHECK(combray_pack(answer, own[question.page / size], page_bytes, COMBRAY_CHEAPER));
    CHECK(combray_end(&answer, &sends[sends_count++]));
}

static void answer_store(void) {
    struct question question;
    struct head before, after;
    MPI_Status status;
    combray_message answer;
    char *page = new_page();
    static int accepted[SENDS_MAX];
    CHECK(combray_unpack(asked_store, &question, sizeof question, COMBRAY_EXPRESS));
    CHECK(combray_unpack(asked_store, page, page_bytes, COMBRAY_CHEAPER));
    CHECK(combray_end_unpack(&asked_store, NULL, &status));
    CHECK(combray_begin_unpack(MPI_COMM_WORLD, MPI_ANY_SOURCE, STORE_TAG, &asked_store));
    after = checked(page, question.page);
    memcpy(&before, own[question.page / size], sizeof before);
    accepted[sends_count] = after.version == before.version + 1;
    /* The old page may be on its way to somebody. */
    retired[retired_count++] = accepted[sends_count] ? own[question.page / size] : page;
    if (accepted[sends_count])
        own[question.page / size] = page;
    CHECK(combray_begin(MPI_COMM_WORLD, status.MPI_SOURCE, question.answer_tag, &answer));
    CHECK(combray_pack(answer, &accepted[sends_count], sizeof *accepted, COMBRAY_EXPRESS));
    CHECK(combray_end(&answer, &sends[sends_count]));
    sends_count++;
}

/* Answers what others ask, if they do. */
static void serve(void) {
    int flag, sent;
    CHECK(MPI_Testall(sends_count, sends, &sent, MPI_STATUSES_IGNORE));
    if (sent)
        settle();
    if (sends_count + 2 > SENDS_MAX)
        return;
    CHECK(combray_arrived(asked_fetch, &flag, MPI_STATUS_IGNORE));
    if (flag)
        answer_fetch();
    CHECK(combray_arrived(asked_store, &flag, MPI_STATUS_IGNORE));
    if (flag)
        answer_store();
}

/* Waits for requests, and serves meanwhile. */
static void wait_serving(int count, MPI_Request *requests) {
    int done = 0;
    while (!done) {
        serve();
        CHECK(MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE));
        /* Others may need the core. */
        if (!done)
            sched_yield();
    }
}

/* Asks for pages, all at once, and waits until they are here. */
static void fetch(int count, const int *numbers, char **into) {
    struct question questions[AT_ONCE];
    MPI_Request requests[2 * AT_ONCE];
    for (int i = 0; i < count; i++) {
        combray_message answer, question;
        questions[i] = (struct question){numbers[i], FIRST_ANSWER_TAG + i};
        CHECK(combray_begin_unpack(MPI_COMM_WORLD, numbers[i] % size, FIRST_ANSWER_TAG + i, &answer));
        CHECK(combray_unpack(answer, into[i], page_bytes, COMBRAY_CHEAPER));
        CHECK(combray_end_unpack(&answer, &requests[2 * i], MPI_STATUS_IGNORE));
        CHECK(combray_begin(MPI_COMM_WORLD, numbers[i] % size, FETCH_TAG, &question));
        CHECK(combray_pack(question, &questions[i], sizeof *questions, COMBRAY_EXPRESS));
        CHECK(combray_end(&question, &requests[2 * i + 1]));
    }
    wait_serving(2 * count, requests);
}

/* Writes pages back; how many were taken. */
static int store(int count, const int *numbers, char *const *from) {
    struct question questions[AT_ONCE];
    MPI_Request requests[2 * AT_ONCE];
    int accepted[AT_ONCE], taken = 0;
    for (int i = 0; i < count; i++) {
        combray_message answer, question;
        questions[i] = (struct question){numbers[i], FIRST_ANSWER_TAG + i};
        CHECK(combray_begin(MPI_COMM_WORLD, numbers[i] % size, STORE_TAG, &question));
        CHECK(combray_pack(question, &questions[i], sizeof *questions, COMBRAY_EXPRESS));
        CHECK(combray_pack(question, from[i], page_bytes, COMBRAY_CHEAPER));
        CHECK(combray_end(&question, &requests[2 * i]));
        CHECK(combray_begin_unpack(MPI_COMM_WORLD, numbers[i] % size, FIRST_ANSWER_TAG + i, &answer));
        CHECK(combray_unpack(answer, &accepted[i], sizeof *accepted, COMBRAY_CHEAPER));
        CHECK(combray_end_unpack(&answer, &requests[2 * i + 1], MPI_STATUS_IGNORE));
    }
    wait_serving(2 * count, requests);
    for (int i = 0; i < count; i++)
        taken += accepted[i];
    return taken;
}

/* Changes pages at random; how many of the changes were taken. */
static int work(int rounds) {
    char *copies[AT_ONCE];
    int taken = 0;
    for (int i = 0; i < AT_ONCE; i++)
        copies[i] = new_page();
    for (int round = 0; round < rounds; round++) {
        int numbers[AT_ONCE], first = rand() % pages;
        for (int i = 0; i < AT_ONCE; i++)
            numbers[i] = (first + i * (1 + rand() % 3)) % pages;
        fetch(AT_ONCE, numbers, copies);
        for (int i = 0; i < AT_ONCE; i++) {
            struct head head = checked(copies[i], numbers[i]);
            fill(copies[i], (struct head){head.number, head.version + 1, rank});
        }
        taken += store(AT_ONCE, numbers, copies);
    }
    for (int i = 0; i < AT_ONCE; i++)
        free(copies[i]);
    return taken;
}

/* Serves until all have come here. */
static void serve_until_all_are_here(void) {
    MPI_Request barrier;
    CHECK(MPI_Ibarrier(MPI_COMM_WORLD, &barrier));
    wait_serving(1, &barrier);
}

/* Process 0 asks process 1 for three pages, the others serve; microseconds for all three. */
static double time_three(void) {
    double start = 0;
    char *copies[AT_ONCE];
    int numbers[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) {
        copies[i] = new_page();
        numbers[i] = 1 % size + i * size;
    }
    for (int i = -TIMED / 10; rank == 0 && i < TIMED; i++) {
        if (i == 0)
            start = MPI_Wtime();
        fetch(AT_ONCE, numbers, copies);
    }
    double seconds = (MPI_Wtime() - start) / TIMED;
    for (int i = 0; i < AT_ONCE; i++)
        free(copies[i]);
    return seconds * 1e6;
}

int main(int argc, char **argv) {
    int rounds = argc > 2 ? atoi(argv[2]) : 200, counts[2] = {0}, totals[2] = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1)
        page_bytes = (size_t)atol(argv[1]);
    if (page_bytes < sizeof(struct head) || page_bytes > 1 << 24 || rounds < 1)
        wrong("pages have 12 bytes to 16 MiB, and there is at least one round", -1);
    pages = size * PAGES_EACH;
    srand((unsigned)rank + 1);
    for (int i = 0; i < PAGES_EACH; i++) {
        own[i] = new_page();
        fill(own[i], (struct head){i * size + rank, 0, -1});
    }
    CHECK(combray_begin_unpack(MPI_COMM_WORLD, MPI_ANY_SOURCE, FETCH_TAG, &asked_fetch));
    CHECK(combray_begin_unpack(MPI_COMM_WORLD, MPI_ANY_SOURCE, STORE_TAG, &asked_store));
    serve_until_all_are_here();

    double start = MPI_Wtime();
    counts[0] = work(rounds);
    double seconds = MPI_Wtime() - start;
    serve_until_all_are_here();
    for (int i = 0; i < PAGES_EACH; i++)
        counts[1] += checked(own[i], i * size + rank).version;
    MPI_Reduce(counts, totals, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d processes, %d pages of %zu bytes: %d of %d writes taken, %.1f us a round\n", size,
               pages, page_bytes, totals[0], AT_ONCE * rounds * size, seconds / rounds * 1e6);
        if (totals[0] != totals[1])
            wrong("the versions of all pages are not the number of writes", -1);
        printf("all pages are right\n");
    }
    double microseconds = time_three();
    serve_until_all_are_here();
    if (rank == 0 && size > 1)
        printf("three pages of process 1, asked for at once: %.2f us\n", microseconds);

    /* Nobody asks any more. */
    settle();
    CHECK(combray_withdraw(&asked_fetch));
    CHECK(combray_withdraw(&asked_store));
    for (int i = 0; i < PAGES_EACH; i++)
        free(own[i]);
    MPI_Finalize();
    return 0;
}
