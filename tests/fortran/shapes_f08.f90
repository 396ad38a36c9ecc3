! Every kind of argument that can be a buffer in module mpi_f08. flang 19 has no procedures in Fortran
! whose arguments have assumed rank.
! run: 1
! gfortran
! flags: -O2 -Wno-maybe-uninitialized
module shapes
  use mpi_f08
  implicit none
contains

  subroutine check(right, what)
    logical, intent(in) :: right
    character(len=*), intent(in) :: what
    if (right) return
    print '(2a)', what, " is wrong"
    error stop 1
  end subroutine check

  ! An array whose size only the caller knows, and one with gaps between its elements.
  subroutine assumed_size(n, x, y)
    integer, intent(in) :: n
    integer, intent(in) :: x(*)
    integer, intent(inout) :: y(2, *)
    call MPI_Sendrecv(x, n, MPI_INTEGER, 0, 1, y, n, MPI_INTEGER, 0, 1, MPI_COMM_SELF, &
      MPI_STATUS_IGNORE)
    call MPI_Sendrecv(x, 2, MPI_INTEGER, 0, 1, y(2, 1:3:2), 2, MPI_INTEGER, 0, 1, MPI_COMM_SELF, &
      MPI_STATUS_IGNORE)
  end subroutine assumed_size

  ! Handed on from one argument of any type and rank to the next.
  subroutine any_rank(x, n, datatype, y)
    type(*), dimension(..), intent(in) :: x
    integer, intent(in) :: n
    type(MPI_Datatype), intent(in) :: datatype
    type(*), dimension(..), target, asynchronous :: y
    type(MPI_Request) :: request
    call MPI_Irecv(y, n, datatype, 0, 1, MPI_COMM_SELF, request)
    call MPI_Send(x, n, datatype, 0, 1, MPI_COMM_SELF)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
  end subroutine any_rank

  subroutine with_bounds(x, y)
    integer, intent(in) :: x(-3:)
    integer, intent(out), contiguous :: y(:)
    y = 0
    call any_rank(x(-3::2), size(y), MPI_INTEGER, y)
  end subroutine with_bounds

end module shapes

program shapes_f08
  use shapes
  implicit none
  integer :: numbers(6), table(2, 3), i, size_of_cell
  integer, allocatable :: grown(:), empty(:)
  integer, pointer :: p(:), q(:, :)
  integer, target :: memory(4, 4)
  real :: one, other
  character(len=5) :: words(4), heard(4)
  character(len=12) :: text
  logical :: truths(4), all_true(2)
  complex(8) :: z(3), w(3)
  type cell
    integer :: number
    real(8) :: values(3)
  end type cell
  type(cell) :: cells(4), copies(4)

  call MPI_Init()
  numbers = [1, 2, 3, 4, 5, 6]
  table = 0
  call assumed_size(6, numbers, table)
  call check(all(table == reshape([1, 1, 3, 4, 5, 2], [2, 3])), "assumed size")
  one = 2.5
  call any_rank(one, 1, MPI_REAL, other)
  call check(other == 2.5, "a scalar")
  ! Memory that an assignment has allocated.
  grown = [numbers, numbers]
  call any_rank(grown(2:12:2), 6, MPI_INTEGER, numbers)
  call check(all(numbers == [2, 4, 6, 2, 4, 6]), "allocated by assignment")
  call any_rank(grown, 6, MPI_INTEGER, numbers)
  call check(all(numbers == [1, 2, 3, 4, 5, 6]), "all that was allocated by assignment")
  allocate (empty(0))
  call any_rank(empty, 0, MPI_INTEGER, numbers)
  call any_rank(numbers(4:1), 0, MPI_INTEGER, empty)
  call check(all(numbers == [1, 2, 3, 4, 5, 6]), "nothing")
  memory = reshape([(i, i = 1, 16)], [4, 4])
  p => memory(2, :)
  call any_rank(p, 4, MPI_INTEGER, numbers)
  call check(all(numbers == [2, 6, 10, 14, 5, 6]), "a pointer to a row")
  q => memory(4:1:-3, ::2)
  call any_rank(numbers, 4, MPI_INTEGER, q)
  call check(memory(4, 1) == 2 .and. memory(1, 1) == 6 .and. memory(4, 3) == 10 .and. memory(1, 3) == 14, &
    "a pointer backwards")
  deallocate (grown)
  allocate (grown(3))
  call with_bounds(numbers, grown)
  call check(all(grown == [2, 10, 5]), "other bounds")
  words = ["one  ", "two  ", "three", "four "]
  heard = "-"
  call any_rank(words(4:1:-3), 10, MPI_CHARACTER, heard(1:3:2))
  call check(heard(1) == "four" .and. heard(3) == "one" .and. heard(2) == "-", "texts")
  text = "abcdefghijkl"
  call any_rank(text(3:5), 3, MPI_CHARACTER, text(10:12))
  call check(text == "abcdefghicde", "a part of a text")
  call any_rank(words(:)(2:3), 8, MPI_CHARACTER, text)
  call check(text(:8) == "newohrou", "parts of texts")
  truths = [.true., .false., .true., .true.]
  call MPI_Allreduce(truths(1:3:2), all_true, 2, MPI_LOGICAL, MPI_LAND, MPI_COMM_SELF)
  call check(all(all_true) .and. (all_true(1) .eqv. .true.), "truth values")
  z = [(1, 2), (3, 4), (5, 6)]
  call MPI_Sendrecv(z(3:1:-1)%im, 3, MPI_DOUBLE_PRECISION, 0, 1, w, 3, MPI_DOUBLE_PRECISION, 0, 1, &
    MPI_COMM_SELF, MPI_STATUS_IGNORE)
  call check(w(1) == (6, 4) .and. real(w(2)) == 2, "parts of complex numbers")
  cells = [(cell(i, real(i, 8)), i = 1, 4)]
  copies = cell(0, 0)
  call MPI_Sizeof(cells, size_of_cell)
  call any_rank(cells(1:4:2), 2 * size_of_cell, MPI_BYTE, copies(2:4:2))
  call check(all(copies%number == [0, 1, 0, 3]) .and. all(copies(4)%values == 3), "structures")
  call any_rank(cells%values(2), 4, MPI_DOUBLE_PRECISION, copies(:)%values(3))
  call check(all(copies%values(3) == [1, 2, 3, 4]) .and. all(copies%values(1) == [0, 1, 0, 3]), &
    "numbers within structures")
  call MPI_Finalize()
end program shapes_f08
