! The message about a wrong argument names the routine and the argument, also where errors are returned.
! run: 1
! built-for: mpich
program wrong_arguments_f08
  use mpi_f08
  implicit none
  integer :: a(10) = 0, b(10), code
  type(MPI_Request) :: request
  type(MPI_Group) :: group

  call MPI_Init()
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  call MPI_Isend(a, -1, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, request, code)
  call expect(code, "MPI_Isend: ", "(count)")
  call MPI_Recv(a, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, code)
  call expect(code, "MPI_Recv: ", "(datatype)")
  call MPI_Bcast(a, 1, MPI_INTEGER, 7, MPI_COMM_WORLD, code)
  call expect(code, "MPI_Bcast: ", "(root)")
  call MPI_Bcast(a(1:10:2), 7, MPI_INTEGER, 0, MPI_COMM_WORLD, code)
  call expect(code, "MPI_Bcast: ", "array section of 20 bytes")
  call MPI_Allreduce(a, b, 1, MPI_INTEGER, MPI_OP_NULL, MPI_COMM_WORLD, code)
  call expect(code, "MPI_Allreduce: ", "(op)")
  call MPI_Group_incl(MPI_GROUP_NULL, 1, [0], group, code)
  call expect(code, "MPI_Group_incl: ", "(group)")
  call MPI_Finalize()

contains

  subroutine expect(code, routine, argument)
    integer, intent(in) :: code
    character(len=*), intent(in) :: routine, argument
    character(len=MPI_MAX_ERROR_STRING) :: text
    integer :: length
    if (code == MPI_SUCCESS) error stop "nothing is said"
    call MPI_Error_string(code, text, length)
    if (index(text, routine) == 0 .or. index(text, argument) == 0) then
      print '(4a)', routine, argument, " is not in: ", text(:length)
      error stop 1
    end if
  end subroutine expect
end program wrong_arguments_f08
