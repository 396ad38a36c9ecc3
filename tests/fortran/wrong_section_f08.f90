! A section that a nonblocking reduction cannot keep: the message names the argument and the call.
! run: 1
! built-for: mpich
! fails: MPI_Iallreduce: argument 1 (sendbuf) is an array section with gaps|contiguous array
program wrong_section_f08
  use mpi_f08
  implicit none
  integer :: a(9), b(9)
  type(MPI_Request) :: request
  call MPI_Init()
  a = 1
  call MPI_Iallreduce(a(1:9:2), b, 5, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
  call MPI_Finalize()
end program wrong_section_f08
