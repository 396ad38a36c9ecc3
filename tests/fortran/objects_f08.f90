! Groups, topologies, datatypes, infos, windows, sessions and files in module mpi_f08.
! run: 1 2 4
program objects_f08
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer :: rank = -1, processes
  ! The facts of the compiler can be queried at any time.
  call compiler()
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, processes)
  call compiler()
  call infos()
  call groups()
  call topologies()
  call datatypes()
  call windows()
  call files()
  call MPI_Finalize()

contains

  include 'check.inc'

  subroutine compiler()
    type(MPI_Info) :: info
    character(len=20) :: value
    logical :: flag, yes, no
    integer :: length, size
    call MPI_Abi_get_fortran_info(info)
    call check(info /= MPI_INFO_NULL, "facts")
    length = len(value)
    call MPI_Info_get_string(info, "mpi_logical_size", length, value, flag)
    call check(flag .and. value == "4" .and. length == 1, "size of LOGICAL")
    length = len(value)
    call MPI_Info_get_string(info, "mpi_real16_supported", length, value, flag)
    call check(flag .and. (value == "true" .or. value == "false"), "REAL*16")
    call MPI_Info_free(info)
    yes = .false.
    no = .true.
    call MPI_Abi_get_fortran_booleans(4, yes, no, flag)
    call check(flag .and. yes .and. .not. no, "truth values")
    call MPI_Sizeof(1.0d0, size)
    call check(size == 8, "size of double precision")
    call MPI_Sizeof([(1.0, 2.0), (1.0, 2.0)], size)
    call check(size == 8, "size of complex")
    call MPI_Sizeof("text", size)
    call check(size == 4, "size of a text")
  end subroutine compiler

  subroutine infos()
    type(MPI_Info) :: info
    integer :: keys, length
    logical :: flag
    character(len=MPI_MAX_INFO_KEY) :: key
    character(len=4) :: short
    character(len=40) :: value
    call MPI_Info_create(info)
    call MPI_Info_set(info, "  a key ", "  some value  ")
    call MPI_Info_get_nkeys(info, keys)
    call MPI_Info_get_nthkey(info, 0, key)
    call check(keys == 1 .and. key == "a key", "a key without blanks at its ends")
    length = len(value)
    call MPI_Info_get_string(info, "a key", length, value, flag)
    call check(flag .and. value == "some value" .and. length == 10, "a value")
    length = 4
    call MPI_Info_get_string(info, "a key", length, short, flag)
    call check(flag .and. short == "some" .and. length == 10, "the beginning of a value")
    length = 0
    short = "kept"
    call MPI_Info_get_string(info, "a key", length, short, flag)
    call check(flag .and. short == "kept" .and. length == 10, "only the length")
    call MPI_Info_get_string(info, "no key", length, value, flag)
    call check(.not. flag .and. value == "some value", "nothing")
    call MPI_Info_get(info, "a key", 40, value, flag)
    call check(flag .and. value == "some value", "a value in the old way")
    call MPI_Info_delete(info, "a key")
    call MPI_Info_free(info)
    call check(info == MPI_INFO_NULL, "freed")
  end subroutine infos

  subroutine groups()
    type(MPI_Group) :: world, evens, again
    type(MPI_Comm) :: comm
    type(MPI_Session) :: session
    integer :: ranges(3, 1), n, result, sets, length
    character(len=MPI_MAX_PSET_NAME_LEN) :: name
    call MPI_Comm_group(MPI_COMM_WORLD, world)
    ranges(:, 1) = [0, processes - 1, 2]
    call MPI_Group_range_incl(world, 1, ranges, evens)
    call MPI_Group_size(evens, n)
    call check(n == (processes + 1) / 2, "every second process")
    call MPI_Group_incl(world, 1, [0], again)
    call MPI_Group_compare(evens, again, result)
    call check((result == MPI_IDENT) .eqv. (processes <= 2), "compared")
    call MPI_Comm_create(MPI_COMM_WORLD, evens, comm)
    call check((comm == MPI_COMM_NULL) .eqv. (mod(rank, 2) == 1), "who is in it")
    if (comm /= MPI_COMM_NULL) call MPI_Comm_free(comm)
    call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, comm)
    call MPI_Comm_compare(comm, MPI_COMM_WORLD, result)
    call check(result == merge(MPI_UNEQUAL, MPI_CONGRUENT, processes > 1), "divided")
    call MPI_Comm_free(comm)
    call MPI_Group_free(world)
    call MPI_Group_free(evens)
    call MPI_Group_free(again)
    call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session)
    call MPI_Session_get_num_psets(session, MPI_INFO_NULL, sets)
    length = 0
    call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name)
    n = length
    length = len(name)
    call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name)
    call check(sets >= 2 .and. len_trim(name) == n .and. length == n .and. name(:6) == "mpi://", &
      "process sets")
    call MPI_Session_finalize(session)
  end subroutine groups

  subroutine topologies()
    type(MPI_Comm) :: grid, line, graph
    integer :: dims(2), coords(2), n, degree(2)
    logical :: periods(2), weighted
    integer :: neighbours(1), weights(1)
    dims = [0, 1]
    call MPI_Dims_create(processes, 2, dims)
    call check(dims(1) == processes, "dimensions")
    call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .false.], .false., grid)
    call MPI_Cart_get(grid, 2, dims, periods, coords)
    call check(periods(1) .and. .not. periods(2) .and. coords(1) == rank, "a grid")
    call check(periods(1) .eqv. .true., "the compiler's value of true")
    call MPI_Cart_sub(grid, [.false., .true.], line)
    call MPI_Comm_size(line, n)
    call check(n == 1, "a line of one")
    call MPI_Cart_shift(grid, 0, 1, degree(1), degree(2))
    call check(degree(2) == mod(rank + 1, processes), "the next")
    call MPI_Comm_free(line)
    call MPI_Comm_free(grid)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [mod(rank + 1, processes)], MPI_UNWEIGHTED, &
      1, [mod(rank + processes - 1, processes)], MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph)
    call MPI_Dist_graph_neighbors_count(graph, degree(1), degree(2), weighted)
    call check(all(degree == 1) .and. .not. weighted, "a graph without weights")
    call MPI_Dist_graph_neighbors(graph, 1, neighbours, MPI_UNWEIGHTED, 1, dims, MPI_UNWEIGHTED)
    call check(neighbours(1) == mod(rank + 1, processes), "a neighbour")
    call MPI_Comm_free(graph)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [rank], [5], 1, [rank], [5], MPI_INFO_NULL, &
      .false., graph)
    call MPI_Dist_graph_neighbors(graph, 1, neighbours, weights, 1, dims, coords)
    call check(weights(1) == 5 .and. coords(1) == 5, "weights")
    call MPI_Comm_free(graph)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, [0], MPI_WEIGHTS_EMPTY, 0, [0], &
      MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, .false., graph)
    call MPI_Dist_graph_neighbors_count(graph, degree(1), degree(2), weighted)
    call check(all(degree == 0) .and. weighted, "no neighbour, with weights")
    call MPI_Comm_free(graph)
  end subroutine topologies

  subroutine datatypes()
    type(MPI_Datatype) :: made, found, inner(2)
    integer :: n, integers(2), addresses, types, combiner, position
    integer(MPI_ADDRESS_KIND) :: bound, extent, places(2), size
    integer(MPI_COUNT_KIND) :: large, large_bound, counts(4)
    character(len=16) :: packed
    real(selected_real_kind(15)) :: x(2), y(2)
    call MPI_Type_vector(3, 2, 4, MPI_REAL, made)
    call MPI_Type_get_extent(made, bound, extent)
    call check(bound == 0 .and. extent == 40, "extent")
    call MPI_Type_get_extent_c(made, large_bound, large)
    call check(large == 40, "large extent")
    call MPI_Type_size(made, n)
    call MPI_Type_size(made, large)
    call check(n == 24 .and. large == 24, "size")
    call MPI_Type_free(made)
    call MPI_Type_create_struct(2, [1, 2], [0_MPI_ADDRESS_KIND, 8_MPI_ADDRESS_KIND], &
      [MPI_INTEGER, MPI_DOUBLE_PRECISION], made)
    call MPI_Type_get_envelope(made, n, addresses, types, combiner)
    call check(n == 3 .and. addresses == 2 .and. types == 2 .and. combiner == MPI_COMBINER_STRUCT, &
      "envelope")
    call contents(made)
    call MPI_Type_free(made)
    call MPI_Type_contiguous(2_MPI_COUNT_KIND, MPI_INTEGER, made)
    call MPI_Type_get_envelope(made, counts(1), counts(2), counts(3), counts(4), combiner)
    call check(counts(3) == 1 .and. combiner == MPI_COMBINER_CONTIGUOUS, "large envelope")
    call MPI_Type_free(made)
    call MPI_Type_create_f90_real(15, MPI_UNDEFINED, made)
    call MPI_Type_size(made, n)
    call check(n == 8, "a real by its precision")
    x = [1.5d0, 2.5d0]
    call MPI_Sendrecv(x, 2, made, 0, 1, y, 2, made, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    call check(all(y == x), "sent as such")
    call MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 4, found)
    call check(found == MPI_INTEGER4, "by its size")
    position = 0
    call MPI_Pack_external_size("external32", 2, MPI_DOUBLE_PRECISION, size)
    places(1) = 0
    call MPI_Pack_external("external32 ", x, 2, MPI_DOUBLE_PRECISION, packed, size, places(1))
    call check(size == 16 .and. places(1) == 16 .and. iachar(packed(1:1)) == 63, "external32")
    places(1) = 0
    y = 0
    call MPI_Unpack_external("external32", packed, size, places(1), y, 2, MPI_DOUBLE_PRECISION)
    call check(all(y == x), "unpacked")
    inner = MPI_INTEGER
    integers = position
    call check(all(inner == MPI_INTEGER) .and. integers(1) == 0, "comparison")
  end subroutine datatypes

  subroutine contents(made)
    type(MPI_Datatype), intent(in) :: made
    integer :: integers(3)
    integer(MPI_ADDRESS_KIND) :: addresses(2)
    type(MPI_Datatype) :: types(3)
    types = MPI_DATATYPE_NULL
    call MPI_Type_get_contents(made, 3, 2, 3, integers, addresses, types)
    call check(all(integers == [2, 1, 2]) .and. all(addresses == [0, 8]), "contents")
    call check(types(2) == MPI_DOUBLE_PRECISION .and. types(3) == MPI_DATATYPE_NULL, "inner datatypes")
  end subroutine contents

  subroutine windows()
    type(MPI_Win) :: win
    type(c_ptr) :: memory
    integer, pointer :: shared(:), theirs(:)
    integer, asynchronous :: origin(2, 3)
    integer(MPI_ADDRESS_KIND) :: bytes, value
    integer :: unit, rank, processes
    logical :: flag
    type(MPI_Comm) :: machine
    call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, machine)
    call MPI_Comm_rank(machine, rank)
    call MPI_Comm_size(machine, processes)
    call MPI_Win_allocate_shared(48_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, machine, memory, win)
    call c_f_pointer(memory, shared, [12])
    shared = -1
    call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag)
    call check(flag .and. value == 48, "size of a window")
    call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, flag)
    call check(flag .and. value == 4, "unit of a window")
    call MPI_Win_get_attr(win, MPI_WIN_BASE, value, flag)
    call MPI_Get_address(shared, bytes)
    call check(flag .and. value == bytes, "base of a window")
    call MPI_Win_fence(0, win)
    origin = reshape([1, 2, 3, 4, 5, 6], [2, 3]) + 10 * rank
    call MPI_Put(origin(2, :), 3, MPI_INTEGER, mod(rank + 1, processes), 2_MPI_ADDRESS_KIND, 3, &
      MPI_INTEGER, win)
    call MPI_Accumulate(origin(1, ::2), 2, MPI_INTEGER, mod(rank + 1, processes), 0_MPI_ADDRESS_KIND, &
      2, MPI_INTEGER, MPI_REPLACE, win)
    call MPI_Win_fence(0, win)
    call check(all(shared(1:5) == [1, 5, 2, 4, 6] + 10 * mod(rank + processes - 1, processes)), "put")
    origin = -1
    call MPI_Get(origin(1, 3:1:-1), 3, MPI_INTEGER, rank, 2_MPI_ADDRESS_KIND, 3, MPI_INTEGER, win)
    call MPI_Win_fence(0, win)
    call MPI_F_sync_reg(origin)
    call check(all(origin(1, :) == [6, 4, 2] + 10 * mod(rank + processes - 1, processes)), "get")
    call check(all(origin(2, :) == -1), "beside what was got")
    call MPI_Win_shared_query(win, 0, bytes, unit, memory)
    call c_f_pointer(memory, theirs, [12])
    call check(bytes == 48 .and. unit == 4 .and. theirs(5) == 6 + 10 * (processes - 1), "their memory")
    call MPI_Barrier(machine)
    call MPI_Win_free(win)
    call MPI_Comm_free(machine)
    call MPI_Alloc_mem(400_MPI_ADDRESS_KIND, MPI_INFO_NULL, memory)
    call c_f_pointer(memory, shared, [100])
    shared = 1
    call MPI_Free_mem(shared)
  end subroutine windows

  subroutine files()
    type(MPI_File) :: file
    type(MPI_Status) :: status
    type(MPI_Request) :: request
    character(len=64) :: job
    character(len=150) :: folder
    character(len=230) :: name
    character(len=MPI_MAX_DATAREP_STRING) :: representation
    type(MPI_Datatype) :: etype, filetype
    integer :: table(3, 4), back(3, 4), n
    integer(MPI_OFFSET_KIND) :: offset
    call get_environment_variable("COMBRAY_JOB", job)
    if (job == "") job = "alone"
    call get_environment_variable("TMPDIR", folder)
    if (folder == "") folder = "/tmp"
    name = trim(folder) // "/objects_f08." // trim(job)
    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR + &
      MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file)
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, "native", MPI_INFO_NULL)
    call MPI_File_get_view(file, offset, etype, filetype, representation)
    call check(offset == 0 .and. etype == MPI_INTEGER .and. representation == "native", "view")
    table = reshape([(n, n = 1, 12)], [3, 4]) + 100 * rank
    call MPI_File_write_at(file, int(6 * rank, MPI_OFFSET_KIND), table(1::2, 2:4), 6, MPI_INTEGER, &
      status)
    call MPI_Get_count(status, MPI_INTEGER, n)
    call check(n == 6, "written")
    call MPI_File_sync(file)
    call MPI_Barrier(MPI_COMM_WORLD)
    back = -1
    call MPI_File_iread_at(file, int(6 * rank, MPI_OFFSET_KIND), back(1:2, 4:2:-1), 6, MPI_INTEGER, &
      request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(back(1:2, 4:2:-1) == table(1::2, 2:4)) .and. all(back(3, :) == -1), "read")
    call MPI_File_close(file)
    call check(file == MPI_FILE_NULL, "closed")
  end subroutine files

end program objects_f08
