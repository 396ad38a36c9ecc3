! Errors end the job with the message that a program in C gets.
! run: 2
! built-for: mpich openmpi
! fails: MPI_Send|MPI_COMM_WORLD|dest
program wrong_argument_f08
  use mpi_f08
  implicit none
  call MPI_Init()
  call MPI_Send([1], 1, MPI_INTEGER, 99, 0, MPI_COMM_WORLD)
  call MPI_Finalize()
end program wrong_argument_f08
