! A tool in Fortran replaces a routine of each interface, and one in C sees all calls.
! run: 1
! built-for: openmpi
! with: profiling_in_c.c
! flags: -Wno-function-elimination
subroutine mpi_barrier(comm, ierror)
  use mpi, only: PMPI_Barrier
  implicit none
  integer, intent(in) :: comm
  integer, intent(out) :: ierror
  integer :: seen
  common /tool/ seen
  seen = seen + 1
  call PMPI_Barrier(comm, ierror)
end subroutine mpi_barrier

program profiling
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  integer :: seen, code
  common /tool/ seen
  interface
    integer(c_int) function sends_in_c() bind(C)
      import
    end function sends_in_c
  end interface
  type(MPI_Request) :: request
  integer, asynchronous :: got
  external :: barrier_through_mpi
  seen = 0
  call MPI_Init()
  call PMPI_Barrier(MPI_COMM_WORLD, code)
  if (seen /= 0) error stop "the name for tools was replaced"
  call barrier_through_mpi()
  if (seen /= 1) error stop "the tool in Fortran was not called"
  call MPI_Irecv(got, 1, MPI_INTEGER, 0, 1, MPI_COMM_SELF, request)
  call MPI_Send([5], 1, MPI_INTEGER, 0, 1, MPI_COMM_SELF)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  if (got /= 5 .or. sends_in_c() /= 1) error stop "the tool in C did not see the call"
  call PMPI_Send([5], 1, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_SELF)
  if (sends_in_c() /= 1) error stop "the tool in C saw a call for tools"
  call MPI_Finalize()

end program profiling

subroutine barrier_through_mpi()
  use mpi, only: MPI_Barrier, MPI_COMM_WORLD
  implicit none
  integer :: code
  call MPI_Barrier(MPI_COMM_WORLD, code)
end subroutine barrier_through_mpi
