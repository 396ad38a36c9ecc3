! Process sets that the program publishes, through the module combray.
! run: 1 3
program sets
  use mpi_f08
  use combray
  implicit none
  character(len=*), parameter :: name = "app://half"
  type(MPI_Comm) :: half, made
  type(MPI_Session) :: session
  type(MPI_Info) :: info, hints
  character(len=16) :: text
  logical :: found
  integer :: rank, size, code, length, wanted, halves, count, one, total

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half)
  call MPI_Comm_size(half, halves)
  ! Blanks at the ends do not belong to the name.
  call combray_publish_set(half, "  " // name // "   ")
  call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, session)
  call check(size_of_set(), halves, "published")
  call from_set()

  ! The handles of the other interfaces are integers.
  call combray_publish_set(MPI_COMM_WORLD%MPI_VAL, name, code)
  call check(code, MPI_SUCCESS, "code of an integer handle")
  call check(size_of_set(), size, "replaced")

  call combray_withdraw_set(name, code)
  call check(code, MPI_SUCCESS, "code of withdrawing")
  call check(size_of_set(), 0, "withdrawn")

  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  call combray_publish_set(MPI_COMM_WORLD, "mpi://mine", code)
  call class_is(code, MPI_ERR_ARG, "reserved name")
  call combray_withdraw_set("app://nothing", code)
  call class_is(code, MPI_ERR_ARG, "unknown name")

  call combray_wanted_size(MPI_COMM_WORLD, wanted, hints)
  call check(wanted, 0, "the user has asked for nothing")
  if (hints /= MPI_INFO_NULL) call fail("there are hints")

  call MPI_Session_finalize(session)
  call MPI_Comm_free(half)
  call MPI_Finalize()

contains

  integer function size_of_set()
    call MPI_Session_get_pset_info(session, name, info)
    length = len(text)
    call MPI_Info_get_string(info, "mpi_size", length, text, found)
    call MPI_Info_free(info)
    if (.not. found) call fail("mpi_size is missing")
    read (text, *) size_of_set
  end function size_of_set

  subroutine from_set()
    type(MPI_Group) :: group
    call MPI_Group_from_session_pset(session, name, group)
    call MPI_Comm_create_from_group(group, "half", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, made)
    call MPI_Group_free(group)
    one = 1
    call MPI_Allreduce(one, total, 1, MPI_INTEGER, MPI_SUM, made)
    call MPI_Comm_size(made, count)
    call check(total, halves, "sum")
    call check(count, halves, "size")
    call MPI_Comm_free(made)
  end subroutine from_set

  subroutine check(value, expected, what)
    integer, intent(in) :: value, expected
    character(len=*), intent(in) :: what
    if (value /= expected) then
      print *, what, ": ", value, " instead of ", expected
      call MPI_Abort(MPI_COMM_WORLD, 1)
    end if
  end subroutine check

  subroutine class_is(error, expected, what)
    integer, intent(in) :: error, expected
    character(len=*), intent(in) :: what
    integer :: class
    call MPI_Error_class(error, class)
    call check(class, expected, what)
  end subroutine class_is

  subroutine fail(what)
    character(len=*), intent(in) :: what
    print *, what
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine fail
end program sets
