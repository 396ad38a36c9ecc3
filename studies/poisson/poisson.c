/* Poisson's equation on a cube, by Jacobi iterations in four versions, with five ways to exchange halos.
 *
 *     mpicc -O2 -fopenmp poisson.c -o poisson -lm
 *     mpirun -n 4 ./poisson VERSION [POINTS [ITERATIONS [REPETITIONS [HALO]]]]
 *
 * VERSION  mpi       one thread; a halo is exchanged, then all points are computed
 *          overlap   one thread; points without neighbours in a halo are computed during the exchange
 *          funneled  OpenMP threads compute and copy, one of them calls MPI
 *          multiple  each OpenMP thread exchanges the halo of its own planes
 * HALO     derived, packed, neighbour, partitioned or onesided; all of them if it is left out
 *
 * Each thread has some of the planes x = constant of its process's block. The part of a face that
 * belongs to them is a piece. Right-hand side and initial value are eigenvectors of the iteration, so
 * the value of each point after any number of iterations has a formula, and all points are checked. */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"
#include <omp.h>

enum { MPI, OVERLAP, FUNNELED, MULTIPLE, VERSIONS };
enum { DERIVED, PACKED, NEIGHBOUR, PARTITIONED, ONESIDED, HALOS };
enum { FACES = 6, THREADS_MAX = 256 };
static const char *const VERSION_NAMES[] = {"mpi", "overlap", "funneled", "multiple"};
static const char *const HALO_NAMES[] = {"derived", "packed", "neighbour", "partitioned", "onesided"};
static const double PI = 3.14159265358979323846;

/* A face of the block, or the piece of it that belongs to one thread. Face 2d looks down in dimension d,
 * face 2d+1 up. Nothing is exchanged where `neighbour` is MPI_PROC_NULL. */
struct piece {
    int neighbour, sent_tag, received_tag;
    int count[3], sent[3], received[3]; /* extents; first points of what is sent and of the halo */
    size_t offset, length;              /* in the buffers, in numbers */
    MPI_Aint remote;                    /* where the neighbour's window has this piece */
    MPI_Datatype sent_type, received_type;
};

static int version, threads, points;
static MPI_Comm grid;
static int count[3], first[3], neighbours[FACES];
static double *now, *next, *source, *out, *in;
static size_t buffer_length;
static int plane_begin[THREADS_MAX + 1]; /* thread t has the planes plane_begin[t] .. plane_begin[t+1]-1 */
static struct piece whole[FACES], pieces[THREADS_MAX][FACES];
static MPI_Request requests[THREADS_MAX][2 * FACES], partitioned[2 * FACES];
static int request_count[THREADS_MAX], partitioned_count;
static MPI_Win window;
static MPI_Group peers;

static size_t at(int x, int y, int z) {
    return ((size_t)x * (size_t)(count[1] + 2) + (size_t)y) * (size_t)(count[2] + 2) + (size_t)z;
}

static double solution(int x, int y, int z) {
    double step = 1.0 / (points + 1);
    return sin(PI * step * (first[0] + x)) * sin(2 * PI * step * (first[1] + y)) * sin(3 * PI * step * (first[2] + z));
}

/* ---- The pieces ---- */

