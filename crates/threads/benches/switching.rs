//! A context switch in twenty instructions, to compare with the one in use. It pushes the
//! callee-saved registers and exchanges the stack pointers. x86-64 only.

use std::arch::global_asm;

global_asm!(
    ".globl bench_switch",
    "bench_switch:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rdi], rsp",
    "mov rsp, rsi",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
);

unsafe extern "C" {
    fn bench_switch(from: *mut *mut u8, to: *mut u8);
}

/// The saved stack pointer of each side while the other runs.
static mut HERE: *mut u8 = std::ptr::null_mut();
static mut THERE: *mut u8 = std::ptr::null_mut();

extern "C" fn there() -> ! {
    loop {
        // SAFETY: only called on the second stack, after `here` has saved its stack pointer.
        unsafe { bench_switch(&raw mut THERE, HERE) };
    }
}

/// Switches to another stack and back `count` times.
pub fn switch_there_and_back(count: u64) {
    let mut stack = vec![0_u64; 8192];
    let top = stack.len() - 16;
    // The data that `bench_switch` pops: six registers and the address of `there`.
    stack[top + 6] = there as *const () as u64;
    // SAFETY: the stack is laid out as the switch expects, its top aligned as at a call; it lives
    // until this function ends, after the last switch back. One thread uses the two words.
    unsafe {
        THERE = stack.as_mut_ptr().add(top).cast();
        if (THERE.addr() + 56) % 16 != 8 {
            let at = stack.as_mut_ptr().add(top + 1);
            at.add(6).write(there as *const () as u64);
            THERE = at.cast();
        }
        for _ in 0..count {
            bench_switch(&raw mut HERE, THERE);
        }
    }
}
