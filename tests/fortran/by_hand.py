"""Programs that call the routines whose entries are written by hand, in each interface, with the library itself."""

import re

HERE_BY_HAND = "by_hand_in_c.c"
HEADS = {
    "mpif": ("", "  include 'mpif.h'\n"),
    "mpi": ("  use mpi\n", ""),
    "mpi_f08": ("  use mpi_f08\n", ""),
}

ATTRIBUTE_FUNCTIONS = """
  subroutine {name}_copy(old, keyval, extra_state, value_in, value_out, flag, ierror)
    {handle} :: old
    integer :: keyval, ierror
    integer({kind}) :: extra_state, value_in, value_out
    logical :: flag
    extra_state = extra_state + 1
    value_out = value_in + extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine {name}_copy

  subroutine {name}_delete(object, keyval, value, extra_state, ierror)
    {handle} :: object
    integer :: keyval, ierror
    integer({kind}) :: value, extra_state
    deletions = deletions + 1
    last_state = extra_state
    extra_state = extra_state + 100
    ierror = MPI_SUCCESS
  end subroutine {name}_delete
"""

# What a callback stores in EXTRA_STATE stays, for each keyval apart. Windows cannot be copied.
ATTRIBUTES = """
  subroutine {name}_attributes()
    {handle} :: made, first, second
    integer :: one, other, code, before, i
    integer({kind}) :: value
    logical :: flag
    do i = 1, 2
      call {make}
      call {create}({name}_copy, {name}_delete, one, 1000_{kind}, code)
      call {create}({name}_copy, {name}_delete, other, 1000_{kind}, code)
      call {get}(made, one, value, flag, code)
      call check(.not. flag, "{name}: no attribute")
      call {set}(made, one, {large}, code)
      call {get}(made, one, value, flag, code)
      call check(flag .and. value == {large}, "{name}: an attribute")
      before = deletions
      if ({copies}) then
        call {dup}(made, first, code)
        call {dup}(made, second, code)
        call {get}(second, one, value, flag, code)
        call check(flag .and. value == {large} + 1002, "{name}: the state of the second copy")
        call {free}(first, code)
        call {free}(second, code)
        call check(deletions == before + 2 .and. last_state == 1102, "{name}: the state when deleted")
      else
        call {set}(made, one, {large}, code)
        call {set}(made, one, {large}, code)
        call check(deletions == before + 2 .and. last_state == 1100, "{name}: the state when deleted")
      end if
      call {set}(made, other, 5_{kind}, code)
      call {free_attribute}(made, other, code)
      call check(last_state == 1000, "{name}: the state of another keyval")
      call {free}(made, code)
      call {free_keyval}(one, code)
      call {free_keyval}(other, code)
      call check(one == MPI_KEYVAL_INVALID, "{name}: no keyval")
    end do
  end subroutine {name}_attributes
"""

HANDLERS = """
  subroutine {name}_handler(object, code)
    {handle} :: object
    integer :: code
    errors = errors + 1
  end subroutine {name}_handler

  subroutine {name}_errors()
    {errhandler} :: handler
    {handle} :: object
    integer :: code, before
    call {make}
    before = errors
    call MPI_{Name}_create_errhandler({name}_handler, handler, code)
    call MPI_{Name}_set_errhandler(object, handler, code)
    call MPI_{Name}_call_errhandler(object, MPI_ERR_OTHER, code)
    call check(errors == before + 1, "{name}: the error handler was called")
    call MPI_Errhandler_free(handler, code)
    call {free}(object, code)
  end subroutine {name}_errors
"""

REQUESTS = """
  subroutine query(extra_state, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    {status}
    integer :: ierror
    extra_state = extra_state + 1
    call MPI_Status_set_elements(status, MPI_INTEGER, 3, ierror)
    call MPI_Status_set_cancelled(status, .false., ierror)
  end subroutine query

  subroutine release(extra_state, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    extra_state = extra_state + 10
    ierror = MPI_SUCCESS
  end subroutine release

  subroutine cancel(extra_state, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    if (.not. complete) extra_state = extra_state + 100
    ierror = MPI_SUCCESS
  end subroutine cancel

  ! The callbacks receive the program's variable, which is one of the module: compilers take for granted that no
  ! routine keeps the address of another.
  subroutine generalized()
    {request} :: request
    {status}
    integer :: code, count
    state = 5
    call MPI_Grequest_start(query, release, cancel, state, request, code)
    call MPI_Cancel(request, code)
    call check(state == 105, "the state after MPI_Cancel")
    call MPI_Grequest_complete(request, code)
    call MPI_Wait(request, status, code)
    call check(state == 116, "the state after MPI_Wait")
    call MPI_Get_count(status, MPI_INTEGER, count, code)
    call check(count == 3, "the status")
  end subroutine generalized
"""

