! The functions of combray.h for elastic programs. Each is a generic procedure that takes handles
! of module mpi_f08, or those of module mpi and mpif.h, which are integers.
module combray
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_null_char, c_ptr
  use combray_mpi_types, only: MPI_Comm, MPI_Info
  implicit none
  private
  public :: combray_publish_set, combray_withdraw_set, combray_wanted_size

  interface combray_publish_set
    module procedure publish_set, publish_set_of_integer
  end interface combray_publish_set

  interface combray_wanted_size
    module procedure wanted_size, wanted_size_of_integer
  end interface combray_wanted_size

  interface
    type(c_ptr) function communicator_in_c(handle) bind(C, name="PMPI_Comm_fromint")
      import :: c_int, c_ptr
      integer(c_int), value, intent(in) :: handle
    end function communicator_in_c

    integer(c_int) function info_in_fortran(handle) bind(C, name="PMPI_Info_toint")
      import :: c_int, c_ptr
      type(c_ptr), value, intent(in) :: handle
    end function info_in_fortran

    integer(c_int) function publish_in_c(communicator, name) bind(C, name="combray_publish_set")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value, intent(in) :: communicator
      character(kind=c_char), intent(in) :: name(*)
    end function publish_in_c

    integer(c_int) function withdraw_in_c(name) bind(C, name="combray_withdraw_set")
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: name(*)
    end function withdraw_in_c

    integer(c_int) function wanted_in_c(communicator, processes, hints) &
        bind(C, name="combray_wanted_size")
      import :: c_int, c_ptr
      type(c_ptr), value, intent(in) :: communicator
      integer(c_int), intent(out) :: processes
      type(c_ptr), intent(out) :: hints
    end function wanted_in_c
  end interface

contains

  subroutine publish_set(comm, name, ierror)
    type(MPI_Comm), intent(in) :: comm
    character(len=*), intent(in) :: name
    integer, optional, intent(out) :: ierror
    call publish_set_of_integer(comm%MPI_VAL, name, ierror)
  end subroutine publish_set

  subroutine publish_set_of_integer(comm, name, ierror)
    integer, intent(in) :: comm
    character(len=*), intent(in) :: name
    integer, optional, intent(out) :: ierror
    integer :: code
    code = publish_in_c(communicator_in_c(comm), text_in_c(name))
    if (present(ierror)) ierror = code
  end subroutine publish_set_of_integer

  subroutine combray_withdraw_set(name, ierror)
    character(len=*), intent(in) :: name
    integer, optional, intent(out) :: ierror
    integer :: code
    code = withdraw_in_c(text_in_c(name))
    if (present(ierror)) ierror = code
  end subroutine combray_withdraw_set

  subroutine wanted_size(comm, processes, hints, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: processes
    type(MPI_Info), intent(out) :: hints
    integer, optional, intent(out) :: ierror
    call wanted_size_of_integer(comm%MPI_VAL, processes, hints%MPI_VAL, ierror)
  end subroutine wanted_size

  subroutine wanted_size_of_integer(comm, processes, hints, ierror)
    integer, intent(in) :: comm
    integer, intent(out) :: processes, hints
    integer, optional, intent(out) :: ierror
    type(c_ptr) :: handle
    integer :: code
    code = wanted_in_c(communicator_in_c(comm), processes, handle)
    hints = 0
    if (code == 0) hints = info_in_fortran(handle)
    if (present(ierror)) ierror = code
  end subroutine wanted_size_of_integer

  ! The text without the blanks at its ends, as the routines of MPI take it. By loops, as the
  ! functions for this are in the library of the Fortran compiler, which C programs need not have.
  function text_in_c(text) result(in_c)
    character(len=*), intent(in) :: text
    character(kind=c_char) :: in_c(len(text) + 1)
    integer, parameter :: blank = iachar(' ')
    integer :: first, last, place
    do first = 1, len(text)
      if (iachar(text(first:first)) /= blank) exit
    end do
    do last = len(text), first, -1
      if (iachar(text(last:last)) /= blank) exit
    end do
    in_c = c_null_char
    do place = first, last
      in_c(place - first + 1) = text(place:place)
    end do
  end function text_in_c

end module combray
