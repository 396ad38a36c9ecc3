! Single calls through the Fortran interfaces, for bench/fortran to count their instructions under callgrind.
!
! One process that sends to itself. Each case runs so many times, then twice as many, a dump for both, named after the
! case and the times. Sections are sent in three ways: as sections, as a datatype that was made before,
! and as what a loop packed; they are received as contiguous numbers each time.
module marks
  use iso_c_binding, only: c_char
  implicit none
  interface
    subroutine count_from_here() bind(C)
    end subroutine count_from_here
    subroutine count_to_here(name) bind(C)
      import :: c_char
      character(kind=c_char), intent(in) :: name(*)
    end subroutine count_to_here
    subroutine c_isend_recv_wait() bind(C)
    end subroutine c_isend_recv_wait
    subroutine c_irecv_send_wait() bind(C)
    end subroutine c_irecv_send_wait
  end interface
  integer, parameter :: tag = 7
  integer(8), target, asynchronous :: sent = 1, received = 0
end module marks

module through_mpi
  use mpi
  use marks
  implicit none
contains
  subroutine mpi_isend_recv_wait()
    integer :: request, code
    call MPI_Isend(sent, 8, MPI_BYTE, 0, tag, MPI_COMM_SELF, request, code)
    call MPI_Recv(received, 8, MPI_BYTE, 0, tag, MPI_COMM_SELF, MPI_STATUS_IGNORE, code)
    call MPI_Wait(request, MPI_STATUS_IGNORE, code)
  end subroutine mpi_isend_recv_wait

  subroutine mpi_irecv_send_wait()
    integer :: request, code
    call MPI_Irecv(received, 8, MPI_BYTE, 0, tag, MPI_COMM_SELF, request, code)
    call MPI_Send(sent, 8, MPI_BYTE, 0, tag, MPI_COMM_SELF, code)
    call MPI_Wait(request, MPI_STATUS_IGNORE, code)
  end subroutine mpi_irecv_send_wait
end module through_mpi

module through_header
  use marks
  implicit none
  include 'mpif.h'
contains
  subroutine header_isend_recv_wait()
    integer :: request, code
    call MPI_Isend(sent, 8, MPI_BYTE, 0, tag, MPI_COMM_SELF, request, code)
    call MPI_Recv(received, 8, MPI_BYTE, 0, tag, MPI_COMM_SELF, MPI_STATUS_IGNORE, code)
    call MPI_Wait(request, MPI_STATUS_IGNORE, code)
  end subroutine header_isend_recv_wait

  subroutine header_irecv_send_wait()
    integer :: request, code
    call MPI_Irecv(received, 8, MPI_BYTE, 0, tag, MPI_COMM_SELF, request, code)
    call MPI_Send(sent, 8, MPI_BYTE, 0, tag, MPI_COMM_SELF, code)
    call MPI_Wait(request, MPI_STATUS_IGNORE, code)
  end subroutine header_irecv_send_wait
end module through_header

module through_f08
  use mpi_f08
  use marks
  implicit none
  integer, parameter :: points = 34
  real(8), asynchronous, target :: line(256), cube(points, points, points), got(points * points)
  real(8), asynchronous, target :: packed(points * points)
  type(MPI_Datatype) :: short_type, long_type, face_type
