/* Writes a MiB of all bytes to standard output, in pieces of many lengths. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    static unsigned char bytes[1 << 20];
    MPI_Init(&argc, &argv);
    unsigned state = 1;
    for (size_t index = 0; index < sizeof bytes; index++) {
        state = state * 1664525 + 1013904223;
        bytes[index] = index < 256 ? index : state >> 24;
    }
    size_t written = 0;
    for (size_t length = 1; written < sizeof bytes; length = length % 9973 + 7) {
        size_t left = sizeof bytes - written;
        written += fwrite(bytes + written, 1, length < left ? length : left, stdout);
    }
    MPI_Finalize();
    return 0;
}
