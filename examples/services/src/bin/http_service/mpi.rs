//! The few functions of MPI that the service uses, with the constants of the standard binary
//! interface (MPI 5.0, chapter 20). All errors end the job, as is the default in MPI.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

const COMM_WORLD: usize = 0x101;
const DOUBLE: usize = 0x214;
const SUM: usize = 0x21;
const MAX: usize = 0x23;
const THREAD_SINGLE: c_int = 0;
const THREAD_MULTIPLE: c_int = 4096;
const COUNTER: c_int = 7;

unsafe extern "C" {
    fn MPI_Init_thread(
        count: *mut c_int,
        texts: *mut c_void,
        wanted: c_int,
        got: *mut c_int,
    ) -> c_int;
    fn MPI_Finalize() -> c_int;
    fn MPI_Comm_rank(communicator: usize, rank: *mut c_int) -> c_int;
    fn MPI_Comm_size(communicator: usize, size: *mut c_int) -> c_int;
    fn MPI_Allreduce(
        from: *const c_void,
        to: *mut c_void,
        count: c_int,
        datatype: usize,
        operation: usize,
        communicator: usize,
    ) -> c_int;
    fn MPI_Sendrecv(
        sent: *const c_void,
        sent_count: c_int,
        sent_type: usize,
        destination: c_int,
        sent_tag: c_int,
        received: *mut c_void,
        received_count: c_int,
        received_type: usize,
        source: c_int,
        received_tag: c_int,
        communicator: usize,
        status: *mut c_void,
    ) -> c_int;
    fn MPI_T_init_thread(wanted: c_int, got: *mut c_int) -> c_int;
    fn MPI_T_pvar_session_create(session: *mut usize) -> c_int;
    fn MPI_T_pvar_get_index(name: *const c_char, class: c_int, index: *mut c_int) -> c_int;
    fn MPI_T_pvar_handle_alloc(
        session: usize,
        index: c_int,
        object: *mut c_void,
        handle: *mut usize,
        count: *mut c_int,
    ) -> c_int;
    fn MPI_T_pvar_start(session: usize, handle: usize) -> c_int;
    fn MPI_T_pvar_read(session: usize, handle: usize, value: *mut c_void) -> c_int;
}

/// MPI between initialization and finalization, used by the thread that has initialized it.
pub struct Mpi {
    pub rank: usize,
    pub size: usize,
}

/// A performance variable that counts from now on.
pub struct Counter {
    session: usize,
    handle: usize,
}

impl Mpi {
    pub fn init() -> Self {
        let (mut level, mut rank, mut size) = (0, 0, 0);
        // SAFETY: null stands for no arguments, and the pointers lead to integers. The process
        // initializes MPI once.
        unsafe {
            MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), THREAD_MULTIPLE, &mut level);
            MPI_Comm_rank(COMM_WORLD, &mut rank);
            MPI_Comm_size(COMM_WORLD, &mut size);
        }
        Self { rank: rank as usize, size: size as usize }
    }

    /// Sends values to one rank, and receives as many from another one.
    pub fn exchange(&self, to: usize, sent: &[f64], from: usize, received: &mut [f64]) {
        let (to, from) = (to as c_int, from as c_int);
        let (sent_count, received_count) = (sent.len() as c_int, received.len() as c_int);
        // SAFETY: both slices have so many values; null stands for no status.
        unsafe {
            MPI_Sendrecv(
                sent.as_ptr().cast(),
                sent_count,
                DOUBLE,
                to,
                0,
                received.as_mut_ptr().cast(),
                received_count,
                DOUBLE,
                from,
                0,
                COMM_WORLD,
                ptr::null_mut(),
            );
        }
    }

    pub fn sum(&self, value: f64) -> f64 {
        self.reduce(value, SUM)
    }

    pub fn max(&self, value: f64) -> f64 {
        self.reduce(value, MAX)
    }

    fn reduce(&self, value: f64, operation: usize) -> f64 {
        let mut result = 0.0;
        let (from, to) = (ptr::from_ref(&value), ptr::from_mut(&mut result));
        // SAFETY: both pointers lead to one value.
        unsafe { MPI_Allreduce(from.cast(), to.cast(), 1, DOUBLE, operation, COMM_WORLD) };
        result
    }

    /// Starts to count; the variables are those of `combray info --variables`.
    pub fn counter(&self, name: &CStr) -> Counter {
        let (mut level, mut index, mut count) = (0, 0, 0);
        let mut counter = Counter { session: 0, handle: 0 };
        // SAFETY: the pointers lead to values of these types, and the name ends with a zero byte.
        unsafe {
            MPI_T_init_thread(THREAD_SINGLE, &mut level);
            MPI_T_pvar_session_create(&mut counter.session);
            let code = MPI_T_pvar_get_index(name.as_ptr(), COUNTER, &mut index);
            assert!(code == 0, "the library has no variable {name:?}");
            MPI_T_pvar_handle_alloc(
                counter.session,
                index,
                ptr::null_mut(),
                &mut counter.handle,
                &mut count,
            );
            MPI_T_pvar_start(counter.session, counter.handle);
        }
        counter
    }

    pub fn finalize(self) {
        // SAFETY: MPI was initialized, and is not used afterwards.
        unsafe { MPI_Finalize() };
    }
}

impl Counter {
    pub fn value(&self) -> u64 {
        let mut value = 0_u64;
        // SAFETY: the variable has one value of this type.
        unsafe { MPI_T_pvar_read(self.session, self.handle, ptr::from_mut(&mut value).cast()) };
        value
    }
}
