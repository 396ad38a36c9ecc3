/* Vectors that live at servers and are worked on from afar.
 *
 *     mpicc -O2 demo.c remote_call.c -o remote_call && mpirun -n 4 ./remote_call
 *
 * Half of the processes (at least one) are servers. Each client makes a vector at every server, adds to
 * all of them at once without waiting, and compares what comes back with its own calculation. */
#include "remote_call.h"

#include <stdio.h>
#include <stdlib.h>

enum { CREATE = 1, ADD, SUM, FETCH, DESTROY, NOTHING };
enum { LENGTH = 5000, ADDITIONS = 20, CALLS_TIMED = 2000 };

struct vector {
    int length;
    double *values;
};

/* Length in, object out. */
static void create(remote_request *request) {
    struct vector *vector = malloc(sizeof *vector);
    remote_object number;
    combray_unpack(request->arguments, &vector->length, sizeof vector->length, COMBRAY_EXPRESS);
    vector->values = calloc((size_t)vector->length, sizeof *vector->values);
    number = remote_object_new(vector);
    remote_result(request, REMOTE_OK);
    combray_pack(request->result, &number, sizeof number, COMBRAY_EXPRESS);
    remote_answer(request);
}

/* Position, length and as many numbers in, which are added; nothing out. */
static void add(remote_request *request) {
    struct vector *vector = request->object;
    int range[2];
    combray_unpack(request->arguments, range, sizeof range, COMBRAY_EXPRESS);
    double *terms = malloc((size_t)range[1] * sizeof *terms);
    combray_unpack(request->arguments, terms, (size_t)range[1] * sizeof *terms, COMBRAY_CHEAPER);
    if (!vector || range[0] < 0 || range[0] > vector->length - range[1]) {
        remote_result(request, 1);
    } else {
        /* The terms are here when the result begins. */
        remote_result(request, REMOTE_OK);
        for (int i = 0; i < range[1]; i++)
            vector->values[range[0] + i] += terms[i];
    }
    free(terms);
    remote_answer(request);
}

/* The sum out. */
static void sum(remote_request *request) {
    struct vector *vector = request->object;
    double total = 0;
    for (int i = 0; vector && i < vector->length; i++)
        total += vector->values[i];
    remote_result(request, vector ? REMOTE_OK : REMOTE_NO_OBJECT);
    combray_pack(request->result, &total, sizeof total, COMBRAY_CHEAPER);
    remote_answer(request);
}

/* The length and the values out, straight from the vector. */
static void fetch(remote_request *request) {
    struct vector *vector = request->object;
    remote_result(request, vector ? REMOTE_OK : REMOTE_NO_OBJECT);
    if (vector) {
        size_t bytes = (size_t)vector->length * sizeof *vector->values;
        combray_pack(request->result, &vector->length, sizeof vector->length, COMBRAY_EXPRESS);
        combray_pack(request->result, vector->values, bytes, COMBRAY_CHEAPER);
    }
    remote_answer(request);
}

/* The object's own number in. */
static void destroy(remote_request *request) {
    struct vector *vector = request->object;
    remote_object number;
    combray_unpack(request->arguments, &number, sizeof number, COMBRAY_EXPRESS);
    remote_object_forget(number);
    if (vector)
        free(vector->values);
    free(vector);
    remote_result(request, REMOTE_OK);
    remote_answer(request);
}

static void nothing(remote_request *request) {
    remote_result(request, REMOTE_OK);
    remote_answer(request);
}

static int failures;

static void expect(int condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "remote_call: wrong: %s\n", what);
    failures++;
}

static remote_object create_at(int server, int length) {
    remote_call call;
    remote_object object = 0;
    remote_begin(&call, server, CREATE, 0);
    combray_pack(call.arguments, &length, sizeof length, COMBRAY_EXPRESS);
    remote_send(&call);
    expect(remote_status(&call) == REMOTE_OK, "the status of create");
    combray_unpack(call.result, &object, sizeof object, COMBRAY_EXPRESS);
    remote_end(&call);
    return object;
}

/* Adds to the vectors of all servers, all calls underway at once. */
static void add_everywhere(int servers, const remote_object *vectors, double *expected) {
    remote_call *calls = malloc((size_t)(servers * ADDITIONS) * sizeof *calls);
    int ranges[ADDITIONS][2];
    double *terms = malloc(LENGTH * sizeof *terms);
    for (int i = 0; i < LENGTH; i++)
        terms[i] = 0.5 * i;
    for (int k = 0; k < ADDITIONS; k++) {
        ranges[k][0] = k * 37;
        ranges[k][1] = LENGTH - ranges[k][0] - k * k;
        for (int i = 0; i < ranges[k][1]; i++)
            expected[ranges[k][0] + i] += terms[i];
        for (int server = 0; server < servers; server++) {
            remote_call *call = &calls[k * servers + server];
            remote_begin(call, server, ADD, vectors[server]);
            combray_pack(call->arguments, ranges[k], sizeof ranges[k], COMBRAY_EXPRESS);
            combray_pack(call->arguments, terms, (size_t)ranges[k][1] * sizeof *terms,
                         COMBRAY_CHEAPER);
            remote_send(call);
        }
    }
    for (int i = 0; i < servers * ADDITIONS; i++) {
        expect(remote_status(&calls[i]) == REMOTE_OK, "the status of add");
        remote_end(&calls[i]);
    }
    free(calls);
    free(terms);
}

