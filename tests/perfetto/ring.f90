! Sends a message around a ring and prints what it has sent, as known.c does.
program ring
  use mpi
  implicit none
  integer :: rank, size, ierror, round, status(MPI_STATUS_SIZE)
  double precision :: values(100), sums(100)
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  values = rank
  do round = 1, 50
    call MPI_Sendrecv(values, 100, MPI_DOUBLE_PRECISION, mod(rank + 1, size), 1000, sums, 100, &
                      MPI_DOUBLE_PRECISION, mod(rank + size - 1, size), 1000, MPI_COMM_WORLD, status, ierror)
    call MPI_Allreduce(values, sums, 100, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
  end do
  print '("sent ", i0, " ", i0, " ", i0)', rank, 50, 50 * 800
  call MPI_Finalize(ierror)
end program ring