contains
  subroutine f08_isend_recv_wait()
    type(MPI_Request) :: request
    call MPI_Isend(sent, 8, MPI_BYTE, 0, tag, MPI_COMM_SELF, request)
    call MPI_Recv(received, 8, MPI_BYTE, 0, tag, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
  end subroutine f08_isend_recv_wait

  subroutine f08_irecv_send_wait()
    type(MPI_Request) :: request
    call MPI_Irecv(received, 8, MPI_BYTE, 0, tag, MPI_COMM_SELF, request)
    call MPI_Send(sent, 8, MPI_BYTE, 0, tag, MPI_COMM_SELF)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
  end subroutine f08_irecv_send_wait

  subroutine prepare()
    type(MPI_Datatype) :: row
    integer(MPI_ADDRESS_KIND), parameter :: column_bytes = points * 8, plane_bytes = points * column_bytes
    line = 1
    cube = 2
    call MPI_Type_vector(8, 1, 2, MPI_DOUBLE_PRECISION, short_type)
    call MPI_Type_commit(short_type)
    call MPI_Type_vector(128, 1, 2, MPI_DOUBLE_PRECISION, long_type)
    call MPI_Type_commit(long_type)
    call MPI_Type_create_hvector(32, 1, column_bytes, MPI_DOUBLE_PRECISION, row)
    call MPI_Type_create_hvector(32, 1, plane_bytes, row, face_type)
    call MPI_Type_commit(face_type)
    call MPI_Type_free(row)
  end subroutine prepare

  subroutine clear_away()
    call MPI_Type_free(short_type)
    call MPI_Type_free(long_type)
    call MPI_Type_free(face_type)
  end subroutine clear_away

  ! Receives what was sent.
  subroutine finish(request, numbers)
    type(MPI_Request), intent(inout) :: request
    integer, intent(in) :: numbers
    call MPI_Recv(got, numbers, MPI_DOUBLE_PRECISION, 0, tag, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
  end subroutine finish

  subroutine short_section()
    type(MPI_Request) :: request
    call MPI_Isend(line(1:16:2), 8, MPI_DOUBLE_PRECISION, 0, tag, MPI_COMM_SELF, request)
    call finish(request, 8)
  end subroutine short_section

  subroutine short_datatype()
    type(MPI_Request) :: request
    call MPI_Isend(line, 1, short_type, 0, tag, MPI_COMM_SELF, request)
    call finish(request, 8)
  end subroutine short_datatype

  subroutine short_made()
    type(MPI_Request) :: request
    type(MPI_Datatype) :: made
    call MPI_Type_vector(8, 1, 2, MPI_DOUBLE_PRECISION, made)
    call MPI_Type_commit(made)
    call MPI_Isend(line, 1, made, 0, tag, MPI_COMM_SELF, request)
    call MPI_Type_free(made)
    call finish(request, 8)
  end subroutine short_made

  subroutine short_packed()
    type(MPI_Request) :: request
    integer :: i
    do i = 1, 8
      packed(i) = line(2 * i - 1)
    end do
    call MPI_Isend(packed, 8, MPI_DOUBLE_PRECISION, 0, tag, MPI_COMM_SELF, request)
    call finish(request, 8)
  end subroutine short_packed

  subroutine long_section()
    type(MPI_Request) :: request
    call MPI_Isend(line(1:256:2), 128, MPI_DOUBLE_PRECISION, 0, tag, MPI_COMM_SELF, request)
    call finish(request, 128)
  end subroutine long_section

  subroutine long_datatype()
    type(MPI_Request) :: request
    call MPI_Isend(line, 1, long_type, 0, tag, MPI_COMM_SELF, request)
    call finish(request, 128)
  end subroutine long_datatype

  subroutine long_packed()
    type(MPI_Request) :: request
    integer :: i
    do i = 1, 128
      packed(i) = line(2 * i - 1)
    end do
    call MPI_Isend(packed, 128, MPI_DOUBLE_PRECISION, 0, tag, MPI_COMM_SELF, request)
    call finish(request, 128)
  end subroutine long_packed

  subroutine face_section()
    type(MPI_Request) :: request
    call MPI_Isend(cube(2, 2:33, 2:33), 1024, MPI_DOUBLE_PRECISION, 0, tag, MPI_COMM_SELF, request)
    call finish(request, 1024)
  end subroutine face_section

  subroutine face_datatype()
    type(MPI_Request) :: request
    call MPI_Isend(cube(2, 2, 2), 1, face_type, 0, tag, MPI_COMM_SELF, request)
    call finish(request, 1024)
  end subroutine face_datatype

  subroutine face_packed()
    type(MPI_Request) :: request
    integer :: i, j
    do j = 1, 32
      do i = 1, 32
        packed(i + 32 * (j - 1)) = cube(2, i + 1, j + 1)
      end do
    end do
    call MPI_Isend(packed, 1024, MPI_DOUBLE_PRECISION, 0, tag, MPI_COMM_SELF, request)
    call finish(request, 1024)
  end subroutine face_packed
end module through_f08

program calls
  use through_f08
  use through_mpi, only: mpi_isend_recv_wait, mpi_irecv_send_wait
  use through_header, only: header_isend_recv_wait, header_irecv_send_wait
  implicit none
  integer, parameter :: warm_up = 300, at_first = 500

  call MPI_Init()
  call prepare()
  call count("isend, recv, wait of 8 bytes: C", c_isend_recv_wait)
  call count("isend, recv, wait of 8 bytes: mpi_f08", f08_isend_recv_wait)
  call count("isend, recv, wait of 8 bytes: mpi", mpi_isend_recv_wait)
  call count("isend, recv, wait of 8 bytes: mpif.h", header_isend_recv_wait)
  call count("irecv, send, wait of 8 bytes: C", c_irecv_send_wait)
  call count("irecv, send, wait of 8 bytes: mpi_f08", f08_irecv_send_wait)
  call count("irecv, send, wait of 8 bytes: mpi", mpi_irecv_send_wait)
  call count("irecv, send, wait of 8 bytes: mpif.h", header_irecv_send_wait)
  call count("8 of 16 numbers: datatype", short_datatype)
  call count("8 of 16 numbers: section", short_section)
  call count("8 of 16 numbers: datatype made each time", short_made)
  call count("8 of 16 numbers: packed", short_packed)
  call count("128 of 256 numbers: datatype", long_datatype)
  call count("128 of 256 numbers: section", long_section)
  call count("128 of 256 numbers: packed", long_packed)
  call count("face of 32 by 32 numbers: datatype", face_datatype)
  call count("face of 32 by 32 numbers: section", face_section)
  call count("face of 32 by 32 numbers: packed", face_packed)
  call clear_away()
  call MPI_Finalize()

contains

  subroutine count(name, run)
    character(len=*), intent(in) :: name
    interface
      subroutine run()
      end subroutine run
    end interface
    character(len=8) :: times_text
    integer :: times, i
    do times = at_first, 2 * at_first, at_first
      do i = 1, warm_up
        call run()
      end do
      write (times_text, "(i0)") times
      call count_from_here()
      do i = 1, times
        call run()
      end do
      call count_to_here(name // " " // trim(times_text) // char(0))
    end do
  end subroutine count
end program calls
