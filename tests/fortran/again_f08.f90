! Sections of equal shapes again and again, whose datatypes are kept: more shapes than are kept, sent while
! earlier sends are pending; an equal shape of other types; sections sent while MPI_Finalize begins.
! run: 1 2 4
! built-for: mpich
program again_f08
  use mpi_f08
  implicit none
  integer, parameter :: shapes = 12, rounds = 30
  integer :: rank, processes, next, before, i, j, k, key
  integer, asynchronous :: a(64, shapes), b(64, shapes)
  real, asynchronous :: x(64), y(64)
  type(MPI_Request) :: requests(2 * shapes)
  type(MPI_Datatype) :: pair

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, processes)
  next = mod(rank + 1, processes)
  before = mod(rank + processes - 1, processes)
  ! Kept before any attribute of the program, so that both ways to end are seen.
  call MPI_Sendrecv(x(1:64:2), 0, MPI_REAL, next, 0, y(1:64:2), 0, MPI_REAL, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  do k = 1, rounds
    a = reshape([(i + 1000 * rank + k, i = 1, size(a))], shape(a))
    b = -1
    do j = 1, shapes
      call MPI_Irecv(b(1:64:1 + j, j), count_of(j), MPI_INTEGER, before, j, MPI_COMM_WORLD, requests(j))
    end do
    do j = 1, shapes
      call MPI_Isend(a(1:64:1 + j, j), count_of(j), MPI_INTEGER, next, j, MPI_COMM_WORLD, requests(shapes + j))
    end do
    call MPI_Waitall(2 * shapes, requests, MPI_STATUSES_IGNORE)
    do j = 1, shapes
      do i = 1, 64
        if (mod(i - 1, 1 + j) == 0) then
          if (b(i, j) /= a(i, j) + 1000 * (before - rank)) error stop "wrong numbers"
        else if (b(i, j) /= -1) then
          error stop "too much is written"
        end if
      end do
    end do
  end do
  ! The shape and size of a kept section, of another type and of types of the program.
  x = [(real(i + rank), i = 1, 64)]
  do k = 1, 3
    y = -1
    call MPI_Sendrecv(x(1:64:2), 32, MPI_REAL, next, 1, y(1:64:2), 32, MPI_REAL, before, 1, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE)
    if (any(y(1:64:2) /= [(real(2 * i - 1 + before), i = 1, 32)]) .or. any(y(2:64:2) /= -1)) error stop "wrong reals"
    call MPI_Type_contiguous(k, MPI_REAL, pair)
    call MPI_Type_commit(pair)
    y = -1
    call MPI_Sendrecv(x(1:64:2), 8, pair, next, 1, y(1:64:2), 8, pair, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    if (any(y(1:16 * k:2) /= [(real(2 * i - 1 + before), i = 1, 8 * k)])) error stop "wrong pairs"
    if (any(y(16 * k + 1:) /= -1)) error stop "more than was sent"
    call MPI_Type_free(pair)
  end do
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_the_end, key, 0_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(MPI_COMM_SELF, key, 0_MPI_ADDRESS_KIND)
  call MPI_Finalize()

contains

  integer function count_of(j)
    integer, intent(in) :: j
    count_of = 63 / (1 + j) + 1
  end function count_of

  subroutine at_the_end(comm, keyval, value, extra, ierror)
    type(MPI_Comm) :: comm
    integer :: keyval, ierror
    integer(MPI_ADDRESS_KIND) :: value, extra
    ierror = merge(MPI_SUCCESS, MPI_ERR_OTHER, keyval == key .and. value == 0 .and. extra == 0)
    y = -1
    call MPI_Sendrecv(x(1:64:2), 32, MPI_REAL, 0, 1, y(1:64:2), 32, MPI_REAL, 0, 1, comm, MPI_STATUS_IGNORE)
    if (any(y(1:64:2) /= x(1:64:2))) error stop "wrong at the end"
  end subroutine at_the_end
end program again_f08