REPRESENTATION = """
  subroutine extent_of(datatype, extent, extra_state, ierror)
    {datatype} :: datatype
    integer(MPI_ADDRESS_KIND) :: extent, extra_state
    integer :: ierror
    extent = 4
    ierror = MPI_SUCCESS
  end subroutine extent_of

  subroutine representation()
    {missing}
    integer :: code
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, code)
    call MPI_Register_datarep("by hand", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of, &
      0_MPI_ADDRESS_KIND, code)
    call check(code == MPI_SUCCESS, "MPI_Register_datarep")
    call MPI_Register_datarep("by hand", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of, &
      0_MPI_ADDRESS_KIND, code)
    call check(code /= MPI_SUCCESS, "MPI_Register_datarep a second time")
{large_representation}
  end subroutine representation
"""

TEXTS = """
  subroutine texts()
    {info} :: info
    {session} :: session
    integer :: code, length
    logical :: flag
    character(len=12) :: value
    character(len=300) :: name
    call MPI_Info_create(info, code)
    call MPI_Info_set(info, "  a key ", "  a value ", code)
    call MPI_Info_get(info, "a key", 12, value, flag, code)
    call check(flag .and. value == "a value", "MPI_Info_get")
    call MPI_Info_get(info, "a key", 3, value, flag, code)
    call check(flag .and. value == "a v", "MPI_Info_get of three characters")
    value = "unchanged"
    call MPI_Info_get(info, "none", 12, value, flag, code)
    call check(.not. flag .and. value == "unchanged", "MPI_Info_get of no key")
    length = 12
    call MPI_Info_get_string(info, "a key", length, value, flag, code)
    call check(flag .and. value == "a value" .and. length == 7, "MPI_Info_get_string")
    length = 0
    value = "unchanged"
    call MPI_Info_get_string(info, "a key", length, value, flag, code)
    call check(flag .and. value == "unchanged" .and. length == 7, "MPI_Info_get_string of the length")
    call MPI_Info_free(info, code)
    call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, session, code)
    length = 0
    call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name, code)
    call check(length > 0, "the length of a process set's name")
    call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name, code)
    call check(len_trim(name) == length .and. name(:6) == "mpi://", "the name of a process set")
    call MPI_Session_finalize(session, code)
  end subroutine texts
"""

CONTENTS = """
  subroutine contents()
    {datatype} :: made, types(4)
    integer :: code, integers(4)
    integer(MPI_ADDRESS_KIND) :: addresses(4)
    call MPI_Type_create_struct(2, [1, 2], [0_MPI_ADDRESS_KIND, 8_MPI_ADDRESS_KIND], &
      [MPI_INTEGER, MPI_REAL], made, code)
    types = MPI_DATATYPE_NULL
    integers = -1
    addresses = -1
    call MPI_Type_get_contents(made, 3, 2, 2, integers, addresses, types, code)
    call check(all(integers == [2, 1, 2, -1]), "integers of a datatype")
    call check(all(addresses == [0, 8, -1, -1]), "addresses of a datatype")
    call check(types(1) == MPI_INTEGER .and. types(2) == MPI_REAL .and. types(3) == MPI_DATATYPE_NULL, &
      "datatypes of a datatype")
{large_contents}
    call MPI_Type_free(made, code)
  end subroutine contents
"""

LARGE_CONTENTS = """
    block
      integer(MPI_COUNT_KIND) :: counts(4)
      call MPI_Type_get_contents_c(made, 3_MPI_COUNT_KIND, 2_MPI_COUNT_KIND, 0_MPI_COUNT_KIND, &
        2_MPI_COUNT_KIND, integers, addresses, counts, types, code)
      call check(types(2) == MPI_REAL .and. all(addresses(:2) == [0, 8]), "contents with large counts")
    end block
"""

