//! The size of the system's pages.

/// Returns the size of a page in bytes. Kernels for 64-bit ARM are built for pages of 4, 16 or
/// 64 KiB. Signal handlers may call this.
#[inline]
pub fn page_bytes() -> usize {
    #[cfg(target_arch = "x86_64")]
    let bytes = 4096;
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: only reads what the kernel has passed to the program.
    let bytes = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
    bytes
}

#[cfg(test)]
mod tests {
    use super::page_bytes;

    #[test]
    fn the_size_is_that_of_the_kernel() {
        // SAFETY: takes a number.
        let system = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        assert_eq!(page_bytes() as libc::c_long, system);
        assert!(page_bytes().is_power_of_two());
    }
}
