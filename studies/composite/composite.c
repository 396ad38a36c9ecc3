/* Three programs in one job: a simulation, its analysis and the drawing of pictures, each with processes of its own.
 *
 *     mpicc -O2 composite.c -o composite -lm && mpirun -n 4 ./composite [EDGE [FRAMES [REPETITIONS]]]
 *
 * The last process draws; of the others one in three, but at least one, analyses, and the rest simulates: heat on a
 * square of EDGE x EDGE numbers, whose rows are divided among them. After each frame of STEPS steps, a simulating process sends
 * its rows to an analysing one, as a message of unknown length: a header, the rows that have changed, and their values. The
 * analysis adds frames up over its processes, and sends a picture of PIXELS x PIXELS means to the drawing process.
 * Within each group processes communicate by collectives, so that all kinds of traffic meet. Ways of the frames:
 *
 *     packed    combray_pack and combray_unpack, only in Combray
 *     mpi       MPI_Pack, one message, MPI_Mprobe and MPI_Unpack
 *     messages  a message for each part */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"
#ifdef COMBRAY_MPI_H_INCLUDED
#include <combray.h>
#endif

enum { PACKED, BY_MPI, MESSAGES, WAYS, STEPS = 5, PIXELS = 16 };
enum { SIMULATION, ANALYSIS, DRAWING };
static const char *const NAMES[] = {"packed", "mpi", "messages"};

static int edge, role, simulating, analysing, first, count;
static MPI_Comm group;
static double *now, *next;           /* of a simulating process: rows with one more on both sides */
static double picture[PIXELS * PIXELS], communication;

/* What precedes the rows of a frame. */
struct header {
    int frame, rows;
};

/* Where a process of a role is in MPI_COMM_WORLD. */
static int world_rank(int which, int index) {
    return which == SIMULATION ? index : which == ANALYSIS ? simulating + index : size - 1;
}

static int analyst_of(int simulator) {
    return world_rank(ANALYSIS, simulator % analysing);
}

/* ---- Simulation ---- */

static void simulate(void) {
    int before = rank > 0 ? rank - 1 : MPI_PROC_NULL, after = rank + 1 < simulating ? rank + 1 : MPI_PROC_NULL;
    size_t row = (size_t)edge;
    for (int step = 0; step < STEPS; step++) {
        double started = MPI_Wtime();
        MPI_Sendrecv(now + row, edge, MPI_DOUBLE, before, 0, now + (size_t)(count + 1) * row, edge, MPI_DOUBLE, after, 0, group, MPI_STATUS_IGNORE);
        MPI_Sendrecv(now + (size_t)count * row, edge, MPI_DOUBLE, after, 1, now, edge, MPI_DOUBLE, before, 1, group, MPI_STATUS_IGNORE);
        communication += MPI_Wtime() - started;
        for (int x = 1; x <= count; x++)
            for (int y = 0; y < edge; y++) {
                const double *here = now + (size_t)x * row + (size_t)y;
                double left = y > 0 ? here[-1] : 0, right = y + 1 < edge ? here[1] : 0;
                next[(size_t)x * row + (size_t)y] = *here + 0.2 * (left + right + *(here - row) + here[row] - 4 * *here);
            }
        double *swapped = now;
        now = next;
        next = swapped;
    }
}

/* Lists the rows that are not all zero: the heat comes from one place, and reaches further rows by and by. */
static int changed_rows(int *rows) {
    int found = 0;
    for (int x = 1; x <= count; x++)
        for (int y = 0; y < edge; y++)
            if (now[(size_t)x * (size_t)edge + (size_t)y] != 0) {
                rows[found++] = x;
                break;
            }
    return found;
}

/* A frame as a message that MPI packs: returns its length. */
static int pack_frame(char **buffer, const struct header *header, const int *numbers, const int *rows) {
    int place = 0, header_bytes, number_bytes, value_bytes;
    MPI_Pack_size(2, MPI_INT, MPI_COMM_WORLD, &header_bytes);
    MPI_Pack_size(header->rows, MPI_INT, MPI_COMM_WORLD, &number_bytes);
    MPI_Pack_size(edge, MPI_DOUBLE, MPI_COMM_WORLD, &value_bytes);
    int room = header_bytes + number_bytes + header->rows * value_bytes;
    *buffer = study_allocate((size_t)room, 1);
    MPI_Pack(header, 2, MPI_INT, *buffer, room, &place, MPI_COMM_WORLD);
    MPI_Pack(numbers, header->rows, MPI_INT, *buffer, room, &place, MPI_COMM_WORLD);
    for (int i = 0; i < header->rows; i++)
        MPI_Pack(now + (size_t)rows[i] * (size_t)edge, edge, MPI_DOUBLE, *buffer, room, &place, MPI_COMM_WORLD);
    return place;
}