# The functions in C stand in the place of the library's, which starts no processes.
SPAWNING = """
  subroutine spawning()
    {comm} :: made
    integer :: code, codes(3)
    call MPI_Comm_spawn("  a program ", ["one  ", " two ", "     "], 3, MPI_INFO_NULL, 0, MPI_COMM_SELF, made, &
      codes, code)
    call check(code == MPI_SUCCESS .and. made == MPI_COMM_WORLD .and. all(codes == [7, 8, 9]), "MPI_Comm_spawn")
    call MPI_Comm_spawn("a program", MPI_ARGV_NULL, 3, MPI_INFO_NULL, 0, MPI_COMM_SELF, made, &
      MPI_ERRCODES_IGNORE, code)
    call check(code == MPI_SUCCESS .and. made == MPI_COMM_NULL, "MPI_Comm_spawn without arguments")
    call MPI_Comm_spawn_multiple(2, ["first ", "second"], &
      reshape(["a", "c", "b", " ", " ", " "], [2, 3]), [1, 2], [MPI_INFO_NULL, MPI_INFO_NULL], 0, &
      MPI_COMM_SELF, made, codes, code)
    call check(code == MPI_SUCCESS .and. made == MPI_COMM_WORLD .and. all(codes == [4, 5, 6]), &
      "MPI_Comm_spawn_multiple")
    call MPI_Comm_spawn_multiple(2, ["first ", "second"], MPI_ARGVS_NULL, [1, 2], &
      [MPI_INFO_NULL, MPI_INFO_NULL], 0, MPI_COMM_SELF, made, MPI_ERRCODES_IGNORE, code)
    call check(code == MPI_SUCCESS .and. made == MPI_COMM_NULL, "MPI_Comm_spawn_multiple without arguments")
  end subroutine spawning
"""

FACTS = """
  subroutine facts()
    logical :: yes, no, is_set
    integer :: code, old(MPI_STATUS_SIZE), size
    real(8) :: memory(4)
    {status08}
    yes = .false.
    no = .true.
    call MPI_Abi_get_fortran_booleans(4, yes, no, is_set, code)
    call check(yes .and. .not. no .and. is_set, "MPI_Abi_get_fortran_booleans")
    call MPI_Abi_set_fortran_booleans(4, .true., .false., code)
    call MPI_F_sync_reg(memory)
{conversions}
  end subroutine facts
"""

CONVERSIONS = """
    old = 0
    old(MPI_SOURCE) = 3
    old(MPI_TAG) = 4
    call MPI_Status_f2f08(old, new, code)
    call check(new%MPI_SOURCE == 3 .and. new%MPI_TAG == 4, "MPI_Status_f2f08")
    new%MPI_TAG = 5
    call MPI_Status_f082f(new, old, code)
    call check(old(MPI_SOURCE) == 3 .and. old(MPI_TAG) == 5, "MPI_Status_f082f")
    call MPI_Sizeof(memory, size, code)
    call check(size == 8, "MPI_Sizeof")
"""

OPERATIONS_08 = """
  subroutine add(invec, inoutvec, len, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    b = a + b
  end subroutine add

  subroutine add_large(invec, inoutvec, len, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr), value :: invec, inoutvec
    integer(MPI_COUNT_KIND) :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    b = a + b
  end subroutine add_large
"""

OPERATIONS_OLD = """
  subroutine add(invec, inoutvec, len, datatype)
    integer :: len, datatype
    integer :: invec(len), inoutvec(len)
    inoutvec = invec + inoutvec
  end subroutine add
"""

OPERATIONS = """
  subroutine operations()
    {op} :: made
    logical :: flag
    integer :: code, sums(3)
    call MPI_Op_create(add, .false., made, code)
    call MPI_Op_commutative(made, flag, code)
    call check(.not. flag, "MPI_Op_commutative")
    call MPI_Allreduce([1, 2, 3], sums, 3, MPI_INTEGER, made, MPI_COMM_WORLD, code)
    call check(all(sums == [1, 2, 3] * processes), "an operation of the program")
    call MPI_Op_free(made, code)
{large_operation}
  end subroutine operations
"""

LARGE_OPERATION = """
    call MPI_Op_create_c(add_large, .true., made, code)
    call MPI_Allreduce([1, 2, 3], sums, 3_MPI_COUNT_KIND, MPI_INTEGER, made, MPI_COMM_WORLD, code)
    call check(all(sums == [1, 2, 3] * processes), "an operation for large counts")
    call MPI_Op_free(made, code)
"""

LARGE_REPRESENTATION = """
    call MPI_Register_datarep_c("by hand, large", MPI_CONVERSION_FN_NULL_C, MPI_CONVERSION_FN_NULL_C, &
      extent_of, 0_MPI_ADDRESS_KIND, code)
    call check(code == MPI_SUCCESS, "MPI_Register_datarep_c")
"""

CHECK = """
  subroutine check(right, what)
    logical, intent(in) :: right
    character(len=*), intent(in) :: what
    if (right) return
    print '(2a)', what, ": wrong"
    error stop 1
  end subroutine check
"""