static void compare(int server, remote_object object, const double *expected) {
    remote_call sum_call, fetch_call;
    double total = 0, expected_total = 0;
    int length = 0, same = 1;
    remote_begin(&sum_call, server, SUM, object);
    remote_send(&sum_call);
    remote_begin(&fetch_call, server, FETCH, object);
    remote_send(&fetch_call);
    /* In another order than they were called. */
    expect(remote_status(&fetch_call) == REMOTE_OK, "the status of fetch");
    combray_unpack(fetch_call.result, &length, sizeof length, COMBRAY_EXPRESS);
    double *values = malloc((size_t)length * sizeof *values);
    combray_unpack(fetch_call.result, values, (size_t)length * sizeof *values, COMBRAY_CHEAPER);
    remote_end(&fetch_call);
    expect(remote_status(&sum_call) == REMOTE_OK, "the status of sum");
    combray_unpack(sum_call.result, &total, sizeof total, COMBRAY_CHEAPER);
    remote_end(&sum_call);
    expect(length == LENGTH, "the length");
    for (int i = 0; i < LENGTH && i < length; i++) {
        same &= values[i] == expected[i];
        expected_total += expected[i];
    }
    expect(same, "the values");
    expect(total == expected_total, "the sum");
    free(values);
}

static void refused(int server) {
    remote_call call;
    remote_begin(&call, server, 17, 0);
    remote_send(&call);
    expect(remote_status(&call) == REMOTE_NO_SERVICE, "a service that nobody offers");
    remote_end(&call);
    remote_begin(&call, server, SUM, 12345);
    remote_send(&call);
    expect(remote_status(&call) == REMOTE_NO_OBJECT, "an object that does not exist");
    remote_end(&call);
}

/* Microseconds of one call without arguments. */
static double call_time(int server) {
    double start = MPI_Wtime();
    for (int i = 0; i < CALLS_TIMED; i++) {
        remote_call call;
        remote_begin(&call, server, NOTHING, 0);
        remote_send(&call);
        expect(remote_status(&call) == REMOTE_OK, "the status of a call");
        remote_end(&call);
    }
    return (MPI_Wtime() - start) / CALLS_TIMED * 1e6;
}

static void work(int servers, int rank) {
    remote_object *vectors = malloc((size_t)servers * sizeof *vectors);
    double *expected = calloc(LENGTH, sizeof *expected);
    for (int server = 0; server < servers; server++)
        vectors[server] = create_at(server, LENGTH);
    add_everywhere(servers, vectors, expected);
    for (int server = 0; server < servers; server++) {
        compare(server, vectors[server], expected);
        refused(server);
    }
    printf("client %d: %d calls with arguments, %.2f us for one without\n", rank,
           servers * (ADDITIONS + 5), call_time(rank % servers));
    for (int server = 0; server < servers; server++) {
        remote_call call;
        remote_begin(&call, server, DESTROY, vectors[server]);
        combray_pack(call.arguments, &vectors[server], sizeof *vectors, COMBRAY_EXPRESS);
        remote_send(&call);
        expect(remote_status(&call) == REMOTE_OK, "the status of destroy");
        remote_end(&call);
        remote_leave(server);
    }
    free(vectors);
    free(expected);
}

int main(int argc, char **argv) {
    int rank, size, all_failures = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2) {
        fprintf(stderr, "remote_call: start two processes or more\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int servers = size / 2;
    remote_start(MPI_COMM_WORLD);
    remote_register(CREATE, create);
    remote_register(ADD, add);
    remote_register(SUM, sum);
    remote_register(FETCH, fetch);
    remote_register(DESTROY, destroy);
    remote_register(NOTHING, nothing);
    if (rank < servers)
        remote_serve(size - servers);
    else
        work(servers, rank);
    remote_stop();
    MPI_Reduce(&failures, &all_failures, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d server%s, %d client%s: %s\n", servers, servers == 1 ? "" : "s", size - servers,
               size - servers == 1 ? "" : "s", all_failures ? "WRONG" : "all results are right");
    MPI_Finalize();
    return all_failures != 0;
}