static void send_frame(int way, int frame) {
    int *rows = study_allocate(2 * (size_t)count, sizeof *rows), *numbers = rows + count, to = analyst_of(rank);
    struct header header = {frame, changed_rows(rows)};
    for (int i = 0; i < header.rows; i++) numbers[i] = first + rows[i] - 1;
    double started = MPI_Wtime();
    if (way == PACKED) {
#ifdef COMBRAY_MPI_H_INCLUDED
        combray_message message;
        combray_begin(MPI_COMM_WORLD, to, 2, &message);
        combray_pack(message, &header, sizeof header, COMBRAY_EXPRESS);
        combray_pack(message, numbers, (size_t)header.rows * sizeof *numbers, COMBRAY_EXPRESS);
        for (int i = 0; i < header.rows; i++)
            combray_pack(message, now + (size_t)rows[i] * (size_t)edge, (size_t)edge * sizeof *now, COMBRAY_CHEAPER);
        combray_end(&message, NULL);
#endif
    } else if (way == BY_MPI) {
        char *buffer;
        int length = pack_frame(&buffer, &header, numbers, rows);
        MPI_Send(buffer, length, MPI_PACKED, to, 2, MPI_COMM_WORLD);
        free(buffer);
    } else {
        MPI_Send(&header, 2, MPI_INT, to, 2, MPI_COMM_WORLD);
        MPI_Send(numbers, header.rows, MPI_INT, to, 3, MPI_COMM_WORLD);
        for (int i = 0; i < header.rows; i++)
            MPI_Send(now + (size_t)rows[i] * (size_t)edge, edge, MPI_DOUBLE, to, 4, MPI_COMM_WORLD);
    }
    communication += MPI_Wtime() - started;
    free(rows);
}

/* ---- Analysis ---- */

