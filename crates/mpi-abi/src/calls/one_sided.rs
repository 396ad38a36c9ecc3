//! One-sided operations (section 12.3 of the standard).

use std::mem::ManuallyDrop;
use std::rc::Rc;

use base::ErrorClass;
use datatype::Predefined;
use datatype::reduction::Operator;
use memory::Buffer;
use mpi::Destination;
use mpi::operation::Operation as Reduction;
use windows::{
    AccessKind, CompletedBy, OldData, PlainPlace, TargetPlace, WindowAccess, WindowOperation,
};

use crate::arguments::{
    ElementsArgument, KnownDatatype, KnownOperation, KnownWindow, Out, TypeArgument,
};
use crate::c::Request;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::handler_owner::HandlerOwner;
use crate::requests::{DONE, Pending, PendingRequest};

/// The operation that a call started; `None` if it is complete or has no target.
type StartedOperation = Option<Rc<WindowOperation>>;

/// Elements at a target, as the arguments of a call describe them.
#[derive(Clone, Copy, Debug)]
struct TargetElements {
    rank: u32,
    displacement: i64,
    count: i64,
    /// The position of the count among the arguments.
    position: usize,
    datatype: TypeArgument,
}

impl TargetElements {
    fn place(&self, call: &Call, win: &KnownWindow) -> CallOutcome<TargetPlace> {
        let count = call.count(self.position, self.count)?;
        let datatype = self.datatype.committed(call)?;
        Ok(win.window.place(self.rank, self.displacement, &datatype, count)?)
    }
}

impl TargetElements {
    /// Returns the elements, if they have a predefined datatype without gaps and are not empty.
    #[inline(always)]
    fn plain(&self, call: &Call) -> Option<PlainPlace> {
        let size = call.library.predefined.contiguous_size(self.datatype.handle);
        let length = usize::try_from(self.count).ok()?.checked_mul(size)?;
        let (target, displacement) = (self.rank, self.displacement);
        (length > 0).then_some(PlainPlace { target, displacement, length })
    }

    /// Returns the predefined datatype of the elements.
    #[inline(always)]
    fn element(&self, call: &Call) -> Option<Predefined> {
        call.library.predefined.named(self.datatype.handle)
    }
}

/// Returns the buffer for the previous values, if the operation has one; `None` if the buffer is
/// not contiguous.
#[inline(always)]
fn plain_result(call: &Call, result: Option<&ElementsArgument>) -> Option<Option<Buffer>> {
    match result {
        None => Some(None),
        Some(result) => result.plain_buffer(call).map(Some),
    }
}

/// Returns the empty buffer, for operations that have none.
fn none() -> Buffer {
    Buffer::empty()
}

fn begin(
    call: &Call,
    win: &KnownWindow,
    rank: u32,
    access: &WindowAccess,
    completed_by: CompletedBy,
) -> CallOutcome<StartedOperation> {
    Ok(win.window.access(&call.library.process, rank, access, completed_by)?)
}

/// Stores a request for an operation of a window.
#[inline]
fn hand_out(
    call: &Call,
    win: &KnownWindow,
    begun: StartedOperation,
    request: Out<Request>,
) -> CallOutcome<()> {
    request.set(match begun {
        None => DONE,
        Some(operation) => {
            let work = Pending::One(mpi::Request::Operation(operation));
            let handler_owner = HandlerOwner::Window(win.handle);
            call.library.requests.insert(PendingRequest { handler_owner, work })
        }
    });
    Ok(())
}

#[inline(always)]
fn begin_put(
    call: &Call,
    origin: ElementsArgument,
    target: TargetElements,
    win: &KnownWindow,
    completed_by: CompletedBy,
) -> CallOutcome<StartedOperation> {
    if let (Some(place), Some(origin)) = (target.plain(call), origin.plain_buffer(call))
        && win.window.put_plain(place, &origin, completed_by)
    {
        return Ok(None);
    }
    begin_any_put(call, origin, target, win, completed_by)
}

