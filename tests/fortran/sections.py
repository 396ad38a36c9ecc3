"""Writes a program that sends array sections of random shapes, of every rank, against the compiler's own copies."""

RANKS = range(1, 16)

HEAD = """\
! Array sections of random shapes (written by tests/fortran/sections.py).
! run: 1 2 3
! random
! built-for: mpich
! unoptimized
program random_sections
  use mpi_f08
  implicit none
  integer :: rank, processes, cases, seed, i
  integer, allocatable :: state(:)
  character(len=32) :: word
  type cell
    integer(2) :: before
    real(8) :: value
    integer :: after
  end type cell

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, processes)
  call get_command_argument(1, word)
  read (word, *) seed
  call get_command_argument(2, word)
  read (word, *) cases
  call random_seed(size=i)
  allocate (state(i))
  state = [(seed * 31 + i * 7919, i = 1, size(state))]
  call random_seed(put=state)
  do i = 1, cases
    select case (at_random(1, 15))
SELECT
    end select
    call components()
  end do
  call MPI_Finalize()

contains

  integer function at_random(from, to)
    integer, intent(in) :: from, to
    real :: x
    call random_number(x)
    at_random = min(to, from + int(x * (to - from + 1)))
  end function at_random

  ! A random triplet within an extent; sometimes with no element.
  subroutine triplet(extent, first, last, step)
    integer, intent(in) :: extent
    integer, intent(out) :: first, last, step
    integer :: toss
    first = at_random(1, extent)
    last = at_random(1, extent)
    step = at_random(1, 3)
    toss = at_random(1, 12)
    if (first > last .and. toss > 1) step = -step
  end subroutine triplet

  subroutine fail(what, dimensions)
    character(len=*), intent(in) :: what
    integer, intent(in) :: dimensions
    print '(a, 3(a, i0))', what, ": case ", i, ", rank of the array ", dimensions, ", process ", rank
    error stop 1
  end subroutine fail

  ! Sections of a component, of numbers within structures.
  subroutine components()
    type(cell), allocatable :: cells(:, :)
    real(8), allocatable :: got(:)
    complex(8), allocatable :: pairs(:)
    integer :: n, f(2), l(2), s(2), j
    type(MPI_Request) :: request
    allocate (cells(at_random(1, 6), at_random(1, 6)))
    do j = 1, size(cells, 2)
      cells(:, j)%value = [(n + 100 * j, n = 1, size(cells, 1))]
    end do
    do j = 1, 2
      call triplet(size(cells, j), f(j), l(j), s(j))
    end do
    n = size(cells(f(1):l(1):s(1), f(2):l(2):s(2)))
    allocate (got(n), pairs(2 * n + 1))
    call MPI_Irecv(got, n, MPI_DOUBLE_PRECISION, rank, 1, MPI_COMM_WORLD, request)
    call MPI_Send(cells(f(1):l(1):s(1), f(2):l(2):s(2))%value, n, MPI_DOUBLE_PRECISION, rank, 1, &
      MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (any(got /= pack(cells(f(1):l(1):s(1), f(2):l(2):s(2))%value, .true.))) &
      call fail("components", 2)
    ! The real parts of complex numbers, and complex numbers as pairs, the last of them in part.
    pairs = [(cmplx(j, -j, 8), j = 1, 2 * n + 1)]
    call MPI_Irecv(got, n, MPI_DOUBLE_PRECISION, rank, 1, MPI_COMM_WORLD, request)
    call MPI_Send(pairs(2 * n:1:-2)%re, n, MPI_DOUBLE_PRECISION, rank, 1, MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (any(got /= [(real(2 * (n - j) + 2, 8), j = 1, n)])) call fail("real parts", 1)
    if (n < 2) return
    call MPI_Irecv(got, n - 1, MPI_DOUBLE_PRECISION, rank, 1, MPI_COMM_WORLD, request)
    call MPI_Send(pairs(::2), n - 1, MPI_DOUBLE_PRECISION, rank, 1, MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    do j = 1, n - 1
      if (got(j) /= merge(1, -1, mod(j, 2) == 1) * (2 * ((j - 1) / 2) + 1)) call fail("halves", 1)
    end do
  end subroutine components
"""