/* Receives one frame of any simulating process into the square: only the rows that it contains. */
static void receive_frame(int way, int frame, double *square) {
    struct header header;
    int *numbers = study_allocate((size_t)edge, sizeof *numbers);
    double started = MPI_Wtime();
    if (way == PACKED) {
#ifdef COMBRAY_MPI_H_INCLUDED
        combray_message message;
        combray_begin_unpack(MPI_COMM_WORLD, MPI_ANY_SOURCE, 2, &message);
        combray_unpack(message, &header, sizeof header, COMBRAY_EXPRESS);
        combray_unpack(message, numbers, (size_t)header.rows * sizeof *numbers, COMBRAY_EXPRESS);
        for (int i = 0; i < header.rows; i++)
            combray_unpack(message, square + (size_t)numbers[i] * (size_t)edge, (size_t)edge * sizeof *square, COMBRAY_CHEAPER);
        combray_end_unpack(&message, NULL, MPI_STATUS_IGNORE);
#endif
    } else if (way == BY_MPI) {
        MPI_Message message;
        MPI_Status status;
        int length, place = 0;
        MPI_Mprobe(MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &message, &status);
        MPI_Get_count(&status, MPI_PACKED, &length);
        char *buffer = study_allocate((size_t)length, 1);
        MPI_Mrecv(buffer, length, MPI_PACKED, &message, MPI_STATUS_IGNORE);
        MPI_Unpack(buffer, length, &place, &header, 2, MPI_INT, MPI_COMM_WORLD);
        MPI_Unpack(buffer, length, &place, numbers, header.rows, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < header.rows; i++)
            MPI_Unpack(buffer, length, &place, square + (size_t)numbers[i] * (size_t)edge, edge, MPI_DOUBLE, MPI_COMM_WORLD);
        free(buffer);
    } else {
        MPI_Status status;
        MPI_Recv(&header, 2, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status);
        MPI_Recv(numbers, header.rows, MPI_INT, status.MPI_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < header.rows; i++)
            MPI_Recv(square + (size_t)numbers[i] * (size_t)edge, edge, MPI_DOUBLE, status.MPI_SOURCE, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    communication += MPI_Wtime() - started;
    if (header.frame != frame) study_wrong = 1;
    free(numbers);
}

static void add_to_picture(const double *square) {
    memset(picture, 0, sizeof picture);
    for (int x = 0; x < edge; x++)
        for (int y = 0; y < edge; y++) picture[x * PIXELS / edge * PIXELS + y * PIXELS / edge] += square[(size_t)x * (size_t)edge + (size_t)y];
}

static void analyse(int way, int frame, double *square) {
    double sums[PIXELS * PIXELS];
    for (int simulator = 0; simulator < simulating; simulator++)
        if (analyst_of(simulator) == rank) receive_frame(way, frame, square);
    add_to_picture(square);
    double started = MPI_Wtime();
    MPI_Reduce(picture, sums, PIXELS * PIXELS, MPI_DOUBLE, MPI_SUM, 0, group);
    if (rank == world_rank(ANALYSIS, 0)) MPI_Send(sums, PIXELS * PIXELS, MPI_DOUBLE, size - 1, 5, MPI_COMM_WORLD);
    communication += MPI_Wtime() - started;
}

/* ---- A run and its proof ---- */

/* The picture of the last frame, as one process computes it. */
static double largest_error(int frames) {
    double *drawn = study_allocate(PIXELS * PIXELS, sizeof *drawn), largest = 0;
    memcpy(drawn, picture, sizeof picture);
    MPI_Comm all = group;
    int own_rank = rank, own_simulating = simulating, own_count = count;
    group = MPI_COMM_SELF;
    rank = 0;
    simulating = 1;
    count = edge;
    size_t numbers = (size_t)(edge + 2) * (size_t)edge;
    now = study_allocate(numbers, sizeof *now);
    next = study_allocate(numbers, sizeof *next);
    now[(size_t)(edge / 2 + 1) * (size_t)edge + (size_t)edge / 3] = 1e6;
    for (int frame = 0; frame < frames; frame++) simulate();
    add_to_picture(now + edge);
    for (int i = 0; i < PIXELS * PIXELS; i++) largest = fmax(largest, fabs(drawn[i] - picture[i]));
    group = all;
    rank = own_rank;
    simulating = own_simulating;
    count = own_count;
    free(now);
    free(next);
    free(drawn);
    return largest;
}

static void run(int way, int frames) {
    size_t square_numbers = (size_t)(edge + 2) * (size_t)edge;
    double *square = NULL;
    if (role == SIMULATION) {
        now = study_allocate(square_numbers, sizeof *now);
        next = study_allocate(square_numbers, sizeof *next);
        if (edge / 2 >= first && edge / 2 < first + count) now[(size_t)(edge / 2 - first + 1) * (size_t)edge + (size_t)edge / 3] = 1e6;
    }
    if (role == ANALYSIS) square = study_allocate(square_numbers, sizeof *square);
    communication = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double started = MPI_Wtime();
    for (int frame = 0; frame < frames; frame++) {
        if (role == SIMULATION) {
            simulate();
            send_frame(way, frame);
        } else if (role == ANALYSIS) {
            analyse(way, frame, square);
        } else {
            double receiving = MPI_Wtime();
            MPI_Recv(picture, PIXELS * PIXELS, MPI_DOUBLE, world_rank(ANALYSIS, 0), 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            communication += MPI_Wtime() - receiving;
        }
    }
    study_case(NAMES[way], MPI_Wtime() - started, communication);
    if (role == SIMULATION) {
        free(now);
        free(next);
    }
    free(square);
    /* Sums of the same numbers in another order. */
    study_verify(NAMES[way], role == DRAWING ? largest_error(frames) : 0, 1e-6);
}

int main(int argc, char **argv) {
    study_begin("composite", &argc, &argv, MPI_THREAD_SINGLE);
    edge = study_number(argc, argv, 1, 256);
    int frames = study_number(argc, argv, 2, 20), repetitions = study_number(argc, argv, 3, 1);
    study_need(size >= 3 && edge >= PIXELS && edge >= size && edge <= 5000 && frames && repetitions,
               "composite [EDGE [FRAMES [REPETITIONS]]]: at least three processes; an edge of 16 to 5000 numbers");
    analysing = size / 3;
    simulating = size - 1 - analysing;
    role = rank < simulating ? SIMULATION : rank < size - 1 ? ANALYSIS : DRAWING;
    first = (int)((long)edge * rank / simulating);
    count = (int)((long)edge * (rank + 1) / simulating) - first;
    MPI_Comm_split(MPI_COMM_WORLD, role, rank, &group);
#ifdef COMBRAY_MPI_H_INCLUDED
    int first_way = PACKED;
#else
    int first_way = BY_MPI;
#endif
    for (int repetition = 0; repetition < repetitions; repetition++)
        for (int way = first_way; way < WAYS; way++) run(way, frames);
    MPI_Comm_free(&group);
    return study_end();
}
