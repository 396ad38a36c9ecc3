//! Placement of memory on NUMA nodes.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};

use base::ErrorClass;
use memory::Buffer;
use memory::placing::{self, Placing, PlacingError};
use runtime::migration::{self, UseHint};
use runtime::near_copies;

use super::check_bytes;
use crate::arguments::{Out, OutText};
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};

thread_local! {
    /// The decision about the last use of memory that the calling thread has declared.
    static REASON: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Places the memory that the first two arguments describe.
pub fn place(_call: &Call, address: usize, bytes: usize, place: &[u8]) -> CallOutcome<()> {
    check_address(address)?;
    check_bytes(2, bytes)?;
    let addresses = address..address.saturating_add(bytes);
    let words = String::from_utf8_lossy(place);
    let wrong = |why: String| Failure::argument(3, ErrorClass::Arg, format!("is invalid: {why}"));
    let refused = |error: PlacingError| Failure::new(ErrorClass::Other, error.to_string());
    if UseHint::is_meant(&words) {
        let hint: UseHint = words.parse().map_err(wrong)?;
        let decision = migration::follow(addresses, hint).map_err(refused)?;
        REASON.set(decision.to_string());
        return Ok(());
    }
    let unknown = |error: PlacingError| {
        wrong(format!("{error}; it may also describe a use, such as use:reads=10,writes=2"))
    };
    let placing: Placing = words.parse().map_err(unknown)?;
    placing.check().map_err(|error| wrong(error.to_string()))?;
    placing.apply(addresses).map_err(refused)
}

/// Returns the address from which the calling thread should read memory that many threads read and
/// none writes.
pub fn near_copy(
    _call: &Call,
    original: Buffer,
    reads: f64,
    copy: Out<*const c_void>,
) -> CallOutcome<()> {
    check_address(original.base_address())?;
    if !reads.is_finite() || reads < 0.0 {
        let detail = format!("is {reads}, but must be a number that is not negative");
        return Err(Failure::argument(3, ErrorClass::Arg, detail));
    }
    let decision = near_copies::nearest(&original, reads);
    let decision = decision.map_err(|error| Failure::new(ErrorClass::Other, error.to_string()))?;
    REASON.set(decision.to_string());
    copy.set(decision.address as *const c_void);
    Ok(())
}

/// Frees the copies of memory.
pub fn free_copies(_call: &Call, address: usize) -> CallOutcome<()> {
    near_copies::free(address);
    Ok(())
}

/// Writes the decision about the last use of memory that the calling thread has declared.
pub fn reason(_call: &Call, buffer: OutText) -> CallOutcome<()> {
    REASON.with_borrow(|reason| buffer.write(reason.as_bytes()));
    Ok(())
}

/// Returns the NUMA node of a page.
pub fn node_of(_call: &Call, address: usize, node: Out<c_int>) -> CallOutcome<()> {
    check_address(address)?;
    let nodes = placing::nodes_of(address..address.saturating_add(1));
    let nodes = nodes.map_err(|error| Failure::new(ErrorClass::Other, error.to_string()))?;
    let known = nodes.first().copied().flatten().and_then(|node| c_int::try_from(node).ok());
    node.set(known.unwrap_or(-1));
    Ok(())
}

fn check_address(address: usize) -> CallOutcome<()> {
    match address {
        0 => Err(Failure::argument(1, ErrorClass::Buffer, "is a null pointer")),
        _ => Ok(()),
    }
}