#[inline(never)]
fn begin_any_put(
    call: &Call,
    origin: ElementsArgument,
    target: TargetElements,
    win: &KnownWindow,
    completed_by: CompletedBy,
) -> CallOutcome<StartedOperation> {
    let place = target.place(call, win)?;
    let origin = origin.buffer(call)?;
    let access =
        WindowAccess { action: AccessKind::Put, origin, compare: none(), result: none(), place };
    begin(call, win, target.rank, &access, completed_by)
}

#[inline(always)]
fn begin_get(
    call: &Call,
    origin: ElementsArgument,
    target: TargetElements,
    win: &KnownWindow,
    completed_by: CompletedBy,
) -> CallOutcome<StartedOperation> {
    if let (Some(place), Some(result)) = (target.plain(call), origin.plain_buffer(call))
        && win.window.get_plain(place, &result, completed_by)
    {
        return Ok(None);
    }
    begin_any_get(call, origin, target, win, completed_by)
}

#[inline(never)]
fn begin_any_get(
    call: &Call,
    origin: ElementsArgument,
    target: TargetElements,
    win: &KnownWindow,
    completed_by: CompletedBy,
) -> CallOutcome<StartedOperation> {
    let place = target.place(call, win)?;
    let result = origin.buffer(call)?;
    let access =
        WindowAccess { action: AccessKind::Get, origin: none(), compare: none(), result, place };
    begin(call, win, target.rank, &access, completed_by)
}

/// Returns the operator of an accumulate, which must be predefined.
#[inline(always)]
fn operator_of(position: usize, operation: &KnownOperation) -> CallOutcome<Operator> {
    if let KnownOperation::Predefined(operation) = operation
        && let Reduction::Predefined(operator) = **operation
    {
        return Ok(operator);
    }
    Err(of_program(position))
}

#[cold]
fn of_program(position: usize) -> Failure {
    let detail = "is a user-defined operation: one-sided calls allow only predefined operations";
    Failure::argument(position, ErrorClass::Op, detail)
}

#[inline(always)]
fn begin_accumulate(
    call: &Call,
    origin: ElementsArgument,
    result: Option<ElementsArgument>,
    target: TargetElements,
    operator: Operator,
    win: &KnownWindow,
    completed_by: CompletedBy,
) -> CallOutcome<StartedOperation> {
    if let (Some(place), Some(element)) = (target.plain(call), target.element(call))
        && origin.is_of(target.datatype.handle)
        && let Some(given) = plain_run(&origin, call)
        && let Some(result) = plain_result(call, result.as_ref())
        && win.window.accumulate_plain(
            place,
            (operator, element),
            &given,
            result.as_ref(),
            completed_by,
        )
    {
        return Ok(None);
    }
    begin_any_accumulate(call, (origin, result), target, operator, win, completed_by)
}

#[inline(never)]
fn begin_any_accumulate(
    call: &Call,
    (origin, result): (ElementsArgument, Option<ElementsArgument>),
    target: TargetElements,
    operator: Operator,
    win: &KnownWindow,
    completed_by: CompletedBy,
) -> CallOutcome<StartedOperation> {
    let place = target.place(call, win)?;
    let leaves = operator == Operator::NoOperation;
    let given = if leaves { None } else { Some(origin.checked_type(call)?) };
    let types = given.as_ref().map(|given| &****given);
    let old = if result.is_some() { OldData::Fetched } else { OldData::Dropped };
    let action = AccessKind::accumulate(operator, types, &place, old)?;
    let origin = if leaves { none() } else { origin.buffer(call)? };
    let result = result.map_or(Ok(none()), |result| result.buffer(call))?;
    let access = WindowAccess { action, origin, compare: none(), result, place };
    begin(call, win, target.rank, &access, completed_by)
}

