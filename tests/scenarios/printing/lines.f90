! The program of lines.c, in Fortran.
program lines
    use mpi
    use iso_c_binding, only: c_int
    implicit none
    interface
        function raise(number) bind(c, name="raise") result(code)
            import :: c_int
            integer(c_int), value :: number
            integer(c_int) :: code
        end function
        function getpid() bind(c, name="getpid") result(number)
            import :: c_int
            integer(c_int) :: number
        end function
    end interface
    integer, parameter :: segmentation_fault = 11
    character(len=1024) :: what, folder, path, temporary
    integer :: rank, number, unit, ierror, status(MPI_STATUS_SIZE), buffer(1)

    call get_command_argument(1, what)
    call get_command_argument(2, folder)
    write (*, '(a)') "before MPI_Init"
    call MPI_Init(ierror)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    do number = 0, 2
        write (*, '(a, i0, a, i0)') "rank ", rank, " line ", number
    end do
    write (0, '(a, i0, a)') "rank ", rank, " error"
    write (path, '(a, a, i0)') trim(folder), "/", rank
    write (temporary, '(a, a, i0)') trim(folder), "/part-", rank
    open (newunit=unit, file=trim(temporary))
    write (unit, '(i0)') getpid()
    close (unit)
    call rename(trim(temporary), trim(path))
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    buffer = rank
    if (rank == 0 .and. what == "crash") number = raise(segmentation_fault)
    if (rank == 0 .and. what == "error") call MPI_Send(buffer, 1, MPI_INTEGER, 77, 0, MPI_COMM_WORLD, ierror)
    if (rank == 0 .and. what == "abort") call MPI_Abort(MPI_COMM_WORLD, 3, ierror)
    call MPI_Recv(buffer, 1, MPI_INTEGER, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, status, ierror)
    call MPI_Finalize(ierror)
end program