CASE = """
  subroutine case_RANK()
    TYPE, allocatable, target, dimension(COLONS) :: a, b, model
    TYPE, pointer :: p(COLONS)
    TYPE, allocatable :: flat(:), got(:)
    integer :: e(RANK), f(RANK), l(RANK), s(RANK), j, n, most, part, next, before, way
    type(MPI_Request) :: requests(2)
    type(MPI_Status) :: status
    most = merge(7, merge(4, 2, RANK < 6), RANK < 4)
    do j = 1, RANK
      e(j) = at_random(1, most)
      call triplet(e(j), f(j), l(j), s(j))
    end do
    allocate (a(EXTENTS))
    allocate (b, model, mold=a)
    a = reshape([(j + 100000 * rank, j = 1, size(a))], e)
    b = -1
    model = -1
    n = size(a(SECTION))
    allocate (flat(n))
    flat = pack(a(SECTION), .true.)

    allocate (got(n))
    got = -7
    next = mod(rank + 1, processes)
    before = mod(rank + processes - 1, processes)
    way = at_random(1, 7)
    part = at_random(0, n)
    if (mod(i, 3) > 0) part = n
    p => b(SECTION)
    select case (way)
    case (1)
      call MPI_Irecv(b(SECTION), n, MPITYPE, before, 5, MPI_COMM_WORLD, requests(1))
      call MPI_Isend(a(SECTION), n, MPITYPE, next, 5, MPI_COMM_WORLD, requests(2))
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      part = n
    case (2)
      call MPI_Irecv(p, n, MPITYPE, before, 5, MPI_COMM_WORLD, requests(1))
      call MPI_Send(a(SECTION), part, MPITYPE, next, 5, MPI_COMM_WORLD)
      call MPI_Wait(requests(1), status)
      call MPI_Get_count(status, MPITYPE, j)
      if (j /= part) call fail("another count", RANK)
    case (3)
      call MPI_Sendrecv(a(SECTION), part * BYTES, MPI_BYTE, next, 5, b(SECTION), n, MPITYPE, before, 5, &
        MPI_COMM_WORLD, status)
    case (4)
      call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
      call MPI_Sendrecv(flat, n, MPITYPE, next, 5, p, part, MPITYPE, before, 5, MPI_COMM_WORLD, &
        MPI_STATUS_IGNORE, j)
      call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
      if (part < n) then
        ! Too long a message; its beginning is there.
        call MPI_Error_class(j, e(1))
        if (e(1) /= MPI_ERR_TRUNCATE) call fail("nothing is truncated", RANK)
        b = model
        part = 0
      end if
    case (5)
      call shaped_RANK(a(SECTION), p, n, next, before)
      part = n
    case (6)
      j = 0
      call MPI_Pack(a(SECTION), n, MPITYPE, got, n * BYTES, j, MPI_COMM_WORLD)
      if (j /= n * BYTES .or. any(got /= flat)) call fail("packed", RANK)
      call MPI_Sendrecv_replace(got, n, MPITYPE, next, 5, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
      j = 0
      call MPI_Unpack(got, n * BYTES, j, b(SECTION), n, MPITYPE, MPI_COMM_WORLD)
      part = n
    case (7)
      b(SECTION) = a(SECTION)
      call MPI_Sendrecv_replace(b(SECTION), n, MPITYPE, next, 5, before, 5, MPI_COMM_WORLD, &
        MPI_STATUS_IGNORE)
      part = n
    end select
    ! What the process before sent: its numbers differ by its rank.
    flat = flat + (before - rank) * 100000
    flat(part + 1:) = -1
    model(SECTION) = reshape(flat, shape(model(SECTION)))
    if (any(b /= model)) call fail("sent in way " // achar(48 + way), RANK)
    call MPI_Allreduce(a(SECTION), got, n, MPITYPE, MPI_SUM, MPI_COMM_WORLD)
    flat = pack(a(SECTION), .true.) - 100000 * rank
    if (any(got /= flat * processes + 100000 * (processes * (processes - 1) / 2))) &
      call fail("a wrong sum", RANK)
    b = -1
    model = -1
    model(SECTION) = a(SECTION) - 100000 * rank
    if (rank == 0) b(SECTION) = a(SECTION)
    call MPI_Bcast(b(SECTION), n, MPITYPE, 0, MPI_COMM_WORLD)
    if (any(b /= model)) call fail("broadcast", RANK)
  end subroutine case_RANK

  subroutine shaped_RANK(x, y, n, next, before)
    TYPE, intent(in) :: x(COLONS)
    TYPE, intent(inout) :: y(COLONS)
    integer, intent(in) :: n, next, before
    call MPI_Sendrecv(x, n, MPITYPE, next, 5, y, n, MPITYPE, before, 5, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE)
  end subroutine shaped_RANK
"""

TYPES = [("integer", "MPI_INTEGER", "4"), ("real(8)", "MPI_DOUBLE_PRECISION", "8"), ("integer(8)", "MPI_INTEGER8", "8")]


def broken(words):
    """Words with commas, at most three in a line."""
    lines = [", ".join(words[at:at + 3]) for at in range(0, len(words), 3)]
    if len(words) == 1:
        return lines[0]
    return " &\n        " + ", &\n        ".join(lines) + " &\n      "


def program():
    select = "\n".join(f"    case ({n})\n      call case_{n}()" for n in RANKS)
    text = HEAD.replace("SELECT", select)
    for rank in RANKS:
        kind, mpi, size = TYPES[rank % len(TYPES)]
        section = broken([f"f({n}):l({n}):s({n})" for n in range(1, rank + 1)])
        extents = broken([f"e({n})" for n in range(1, rank + 1)])
        colons = ", ".join([":"] * rank)
        case = CASE.replace("MPITYPE", mpi).replace("TYPE", kind).replace("BYTES", size)
        case = case.replace("SECTION", section).replace("EXTENTS", extents)
        text += case.replace("COLONS", colons).replace("RANK", str(rank))
    return text + "\nend program random_sections\n"