static MPI_Datatype subarray(const int extents[3], const int start[3]) {
    int sizes[3] = {count[0] + 2, count[1] + 2, count[2] + 2};
    MPI_Datatype type;
    MPI_Type_create_subarray(3, sizes, extents, start, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

/* The piece of a face with the planes begin .. end-1; it is empty in faces that these planes do not reach. */
static struct piece make_piece(int face, int begin, int end, int tag, size_t base, MPI_Aint remote) {
    struct piece piece = {.neighbour = neighbours[face]};
    int dimension = face / 2, up = face % 2;
    for (int d = 0; d < 3; d++) {
        piece.count[d] = d == dimension ? 1 : count[d];
        piece.sent[d] = piece.received[d] = 1;
    }
    if (dimension == 0) {
        if (up ? end != count[0] + 1 : begin != 1) piece.neighbour = MPI_PROC_NULL;
        tag = 0;
    } else {
        piece.count[0] = end - begin;
        piece.sent[0] = piece.received[0] = begin;
    }
    piece.sent[dimension] = up ? count[dimension] : 1;
    piece.received[dimension] = up ? count[dimension] + 1 : 0;
    piece.length = (size_t)piece.count[0] * (size_t)piece.count[1] * (size_t)piece.count[2];
    size_t before = dimension == 0 ? 0 : piece.length / (size_t)piece.count[0] * (size_t)(begin - 1);
    piece.offset = base + before;
    piece.remote = remote + (MPI_Aint)before;
    piece.sent_tag = tag * FACES + face;
    piece.received_tag = tag * FACES + (face ^ 1);
    piece.sent_type = subarray(piece.count, piece.sent);
    piece.received_type = subarray(piece.count, piece.received);
    return piece;
}

static void make_pieces(void) {
    size_t base[FACES];
    MPI_Aint remote[FACES] = {0};
    buffer_length = 0;
    for (int face = 0; face < FACES; face++) {
        base[face] = buffer_length;
        buffer_length += (size_t)count[0] * (size_t)count[1] * (size_t)count[2] / (size_t)count[face / 2];
    }
    /* The neighbour tells where it receives what this process sends: in its opposite face. */
    for (int face = 0; face < FACES; face++) {
        MPI_Aint mine = (MPI_Aint)base[face ^ 1];
        MPI_Sendrecv(&mine, 1, MPI_AINT, neighbours[face ^ 1], face, &remote[face], 1, MPI_AINT, neighbours[face], face,
                     grid, MPI_STATUS_IGNORE);
    }
    for (int face = 0; face < FACES; face++) {
        whole[face] = make_piece(face, 1, count[0] + 1, 0, base[face], remote[face]);
        for (int t = 0; t < threads; t++)
            pieces[t][face] = make_piece(face, plane_begin[t], plane_begin[t + 1], t, base[face], remote[face]);
    }
}

/* Copies a piece between the grid and the contiguous buffer. */
static void copy_piece(const struct piece *piece, double *buffer, int pack) {
    const int *start = pack ? piece->sent : piece->received;
    size_t run = (size_t)piece->count[2];
    buffer += piece->offset;
    for (int x = 0; x < piece->count[0]; x++)
        for (int y = 0; y < piece->count[1]; y++, buffer += run) {
            double *line = now + at(start[0] + x, start[1] + y, start[2]);
            if (pack)
                memcpy(buffer, line, run * sizeof *line);
            else
                memcpy(line, buffer, run * sizeof *line);
        }
}

static void copy_pieces(int thread, double *buffer, int pack) {
    for (int face = 0; face < FACES; face++)
        if (pieces[thread][face].neighbour != MPI_PROC_NULL) copy_piece(&pieces[thread][face], buffer, pack);
}

/* ---- The ways of the halo ---- */

static void open_halo(int halo) {
    if (halo == PARTITIONED) {
        partitioned_count = 0;
        for (int face = 0; face < FACES; face++) {
            const struct piece *piece = &whole[face];
            if (piece->neighbour == MPI_PROC_NULL) continue;
            /* Partitions are planes, so that any division among threads fits. */
            int partitions = face < 2 ? 1 : count[0];
            MPI_Count each = (MPI_Count)piece->length / partitions;
            MPI_Precv_init(in + piece->offset, partitions, each, MPI_DOUBLE, piece->neighbour, piece->received_tag, grid,
                           MPI_INFO_NULL, &partitioned[2 * face]);
            MPI_Psend_init(out + piece->offset, partitions, each, MPI_DOUBLE, piece->neighbour, piece->sent_tag, grid,
                           MPI_INFO_NULL, &partitioned[2 * face + 1]);
        }
    } else if (halo == ONESIDED) {
        int members[FACES], member_count = 0;
        MPI_Group all;
        MPI_Win_create(in, (MPI_Aint)(buffer_length * sizeof *in), sizeof *in, MPI_INFO_NULL, grid, &window);
        for (int face = 0; face < FACES; face++)
            if (neighbours[face] != MPI_PROC_NULL) members[member_count++] = neighbours[face];
        MPI_Comm_group(grid, &all);
        MPI_Group_incl(all, member_count, members, &peers);
        MPI_Group_free(&all);
    }
}

static void close_halo(int halo) {
    if (halo == PARTITIONED) {
        for (int i = 0; i < 2 * FACES; i++)
            if (partitioned[i] != MPI_REQUEST_NULL) MPI_Request_free(&partitioned[i]);
    } else if (halo == ONESIDED) {
        MPI_Group_free(&peers);
        MPI_Win_free(&window);
    }
}

static void start_messages(int halo, int thread, const struct piece *list) {
    MPI_Request *request = requests[thread];
    for (int face = 0; face < FACES; face++) {
        const struct piece *piece = &list[face];
        if (piece->neighbour == MPI_PROC_NULL) continue;
        if (halo == DERIVED) {
            MPI_Irecv(now, 1, piece->received_type, piece->neighbour, piece->received_tag, grid, request++);
            MPI_Isend(now, 1, piece->sent_type, piece->neighbour, piece->sent_tag, grid, request++);
        } else if (halo == PACKED) {
            int length = (int)piece->length;
            MPI_Irecv(in + piece->offset, length, MPI_DOUBLE, piece->neighbour, piece->received_tag, grid, request++);
            MPI_Isend(out + piece->offset, length, MPI_DOUBLE, piece->neighbour, piece->sent_tag, grid, request++);
        } else if (halo == PARTITIONED) {
            int begin = face < 2 ? 0 : piece->sent[0] - 1, planes = face < 2 ? 1 : piece->count[0];
            MPI_Pready_range(begin, begin + planes - 1, partitioned[2 * face + 1]);
        } else {
            MPI_Put(out + piece->offset, (int)piece->length, MPI_DOUBLE, piece->neighbour, piece->remote,
                    (int)piece->length, MPI_DOUBLE, window);
        }
    }
    request_count[thread] = (int)(request - requests[thread]);
}

static void start_neighbour_collective(void) {
    static int ones[FACES] = {1, 1, 1, 1, 1, 1};
    static MPI_Aint zeros[FACES];
    static MPI_Datatype sent[FACES], received[FACES];
    for (int face = 0; face < FACES; face++) {
        sent[face] = whole[face].sent_type;
        received[face] = whole[face].received_type;
    }
    MPI_Ineighbor_alltoallw(now, ones, zeros, sent, now, ones, zeros, received, grid, &requests[0][0]);
    request_count[0] = 1;
}

static void start_partitioned(void) {
    for (int i = 0; i < 2 * FACES; i++)
        if (partitioned[i] != MPI_REQUEST_NULL) MPI_Start(&partitioned[i]);
}

/* All threads of the process call it. Those that do not call MPI only copy. */
static void start_halo(int halo, int thread) {
    if (thread == 0 && halo == PARTITIONED) start_partitioned();
    if (thread == 0 && halo == ONESIDED) {
        MPI_Win_post(peers, 0, window);
        MPI_Win_start(peers, 0, window);
    }
    if (halo != DERIVED && halo != NEIGHBOUR) copy_pieces(thread, out, 1);
    if (version == MULTIPLE) {
        /* Requests must have been started, and the epoch opened, before other threads use them. */
        if (halo == PARTITIONED || halo == ONESIDED) {
#pragma omp barrier
        }
        start_messages(halo, thread, pieces[thread]);
    } else {
#pragma omp barrier
        if (thread == 0 && halo == NEIGHBOUR) start_neighbour_collective();
        if (thread == 0 && halo != NEIGHBOUR) start_messages(halo, 0, whole);
    }
}

static void finish_halo(int halo, int thread) {
    if (halo == ONESIDED && version == MULTIPLE) {
        /* No thread may still call MPI_Put. */
#pragma omp barrier
    }
    if (thread == 0 && halo == PARTITIONED) MPI_Waitall(2 * FACES, partitioned, MPI_STATUSES_IGNORE);
    if (thread == 0 && halo == ONESIDED) {
        MPI_Win_complete(window);
        MPI_Win_wait(window);
    }
    MPI_Request *mine = requests[thread];
    if (version == MULTIPLE || thread == 0) MPI_Waitall(request_count[thread], mine, MPI_STATUSES_IGNORE);
    if (version != MULTIPLE || halo == PARTITIONED || halo == ONESIDED) {
#pragma omp barrier
    }
    if (halo != DERIVED && halo != NEIGHBOUR) copy_pieces(thread, in, 0);
}

/* ---- The computation ---- */

/* New values in a box: points begin .. end-1 of each dimension. */
static void relax(const int begin[3], const int end[3]) {
    double step = 1.0 / (points + 1), squared = step * step;
    size_t row = (size_t)(count[2] + 2), plane = row * (size_t)(count[1] + 2);
    for (int x = begin[0]; x < end[0]; x++)
        for (int y = begin[1]; y < end[1]; y++) {
            size_t start = at(x, y, 0);
            const double *here = now + start, *right = source + start;
            double *new = next + start;
            for (int z = begin[2]; z < end[2]; z++) {
                double sum = here[z - 1] + here[z + 1];
                sum += *(here + z - row) + here[z + row] + *(here + z - plane) + here[z + plane];
                new[z] = (sum + squared * right[z]) / 6;
            }
        }
}

/* The points of a thread's planes that need no halo, and after the exchange all others: shells of the
 * box, peeled off dimension by dimension. */
static void relax_part(int thread, int with_inner, int with_outer) {
    int begin[3] = {plane_begin[thread], 1, 1}, end[3] = {plane_begin[thread + 1], count[1] + 1, count[2] + 1};
    for (int face = 0; face < FACES; face++) {
        int d = face / 2, shell_begin[3], shell_end[3];
        if (pieces[thread][face].neighbour == MPI_PROC_NULL || begin[d] >= end[d]) continue;
        memcpy(shell_begin, begin, sizeof begin);
        memcpy(shell_end, end, sizeof end);
        if (face % 2)
            shell_begin[d] = --end[d];
        else
            shell_end[d] = ++begin[d];
        if (with_outer) relax(shell_begin, shell_end);
    }
    if (with_inner) relax(begin, end);
}

static void solve(int halo, int iterations, double *communication) {
    double waited = 0;
#pragma omp parallel num_threads(threads) reduction(+ : waited)
    {
        int thread = omp_get_thread_num();
        int begin[3] = {plane_begin[thread], 1, 1}, end[3] = {plane_begin[thread + 1], count[1] + 1, count[2] + 1};
        for (int iteration = 0; iteration < iterations; iteration++) {
            double started = MPI_Wtime();
            start_halo(halo, thread);
            waited += MPI_Wtime() - started;
            if (version == OVERLAP) relax_part(thread, 1, 0);
            started = MPI_Wtime();
            finish_halo(halo, thread);
            waited += MPI_Wtime() - started;
            if (version == OVERLAP)
                relax_part(thread, 0, 1);
            else
                relax(begin, end);
#pragma omp barrier
            if (thread == 0) {
                double *swapped = now;
                now = next;
                next = swapped;
            }
#pragma omp barrier
        }
    }
    *communication = waited / threads;
}

/* Each iteration shrinks the distance from the grid's own solution by the same factor. */
static double largest_error(int iterations) {
    double step = 1.0 / (points + 1), cosines = 0, largest = 0;
    for (int mode = 1; mode <= 3; mode++) cosines += cos(mode * PI * step);
    double grid_solution = 14 * PI * PI * step * step / (2 * (3 - cosines));
    double factor = grid_solution * (1 - pow(cosines / 3, iterations));
    for (int x = 1; x <= count[0]; x++)
        for (int y = 1; y <= count[1]; y++)
            for (int z = 1; z <= count[2]; z++) {
                double error = fabs(now[at(x, y, z)] - factor * solution(x, y, z));
                if (!(error <= largest)) largest = error;
            }
    return largest;
}

static void open_block(void) {
    int dimensions[3] = {0, 0, 0}, periods[3] = {0, 0, 0}, place[3];
    MPI_Dims_create(size, 3, dimensions);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dimensions, periods, 0, &grid);
    MPI_Cart_coords(grid, rank, 3, place);
    for (int d = 0; d < 3; d++) {
        first[d] = points * place[d] / dimensions[d];
        count[d] = points * (place[d] + 1) / dimensions[d] - first[d];
        MPI_Cart_shift(grid, d, 1, &neighbours[2 * d], &neighbours[2 * d + 1]);
    }
    for (int t = 0; t <= threads; t++) plane_begin[t] = 1 + count[0] * t / threads;
    for (int i = 0; i < 2 * FACES; i++) partitioned[i] = MPI_REQUEST_NULL;
    make_pieces();
    size_t all = at(count[0] + 1, count[1] + 1, count[2] + 1) + 1;
    now = study_allocate(all, sizeof *now);
    next = study_allocate(all, sizeof *next);
    source = study_allocate(all, sizeof *source);
    out = study_allocate(buffer_length, sizeof *out);
    in = study_allocate(buffer_length, sizeof *in);
    for (int x = 1; x <= count[0]; x++)
        for (int y = 1; y <= count[1]; y++)
            for (int z = 1; z <= count[2]; z++) source[at(x, y, z)] = 14 * PI * PI * solution(x, y, z);
}

static void close_block(void) {
    for (int face = 0; face < FACES; face++)
        for (int t = -1; t < threads; t++) {
            struct piece *piece = t < 0 ? &whole[face] : &pieces[t][face];
            MPI_Type_free(&piece->sent_type);
            MPI_Type_free(&piece->received_type);
        }
    MPI_Comm_free(&grid);
    free(now);
    free(next);
    free(source);
    free(out);
    free(in);
}

static void run(int halo, int iterations) {
    char name[64];
    double communication;
    size_t all = at(count[0] + 1, count[1] + 1, count[2] + 1) + 1;
    snprintf(name, sizeof name, "%s/%s", VERSION_NAMES[version], HALO_NAMES[halo]);
    memset(now, 0, all * sizeof *now);
    memset(next, 0, all * sizeof *next);
    open_halo(halo);
    MPI_Barrier(MPI_COMM_WORLD);
    double started = MPI_Wtime();
    solve(halo, iterations, &communication);
    study_case(name, MPI_Wtime() - started, communication);
    study_verify(name, largest_error(iterations), 1e-10);
    close_halo(halo);
}

static int find(const char *word, const char *const names[], int many) {
    int found = 0;
    while (found < many && strcmp(word, names[found]) != 0) found++;
    return found;
}

int main(int argc, char **argv) {
    static const int LEVELS[] = {MPI_THREAD_SINGLE, MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE};
    version = argc > 1 ? find(argv[1], VERSION_NAMES, VERSIONS) : VERSIONS;
    study_begin("poisson", &argc, &argv, version < VERSIONS ? LEVELS[version] : MPI_THREAD_SINGLE);
    points = study_number(argc, argv, 2, 64);
    int iterations = study_number(argc, argv, 3, 100), repetitions = study_number(argc, argv, 4, 1);
    int only = argc > 5 ? find(argv[5], HALO_NAMES, HALOS) : HALOS;
    threads = version == FUNNELED || version == MULTIPLE ? omp_get_max_threads() : 1;
    study_need(version < VERSIONS && iterations && repetitions && points >= size * threads && points <= 1000 &&
                   threads <= THREADS_MAX && (argc <= 5 || only < HALOS),
               "poisson mpi|overlap|funneled|multiple [POINTS [ITERATIONS [REPETITIONS [HALO]]]]: at least as many points "
               "as processes and threads, at most 1000");
    open_block();
    for (int repetition = 0; repetition < repetitions; repetition++)
        for (int halo = 0; halo < HALOS; halo++) {
            if (only < HALOS && halo != only) continue;
            /* A collective of a communicator is called by one thread: no version of several. */
            if (version == MULTIPLE && halo == NEIGHBOUR) continue;
            run(halo, iterations);
        }
    close_block();
    return study_end();
}