# Attributes: the object, how one is made for them and freed, and whether it can be copied.
OBJECTS = [
    ("comm", "Comm", "MPI_Comm_dup(MPI_COMM_SELF, made, code)", ".true."),
    ("type", "Datatype", "MPI_Type_contiguous(4, MPI_INTEGER, made, code)", ".true."),
    ("win", "Win", "MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, made, code)", ".false."),
]
WITH_ERRORS = [
    ("comm", "Comm", "MPI_Comm_dup(MPI_COMM_SELF, object, code)", "MPI_Comm_free"),
    ("win", "Win", "MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, object, code)", "MPI_Win_free"),
    ("file", "File", "MPI_File_open(MPI_COMM_SELF, file_name(), MPI_MODE_CREATE + MPI_MODE_RDWR + &\n      "
     "MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, object, code)", "MPI_File_close"),
    ("session", "Session", "MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, object, code)",
     "MPI_Session_finalize"),
]

REMOVED = """
  ! What the standard has removed.
  subroutine removed()
    integer :: made, bounded, code, lower, upper, extent, handler
    call MPI_Type_struct(2, [1, 1], [0, 8], [MPI_INTEGER, MPI_DOUBLE_PRECISION], made, code)
    call MPI_Type_extent(made, extent, code)
    call check(extent == 16, "MPI_Type_struct")
    call MPI_Type_free(made, code)
    call MPI_Type_struct(3, [1, 1, 1], [-8, 0, 24], [MPI_LB, MPI_INTEGER, MPI_UB], bounded, code)
    call MPI_Type_lb(bounded, lower, code)
    call MPI_Type_ub(bounded, upper, code)
    call check(lower == -8 .and. upper == 24, "MPI_LB and MPI_UB")
    call MPI_Type_free(bounded, code)
    call MPI_Type_create_struct(2, [1, 1], [0_MPI_ADDRESS_KIND, 20_MPI_ADDRESS_KIND], [MPI_INTEGER, MPI_UB], &
      bounded, code)
    call MPI_Type_extent(bounded, extent, code)
    call check(extent == 20, "MPI_UB of MPI_Type_create_struct")
    call MPI_Type_free(bounded, code)
    call MPI_Type_hvector(2, 1, 24, MPI_INTEGER, made, code)
    call MPI_Type_ub(made, upper, code)
    call check(upper == 28, "MPI_Type_hvector")
    call MPI_Type_free(made, code)
    call MPI_Type_hindexed(2, [1, 2], [4, 16], MPI_INTEGER, made, code)
    call MPI_Type_lb(made, lower, code)
    call MPI_Type_ub(made, upper, code)
    call check(lower == 4 .and. upper == 24, "MPI_Type_hindexed")
    call MPI_Type_free(made, code)
    call MPI_Address(MPI_BOTTOM, extent, code)
    call check(extent == 0, "MPI_Address")
    call MPI_Errhandler_create(comm_handler, handler, code)
    call MPI_Errhandler_set(MPI_COMM_SELF, handler, code)
    errors = 0
    call MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_OTHER, code)
    call check(errors == 1, "MPI_Errhandler_set")
    call MPI_Errhandler_free(handler, code)
    call MPI_Errhandler_set(MPI_COMM_SELF, MPI_ERRORS_RETURN, code)
    call MPI_Errhandler_get(MPI_COMM_SELF, handler, code)
    call check(handler == MPI_ERRORS_RETURN, "MPI_Errhandler_get")
  end subroutine removed
"""

FILE_NAME = """
  function file_name()
    character(len=40) :: file_name
    write (file_name, '(a, i0)') "/tmp/by-hand-", process_in_c()
  end function file_name
"""


def attributes(name, kind_of_handle, make, copies, handle, kind, large, routines=None):
    """The functions and the test of one kind of attributes; `routines` gives other names of routines."""
    prefix = f"MPI_{name.capitalize()}"
    names = {
        "create": f"{prefix}_create_keyval", "set": f"{prefix}_set_attr", "get": f"{prefix}_get_attr",
        "free_attribute": f"{prefix}_delete_attr", "free_keyval": f"{prefix}_free_keyval",
        "free": f"{prefix}_free", "dup": f"{prefix}_dup" if copies == ".true." else "MPI_Comm_dup",
        **(routines or {}),
    }
    text = (ATTRIBUTE_FUNCTIONS + ATTRIBUTES)
    if copies != ".true.":
        text = re.sub(r"      if \(\{copies\}\) then\n.*?      else\n(.*?)      end if\n", r"\1", text, flags=re.S)
    return text.format(name=name, handle=handle(kind_of_handle), kind=kind, large=large, make=make, copies=copies,
                       **names)


