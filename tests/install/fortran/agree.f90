program agree
  use mpi_f08
  implicit none
  integer :: rank, processes, total
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, processes)
  call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0 .and. processes == 2 .and. total == 1) print '(a)', "two processes agree"
  call MPI_Finalize()
end program agree