/// Defines the functions of the standard that exist with a request and without.
macro_rules! pairs {
    ($($begin:ident => $plain:ident, $with_request:ident;)*) => {$(
        #[inline(always)]
        pub fn $plain(
            call: &Call,
            origin: ElementsArgument,
            rank: Destination,
            displacement: i64,
            count: i64,
            datatype: TypeArgument,
            win: KnownWindow,
        ) -> CallOutcome<()> {
            let Destination::Rank(rank) = rank else { return Ok(()) };
            let target = TargetElements { rank, displacement, count, position: 6, datatype };
            $begin(call, origin, target, &win, CompletedBy::Synchronization)?;
            Ok(())
        }

        #[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
        pub fn $with_request(
            call: &Call,
            origin: ElementsArgument,
            rank: Destination,
            displacement: i64,
            count: i64,
            datatype: TypeArgument,
            win: KnownWindow,
            request: Out<Request>,
        ) -> CallOutcome<()> {
            let Destination::Rank(rank) = rank else { return hand_out(call, &win, None, request) };
            let target = TargetElements { rank, displacement, count, position: 6, datatype };
            let begun = $begin(call, origin, target, &win, CompletedBy::Request)?;
            hand_out(call, &win, begun, request)
        }
    )*};
}

pairs! {
    begin_put => put, rput;
    begin_get => get, rget;
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
#[inline(always)]
pub fn accumulate(
    call: &Call,
    origin: ElementsArgument,
    rank: Destination,
    displacement: i64,
    count: i64,
    datatype: TypeArgument,
    op: KnownOperation,
    win: KnownWindow,
) -> CallOutcome<()> {
    let operator = operator_of(8, &op)?;
    let Destination::Rank(rank) = rank else { return Ok(()) };
    let target = TargetElements { rank, displacement, count, position: 6, datatype };
    begin_accumulate(call, origin, None, target, operator, &win, CompletedBy::Synchronization)?;
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn raccumulate(
    call: &Call,
    origin: ElementsArgument,
    rank: Destination,
    displacement: i64,
    count: i64,
    datatype: TypeArgument,
    op: KnownOperation,
    win: KnownWindow,
    request: Out<Request>,
) -> CallOutcome<()> {
    let operator = operator_of(8, &op)?;
    let Destination::Rank(rank) = rank else { return hand_out(call, &win, None, request) };
    let target = TargetElements { rank, displacement, count, position: 6, datatype };
    let begun = begin_accumulate(call, origin, None, target, operator, &win, CompletedBy::Request)?;
    hand_out(call, &win, begun, request)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn get_accumulate(
    call: &Call,
    origin: ElementsArgument,
    result: ElementsArgument,
    rank: Destination,
    displacement: i64,
    count: i64,
    datatype: TypeArgument,
    op: KnownOperation,
    win: KnownWindow,
) -> CallOutcome<()> {
    let operator = operator_of(11, &op)?;
    let Destination::Rank(rank) = rank else { return Ok(()) };
    let target = TargetElements { rank, displacement, count, position: 9, datatype };
    begin_accumulate(
        call,
        origin,
        Some(result),
        target,
        operator,
        &win,
        CompletedBy::Synchronization,
    )?;
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn rget_accumulate(
    call: &Call,
    origin: ElementsArgument,
    result: ElementsArgument,
    rank: Destination,
    displacement: i64,
    count: i64,
    datatype: TypeArgument,
    op: KnownOperation,
    win: KnownWindow,
    request: Out<Request>,
) -> CallOutcome<()> {
    let operator = operator_of(11, &op)?;
    let Destination::Rank(rank) = rank else { return hand_out(call, &win, None, request) };
    let target = TargetElements { rank, displacement, count, position: 9, datatype };
    let begun =
        begin_accumulate(call, origin, Some(result), target, operator, &win, CompletedBy::Request)?;
    hand_out(call, &win, begun, request)
}

/// Returns a datatype, which must be predefined.
fn predefined_type(call: &Call, datatype: TypeArgument) -> CallOutcome<KnownDatatype> {
    let known = datatype.committed(call)?;
    if known.predefined().is_some() {
        return Ok(known);
    }
    let detail = "is a derived datatype, but only predefined ones are allowed here";
    Err(Failure::argument(datatype.position, ErrorClass::Type, detail))
}

/// Returns elements that are one run of the program's memory. Such a buffer owns nothing, and its
/// drop would only find that out.
#[inline(always)]
fn plain_run(elements: &ElementsArgument, call: &Call) -> Option<ManuallyDrop<Buffer>> {
    elements.plain_buffer(call).map(ManuallyDrop::new)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
#[inline(always)]
pub fn fetch_and_op(
    call: &Call,
    origin: ElementsArgument,
    result: ElementsArgument,
    datatype: TypeArgument,
    rank: Destination,
    displacement: i64,
    op: KnownOperation,
    win: KnownWindow,
) -> CallOutcome<()> {
    let operator = operator_of(6, &op)?;
    let Destination::Rank(rank) = rank else { return Ok(()) };
    let target = TargetElements { rank, displacement, count: 1, position: 3, datatype };
    if let (Some(place), Some(element)) = (target.plain(call), target.element(call))
        && let Some(given) = plain_run(&origin, call)
        && let Some(result) = plain_run(&result, call)
        && win.window.accumulate_plain(
            place,
            (operator, element),
            &given,
            Some(&result),
            CompletedBy::Synchronization,
        )
    {
        return Ok(());
    }
    fetch_and_op_any(call, (origin, result), target, operator, &win)
}

#[inline(never)]
fn fetch_and_op_any(
    call: &Call,
    (origin, result): (ElementsArgument, ElementsArgument),
    target: TargetElements,
    operator: Operator,
    win: &KnownWindow,
) -> CallOutcome<()> {
    let TargetElements { rank, displacement, datatype, .. } = target;
    let datatype = predefined_type(call, datatype)?;
    let place = win.window.place(rank, displacement, &datatype, 1)?;
    let action = AccessKind::accumulate(operator, Some(&datatype), &place, OldData::Fetched)?;
    let leaves = operator == Operator::NoOperation;
    let origin = if leaves { none() } else { origin.unshifted_buffer(call)? };
    let result = result.unshifted_buffer(call)?;
    let access = WindowAccess { action, origin, compare: none(), result, place };
    begin(call, win, rank, &access, CompletedBy::Synchronization)?;
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
#[inline(always)]
pub fn compare_and_swap(
    call: &Call,
    origin: ElementsArgument,
    compare: ElementsArgument,
    result: ElementsArgument,
    datatype: TypeArgument,
    rank: Destination,
    displacement: i64,
    win: KnownWindow,
) -> CallOutcome<()> {
    let Destination::Rank(rank) = rank else { return Ok(()) };
    let target = TargetElements { rank, displacement, count: 1, position: 4, datatype };
    if let (Some(place), Some(element)) = (target.plain(call), target.element(call))
        && let Some(new) = plain_run(&origin, call)
        && let Some(expected) = plain_run(&compare, call)
        && let Some(result) = plain_run(&result, call)
        && win.window.swap_plain(place, element, (&new, &expected), &result)
    {
        return Ok(());
    }
    compare_and_swap_any(call, [origin, compare, result], target, &win)
}

#[inline(never)]
fn compare_and_swap_any(
    call: &Call,
    [origin, compare, result]: [ElementsArgument; 3],
    target: TargetElements,
    win: &KnownWindow,
) -> CallOutcome<()> {
    let TargetElements { rank, displacement, datatype, .. } = target;
    let datatype = predefined_type(call, datatype)?;
    let action = AccessKind::swap(&datatype).map_err(|error| {
        Failure::argument(4, error.class, format!("is invalid: {}", error.detail))
    })?;
    let place = win.window.place(rank, displacement, &datatype, 1)?;
    let new = origin.unshifted_buffer(call)?;
    let (expected, result) = (compare.unshifted_buffer(call)?, result.unshifted_buffer(call)?);
    let access = WindowAccess { action, origin: new, compare: expected, result, place };
    begin(call, win, rank, &access, CompletedBy::Synchronization)?;
    Ok(())
}