def program(interface, family=None):
    """The text for an interface; for another library's modules without what those do not have."""
    is_08 = interface == "mpi_f08"
    has_large = is_08 and family is None
    has_sessions = family != "openmpi"

    def handle(kind):
        return f"type(MPI_{kind})" if is_08 else "integer"

    uses, includes = HEADS[interface]
    handles = {kind.lower(): handle(kind) for kind in
               ("Comm", "Datatype", "Info", "Op", "Request", "Session", "Errhandler")}
    status = "type(MPI_Status) :: status" if is_08 else "integer :: status(MPI_STATUS_SIZE)"
    parts = [CHECK, FILE_NAME, OPERATIONS_08 if is_08 else OPERATIONS_OLD]
    calls = ["operations"]
    for name, kind, make, copies in OBJECTS:
        parts.append(attributes(name, kind, make, copies, handle, "MPI_ADDRESS_KIND", "2_MPI_ADDRESS_KIND**40"))
        calls.append(f"{name}_attributes")
    if not is_08:
        old = {"create": "MPI_Keyval_create", "set": "MPI_Attr_put", "get": "MPI_Attr_get",
               "free_attribute": "MPI_Attr_delete", "free_keyval": "MPI_Keyval_free", "free": "MPI_Comm_free",
               "dup": "MPI_Comm_dup"}
        parts.append(attributes("old", "Comm", OBJECTS[0][2], ".true.", handle, "MPI_INTEGER_KIND", "2000000", old))
        calls.append("old_attributes")
        if family is None:
            parts.append(REMOVED)
            calls.append("removed")
    for name, kind, make, free in WITH_ERRORS[:4 if has_sessions else 3]:
        parts.append(HANDLERS.format(name=name, Name=kind, handle=handle(kind), make=make, free=free, **handles))
        calls.append(f"{name}_errors")
    parts += [
        OPERATIONS.format(large_operation=LARGE_OPERATION if has_large else "", **handles),
        REQUESTS.format(status=status, **handles),
        # Module mpi of MPICH does not declare it.
        REPRESENTATION.format(missing="external :: MPI_CONVERSION_FN_NULL" if (family, interface) == ("mpich", "mpi")
                              else "", large_representation=LARGE_REPRESENTATION if has_large else "", **handles),
        CONTENTS.format(large_contents=LARGE_CONTENTS if has_large else "", **handles),
        SPAWNING.format(**handles),
    ]
    calls += ["generalized", "representation", "contents", "spawning"]
    if has_sessions:
        parts.append(TEXTS.format(**handles))
        calls.append("texts")
    if family is None:
        # mpif.h has no type of statuses.
        parts.append(FACTS.format(status08="type(MPI_Status) :: new" if interface != "mpif" else "",
                                  conversions=CONVERSIONS if interface != "mpif" else ""))
        calls.append("facts")
    called = "".join(f"  call {name}()\n" for name in calls)
    return (f"! run: 1 3\n! built-for: mpich openmpi\n! with: {HERE_BY_HAND}\n! flags: -w -rdynamic\nmodule by_hand\n{uses}  implicit none\n{includes}"
            f"  integer :: deletions = 0, errors = 0, processes\n  integer(MPI_ADDRESS_KIND) :: last_state = 0, state\n"
            f"  interface\n    integer function process_in_c() bind(C)\n    end function process_in_c\n  end interface\n"
            f"contains\n{''.join(parts)}\nend module by_hand\n\nprogram calls\n  use by_hand\n  implicit none\n"
            f"  integer :: code, provided\n  call MPI_Init_thread(MPI_THREAD_SINGLE, provided, code)\n"
            f"  call MPI_Comm_size(MPI_COMM_WORLD, processes, code)\n{called}  call MPI_Finalize(code)\n"
            f"end program calls\n")


def left_out(table, recorded):
    """Gives the routines that neither these programs nor the recorded ones call in each interface."""
    by_hand = [line.split("\t")[0] for line in table.splitlines()[1:] if "\tby hand\t" in line]
    texts = [program(interface) for interface in HEADS]
    old = {"MPI_Attr_get", "MPI_Attr_put", "MPI_Keyval_create", *re.findall(r"MPI_\w+", REMOVED)}
    old -= {"MPI_Type_create_struct", "MPI_Comm_call_errhandler"}
    only_with_types = {"MPI_Status_f2f08", "MPI_Status_f082f"}
    missing = []
    for name in by_hand:
        if f'{{"{name}",' in recorded:
            continue
        wanted = texts[:2] if name in old else texts[1:] if name in only_with_types else texts
        if name.endswith("_c"):
            wanted = texts[2:]
        if not all(f"{name}(" in text for text in wanted):
            missing.append(name)
    return missing
