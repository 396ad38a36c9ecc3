! Processes that a program spawns from its own executable file, with module mpi_f08: their arguments and error
! codes, and messages between both jobs.
! run: 1 2
program spawning_f08
  use mpi_f08
  implicit none
  integer, parameter :: children = 3
  type(MPI_Comm) :: parents, made
  integer :: codes(children), mine, total, processes, count
  character(len=256) :: file, arguments(3), commands(2), lists(2, 2), word
  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, processes)
  call MPI_Comm_get_parent(parents)
  if (parents /= MPI_COMM_NULL) then
    count = command_argument_count()
    if (count > 0) call get_command_argument(count, word)
    if (count > 0 .and. word /= "two words") error stop "the last argument differs"
    mine = 1
    call MPI_Allreduce(mine, total, 1, MPI_INTEGER, MPI_SUM, parents)
    call MPI_Comm_disconnect(parents)
  else
    call get_command_argument(0, file)
    arguments = [character(len=256) :: "one", "two words", ""]
    codes = -1
    call MPI_Comm_spawn(file, arguments, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, made, codes)
    call meet()
    commands = file
    lists(:, 1) = "two words"
    lists(:, 2) = " "
    codes = -1
    call MPI_Comm_spawn_multiple(2, commands, lists, [1, 2], [MPI_INFO_NULL, MPI_INFO_NULL], 0, MPI_COMM_WORLD, made, &
      codes)
    call meet()
  end if
  call MPI_Finalize()
contains
  subroutine meet()
    if (any(codes /= MPI_SUCCESS)) error stop "a process was not spawned"
    mine = 10
    call MPI_Allreduce(mine, total, 1, MPI_INTEGER, MPI_SUM, made)
    if (total /= children) error stop "the children contribute one each"
    call MPI_Comm_disconnect(made)
  end subroutine meet
end program spawning_f08
