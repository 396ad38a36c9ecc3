! Errors end the job with the message that a program in C gets, in module mpi, too.
! run: 1
! built-for: mpich openmpi
! fails: MPI_Cart_create: argument|dims
program wrong_argument_mpi
  use mpi
  implicit none
  integer :: comm, code
  call MPI_Init(code)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, [1, -4], [.true., .false.], .true., comm, code)
  call MPI_Finalize(code)
end program wrong_argument_mpi
