//! Passes a number around a ring of processes, each of which adds its rank:
//! `cargo build --example ring && mpirun -n 4 target/debug/examples/ring`

use std::ffi::c_int;
use std::ptr::null_mut;

use combray_mpi_sys::*;

fn main() {
    let (mut rank, mut size, mut sum): (c_int, c_int, c_int) = (0, 0, 0);
    let mut status = MPI_Status::default();
    // SAFETY: buffers live as long as the calls, and the calls are in the order that MPI requires.
    unsafe {
        assert_eq!(MPI_Init(null_mut(), null_mut()), MPI_SUCCESS);
        MPI_Comm_rank(MPI_COMM_WORLD, &mut rank);
        MPI_Comm_size(MPI_COMM_WORLD, &mut size);
        let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
        let send = |number: &c_int| {
            MPI_Send((&raw const *number).cast(), 1, MPI_INT, right, 7, MPI_COMM_WORLD);
        };
        if rank == 0 {
            send(&0);
        }
        MPI_Recv((&raw mut sum).cast(), 1, MPI_INT, left, 7, MPI_COMM_WORLD, &mut status);
        assert_eq!((status.MPI_SOURCE, status.MPI_TAG), (left, 7));
        if rank > 0 {
            send(&(sum + rank));
        } else {
            assert_eq!(sum, size * (size - 1) / 2);
            println!("the sum of the ranks of {size} processes is {sum}");
        }
        MPI_Finalize();
    }
}
