// What programs do with parallel HDF5: datasets that all processes write and read in pieces, with
// collective and independent transfers, whole and in chunks, that grow, in groups made by all, with
// attributes; and a file that is opened again and read in other pieces.
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                                             \
    do {                                                                                               \
        if (!(condition)) {                                                                            \
            fprintf(stderr, "rank %d, line %d: %s does not hold\n", rank, __LINE__, #condition);       \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                              \
        }                                                                                              \
    } while (0)

enum { ROWS_EACH = 24, COLUMNS = 100, CHUNK_ROWS = 7, CHUNK_COLUMNS = 30, STEPS = 5 };

static int rank, size;

static double value(hsize_t row, hsize_t column) { return 1000.0 * (double)row + (double)column; }

static hid_t transfer_list(int is_collective) {
    hid_t list = H5Pcreate(H5P_DATASET_XFER);
    REQUIRE(H5Pset_dxpl_mpio(list, is_collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT) >= 0);
    return list;
}

// Every process has a band of whole rows.
static void write_rows(hid_t file, const char *name, int is_chunked, int is_collective) {
    hsize_t sizes[] = {(hsize_t)size * ROWS_EACH, COLUMNS}, chunk[] = {CHUNK_ROWS, CHUNK_COLUMNS};
    hsize_t start[] = {(hsize_t)rank * ROWS_EACH, 0}, count[] = {ROWS_EACH, COLUMNS};
    hid_t space = H5Screate_simple(2, sizes, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
    if (is_chunked) REQUIRE(H5Pset_chunk(list, 2, chunk) >= 0);
    hid_t dataset = H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    REQUIRE(dataset >= 0);
    double *rows = malloc(sizeof(double) * ROWS_EACH * COLUMNS);
    for (int row = 0; row < ROWS_EACH; row++)
        for (int column = 0; column < COLUMNS; column++)
            rows[row * COLUMNS + column] = value(start[0] + (hsize_t)row, (hsize_t)column);
    hid_t memory = H5Screate_simple(2, count, NULL), transfer = transfer_list(is_collective);
    REQUIRE(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0);
    REQUIRE(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, transfer, rows) >= 0);
    free(rows);
    H5Pclose(transfer), H5Pclose(list), H5Sclose(memory), H5Sclose(space), H5Dclose(dataset);
}

// What others wrote is there after a flush of all, and when all have come to it.
static void flush(hid_t file) {
    REQUIRE(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

// Every process reads columns that lie apart, of all rows.
static void read_columns(hid_t file, const char *name, int is_collective) {
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    REQUIRE(dataset >= 0);
    hid_t space = H5Dget_space(dataset), transfer = transfer_list(is_collective);
    hsize_t rows = (hsize_t)size * ROWS_EACH, mine = (COLUMNS - (hsize_t)rank + (hsize_t)size - 1) / (hsize_t)size;
    hsize_t start[] = {0, (hsize_t)rank}, stride[] = {1, (hsize_t)size}, count[] = {rows, mine};
    hid_t memory = H5Screate_simple(2, count, NULL);
    double *found = malloc(sizeof(double) * rows * mine);
    REQUIRE(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL) >= 0);
    REQUIRE(H5Dread(dataset, H5T_NATIVE_DOUBLE, memory, space, transfer, found) >= 0);
    for (hsize_t row = 0; row < rows; row++)
        for (hsize_t column = 0; column < mine; column++)
            REQUIRE(found[row * mine + column] == value(row, (hsize_t)rank + column * (hsize_t)size));
    free(found);
    H5Pclose(transfer), H5Sclose(memory), H5Sclose(space), H5Dclose(dataset);
}

// A dataset that grows by a row for each process in each step, as time steps do.
static void grow(hid_t file, hid_t group) {
    hsize_t none[] = {0, COLUMNS}, most[] = {H5S_UNLIMITED, COLUMNS}, chunk[] = {1, COLUMNS};
    hid_t space = H5Screate_simple(2, none, most), list = H5Pcreate(H5P_DATASET_CREATE);
    REQUIRE(H5Pset_chunk(list, 2, chunk) >= 0);
    hid_t dataset = H5Dcreate2(group, "steps", H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Sclose(space);
    hid_t transfer = transfer_list(1);
    for (int step = 0; step < STEPS; step++) {
        hsize_t now[] = {(hsize_t)(size * (step + 1)), COLUMNS}, start[] = {(hsize_t)(size * step + rank), 0};
        hsize_t count[] = {1, COLUMNS};
        REQUIRE(H5Dset_extent(dataset, now) >= 0);
        int row[COLUMNS];
        for (int column = 0; column < COLUMNS; column++) row[column] = (size * step + rank) * COLUMNS + column;
        space = H5Dget_space(dataset);
        hid_t memory = H5Screate_simple(2, count, NULL);
        REQUIRE(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0);
        REQUIRE(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, transfer, row) >= 0);
        H5Sclose(memory), H5Sclose(space);
    }
    flush(file);
    int *all = malloc(sizeof(int) * (size_t)(size * STEPS * COLUMNS));
    REQUIRE(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, transfer, all) >= 0);
    for (int i = 0; i < size * STEPS * COLUMNS; i++) REQUIRE(all[i] == i);
    free(all);
    H5Pclose(transfer), H5Pclose(list), H5Dclose(dataset);
}

static void attribute(hid_t group) {
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(group, "size", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT);
    REQUIRE(attribute >= 0 && H5Awrite(attribute, H5T_NATIVE_INT, &size) >= 0);
    H5Aclose(attribute), H5Sclose(space);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    REQUIRE(argc == 2);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    REQUIRE(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, info) >= 0);
    REQUIRE(H5Pset_all_coll_metadata_ops(access, 1) >= 0 && H5Pset_coll_metadata_write(access, 1) >= 0);
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
    REQUIRE(file >= 0);
    for (int ways = 0; ways < 4; ways++) {
        char name[20];
        snprintf(name, sizeof name, "rows %d", ways);
        write_rows(file, name, ways & 1, ways & 2);
        flush(file);
        read_columns(file, name, !(ways & 2));
    }
    hid_t group = H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    grow(file, group);
    attribute(group);
    H5Gclose(group);
    REQUIRE(H5Fclose(file) >= 0);
    file = H5Fopen(argv[1], H5F_ACC_RDONLY, access);
    REQUIRE(file >= 0);
    for (int ways = 0; ways < 4; ways++) {
        char name[20];
        snprintf(name, sizeof name, "rows %d", ways);
        read_columns(file, name, ways & 2);
    }
    int told = 0;
    hid_t found = H5Aopen_by_name(file, "group", "size", H5P_DEFAULT, H5P_DEFAULT);
    REQUIRE(H5Aread(found, H5T_NATIVE_INT, &told) >= 0 && told == size);
    H5Aclose(found);
    REQUIRE(H5Fclose(file) >= 0);
    H5Pclose(access);
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
