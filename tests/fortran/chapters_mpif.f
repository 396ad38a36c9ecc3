! What mpif.h has besides the first steps.
! run: 1 3
      subroutine add(invec, inoutvec, len, datatype)
      implicit none
      integer len, datatype, invec(len), inoutvec(len), i
      include 'mpif.h'
      if (datatype .ne. MPI_INTEGER) stop 20
      do i = 1, len
        inoutvec(i) = invec(i) + inoutvec(i)
      end do
      end

      subroutine handler(comm, code)
      implicit none
      integer comm, code, errors, of
      common /seen/ errors, of
      errors = errors + min(1, code)
      of = comm
      end

      program chapters_mpif
      implicit none
      include 'mpif.h'
      external add, handler
      integer rank, processes, code, op, values(3), got(3), errors, of
      integer comm, made, errhandler, class, length, keyval, i, n
      integer requests(2), status(MPI_STATUS_SIZE), index, info
      integer*8 value, places(2), size
      logical flag, periods(1)
      character*(MPI_MAX_ERROR_STRING) text
      character*8 short
      double precision x(2), y(2)
      common /seen/ errors, of

      errors = 0
      call MPI_INIT(code)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, code)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, processes, code)
      values(1) = 1
      values(2) = rank
      values(3) = 5
      call MPI_OP_CREATE(add, .true., op, code)
      call MPI_ALLREDUCE(values, got, 3, MPI_INTEGER, op,
     &    MPI_COMM_WORLD, code)
      if (got(2) .ne. processes * (processes - 1) / 2) stop 1
      call MPI_OP_FREE(op, code)

      call MPI_COMM_DUP(MPI_COMM_WORLD, comm, code)
      call MPI_COMM_CREATE_ERRHANDLER(handler, errhandler, code)
      call MPI_COMM_SET_ERRHANDLER(comm, errhandler, code)
      call MPI_RECV(got, 3, MPI_DATATYPE_NULL, 0, 0, comm,
     &    MPI_STATUS_IGNORE, code)
      if (errors .ne. 1 .or. of .ne. comm) stop 2
      call MPI_ERROR_CLASS(code, class, n)
      call MPI_ERROR_STRING(code, text, length, n)
      if (class .ne. MPI_ERR_TYPE) stop 3
      if (text(1:8) .ne. 'MPI_Recv') stop 4
      call MPI_ERRHANDLER_FREE(errhandler, code)

      call MPI_COMM_CREATE_KEYVAL(MPI_COMM_DUP_FN,
     &    MPI_COMM_NULL_DELETE_FN, keyval, 0_8, code)
      call MPI_COMM_SET_ATTR(comm, keyval, 77_8, code)
      call MPI_COMM_DUP(comm, made, code)
      call MPI_COMM_GET_ATTR(made, keyval, value, flag, code)
      if (.not. flag .or. value .ne. 77) stop 5
      call MPI_COMM_FREE(made, code)
      call MPI_COMM_FREE(comm, code)
      call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, value,
     &    flag, code)
      if (.not. flag .or. value .lt. 0 .or. value .gt. 1) stop 6

      do i = 1, 2
        call MPI_IRECV(got(i), 1, MPI_INTEGER, 0, i, MPI_COMM_SELF,
     &      requests(i), code)
      end do
      call MPI_SEND(values(3), 1, MPI_INTEGER, 0, 2, MPI_COMM_SELF,
     &    code)
      call MPI_WAITANY(2, requests, index, status, code)
      if (index .ne. 2 .or. got(2) .ne. 5) stop 7
      call MPI_CANCEL(requests(1), code)
      call MPI_WAIT(requests(1), status, code)
      call MPI_TEST_CANCELLED(status, flag, code)
      if (.not. flag) stop 8

      x(1) = 1.5
      x(2) = 2.5
      call MPI_GET_ADDRESS(x, places(1), code)
      call MPI_GET_ADDRESS(x(2), places(2), code)
      if (MPI_AINT_DIFF(places(2), places(1)) .ne. 8) stop 9
      call MPI_TYPE_CREATE_HINDEXED_BLOCK(2, 1, places,
     &    MPI_DOUBLE_PRECISION, made, code)
      call MPI_TYPE_COMMIT(made, code)
      call MPI_SENDRECV(MPI_BOTTOM, 1, made, 0, 1, y, 2,
     &    MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE,
     &    code)
      if (y(1) .ne. 1.5d0 .or. y(2) .ne. 2.5d0) stop 10
      call MPI_TYPE_FREE(made, code)
      call MPI_PACK_EXTERNAL_SIZE('external32', 2, MPI_INTEGER, size,
     &    code)
      if (size .ne. 8) stop 11

      call MPI_CART_CREATE(MPI_COMM_WORLD, 1, processes, .true.,
     &    .false., comm, code)
      call MPI_CART_GET(comm, 1, n, periods, i, code)
      if (.not. periods(1) .or. n .ne. processes) stop 12
      call MPI_COMM_FREE(comm, code)
      call MPI_INFO_CREATE(info, code)
      call MPI_INFO_SET(info, 'key', 'a long value', code)
      short = ' '
      length = 8
      call MPI_INFO_GET_STRING(info, 'key', length, short, flag, code)
      if (.not. flag .or. short .ne. 'a long v') stop 13
      if (length .ne. 12) stop 14
      call MPI_INFO_FREE(info, code)
      call MPI_ALLOC_MEM(80_8, MPI_INFO_NULL, value, code)
      if (value .eq. 0) stop 15
      if (MPI_WTICK() .gt. 1) stop 16
      call PMPI_BARRIER(MPI_COMM_WORLD, code)
      call MPI_FINALIZE(code)
      end
