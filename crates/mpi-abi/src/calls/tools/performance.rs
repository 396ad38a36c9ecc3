//! Performance variables (section 15.3.7 of the standard).

use std::ffi::c_int;

use runtime::instruments::performance::{
    PERFORMANCE_VARIABLES, PerformanceVariable, ValueSource, VariableClass,
};
use runtime::instruments::tally::Tally;

use super::{ToolOutcome, ToolState, Tools, at, position, verbosity_of};
use crate::arguments::{MaybeOut, Out, ToolText};
use crate::c::{Datatype, Enumeration, PvarHandle, PvarSession};
use crate::generated::constants::*;
use crate::phase;

/// A variable for which a tool has a handle.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoundVariable {
    session: PvarSession,
    variable: usize,
    tally: Tally,
}

const ALL_HANDLES: PvarHandle = PvarHandle(MPI_T_PVAR_ALL_HANDLES);

const NANOSECONDS: f64 = 1e-9;

pub fn t_pvar_get_num(_tools: &Tools, num_pvar: Out<c_int>) -> ToolOutcome {
    num_pvar.set(PERFORMANCE_VARIABLES.len() as c_int);
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn t_pvar_get_info(
    _tools: &Tools,
    pvar_index: c_int,
    name: ToolText,
    verbosity: MaybeOut<c_int>,
    var_class: MaybeOut<c_int>,
    datatype: MaybeOut<Datatype>,
    enumtype: MaybeOut<Enumeration>,
    desc: ToolText,
    bind: MaybeOut<c_int>,
    readonly: MaybeOut<c_int>,
    continuous: MaybeOut<c_int>,
    atomic: MaybeOut<c_int>,
) -> ToolOutcome {
    let variable = at(PERFORMANCE_VARIABLES, pvar_index)?;
    name.set(variable.name);
    verbosity.set(verbosity_of(variable.audience));
    var_class.set(number_of(variable.class));
    datatype.set(match variable.class {
        VariableClass::Timer => MPI_DOUBLE,
        _ => MPI_UNSIGNED_LONG_LONG,
    });
    enumtype.set(Enumeration(MPI_T_ENUM_NULL));
    desc.set(variable.help);
    bind.set(MPI_T_BIND_NO_OBJECT);
    let whole = variable.class.is_continuous();
    readonly.set(whole.into());
    continuous.set(whole.into());
    atomic.set((!whole).into());
    Ok(())
}

pub fn t_pvar_get_index(
    _tools: &Tools,
    name: &[u8],
    var_class: c_int,
    pvar_index: Out<c_int>,
) -> ToolOutcome {
    pvar_index.set(position(PERFORMANCE_VARIABLES, |variable| {
        variable.name.as_bytes() == name && number_of(variable.class) == var_class
    })?);
    Ok(())
}

pub fn t_pvar_session_create(tools: &Tools, session: Out<PvarSession>) -> ToolOutcome {
    session.set(tools.state().sessions.insert(()));
    Ok(())
}

pub fn t_pvar_session_free(tools: &Tools, session: Out<PvarSession>) -> ToolOutcome {
    let state = tools.state();
    let freed = session.value();
    state.sessions.forget(freed).ok_or(MPI_T_ERR_INVALID_SESSION)?;
    for handle in state.handles_of(freed) {
        state.performance.remove(handle);
    }
    session.set(PvarSession(MPI_T_PVAR_SESSION_NULL));
    Ok(())
}

pub fn t_pvar_handle_alloc(
    tools: &Tools,
    session: PvarSession,
    pvar_index: c_int,
    handle: Out<PvarHandle>,
    count: Out<c_int>,
) -> ToolOutcome {
    let state = tools.state();
    state.check_session(session)?;
    let tally = Tally::new(at(PERFORMANCE_VARIABLES, pvar_index)?.class);
    let variable = pvar_index as usize;
    handle.set(state.performance.insert(BoundVariable { session, variable, tally }));
    count.set(1);
    Ok(())
}

pub fn t_pvar_handle_free(
    tools: &Tools,
    session: PvarSession,
    handle: Out<PvarHandle>,
) -> ToolOutcome {
    let state = tools.state();
    state.watch(session, handle.value())?;
    state.performance.remove(handle.value());
    handle.set(PvarHandle(MPI_T_PVAR_HANDLE_NULL));
    Ok(())
}

pub fn t_pvar_start(tools: &Tools, session: PvarSession, handle: PvarHandle) -> ToolOutcome {
    start_or_stop(tools, session, handle, Tally::start)
}

pub fn t_pvar_stop(tools: &Tools, session: PvarSession, handle: PvarHandle) -> ToolOutcome {
    start_or_stop(tools, session, handle, Tally::stop)
}

fn start_or_stop(
    tools: &Tools,
    session: PvarSession,
    handle: PvarHandle,
    change: fn(&mut Tally, u64),
) -> ToolOutcome {
    let cannot = MPI_T_ERR_PVAR_NO_STARTSTOP;
    for handle in tools.changeable(session, handle, cannot)? {
        tools.with_tally(session, handle, change)?;
    }
    Ok(())
}

pub fn t_pvar_reset(tools: &Tools, session: PvarSession, handle: PvarHandle) -> ToolOutcome {
    for handle in tools.changeable(session, handle, MPI_T_ERR_PVAR_NO_WRITE)? {
        tools.with_tally(session, handle, Tally::reset)?;
    }
    Ok(())
}

pub fn t_pvar_read(
    tools: &Tools,
    session: PvarSession,
    handle: PvarHandle,
    buf: MaybeOut<u64>,
) -> ToolOutcome {
    let value = tools.with_tally(session, handle, |tally, now| tally.value(now))?;
    write_value(tools.variable(session, handle)?, buf, value)
}

pub fn t_pvar_readreset(
    tools: &Tools,
    session: PvarSession,
    handle: PvarHandle,
    buf: MaybeOut<u64>,
) -> ToolOutcome {
    let variable = tools.variable(session, handle)?;
    if variable.class.is_continuous() {
        return Err(MPI_T_ERR_PVAR_NO_ATOMIC);
    }
    if buf.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    let value = tools.with_tally(session, handle, |tally, now| {
        let value = tally.value(now);
        tally.reset(now);
        value
    })?;
    write_value(variable, buf, value)
}

pub fn t_pvar_write(
    tools: &Tools,
    session: PvarSession,
    handle: PvarHandle,
    buf: MaybeOut<u64>,
) -> ToolOutcome {
    let variable = tools.variable(session, handle)?;
    if variable.class.is_continuous() {
        return Err(MPI_T_ERR_PVAR_NO_WRITE);
    }
    let value = buf.value().ok_or(MPI_T_ERR_INVALID)?;
    let value = match variable.class {
        VariableClass::Timer => (f64::from_bits(value) / NANOSECONDS) as u64,
        _ => value,
    };
    tools.with_tally(session, handle, |tally, now| tally.write(now, value))
}

/// Writes a value, as a `double` or as an `unsigned long long` of equal size.
fn write_value(variable: &PerformanceVariable, buf: MaybeOut<u64>, value: u64) -> ToolOutcome {
    if buf.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    buf.set(match variable.class {
        VariableClass::Timer => (value as f64 * NANOSECONDS).to_bits(),
        _ => value,
    });
    Ok(())
}

impl ToolState {
    fn check_session(&self, session: PvarSession) -> ToolOutcome {
        self.sessions.get(session).ok_or(MPI_T_ERR_INVALID_SESSION)
    }

    fn watch(&self, session: PvarSession, handle: PvarHandle) -> Result<BoundVariable, c_int> {
        self.check_session(session)?;
        let found = self.performance.get(handle);
        found.filter(|watch| watch.session == session).ok_or(MPI_T_ERR_INVALID_HANDLE)
    }

    fn handles_of(&self, session: PvarSession) -> Vec<PvarHandle> {
        let mut handles = Vec::new();
        self.performance.each(|handle, watch| {
            if watch.session == session {
                handles.push(handle);
            }
        });
        handles
    }
}

impl Tools {
    /// Returns the handles that a call changes, without those whose tally is the whole value of the
    /// process. If the call names such a handle alone, the result is the error `cannot`.
    fn changeable(
        &self,
        session: PvarSession,
        handle: PvarHandle,
        cannot: c_int,
    ) -> Result<Vec<PvarHandle>, c_int> {
        let state = self.state();
        state.check_session(session)?;
        let is_whole =
            |handle| state.watch(session, handle).map(|watch| matches!(watch.tally, Tally::Whole));
        if handle != ALL_HANDLES {
            return if is_whole(handle)? { Err(cannot) } else { Ok(vec![handle]) };
        }
        let all = state.handles_of(session).into_iter();
        Ok(all.filter(|&handle| is_whole(handle) == Ok(false)).collect())
    }

    fn variable(
        &self,
        session: PvarSession,
        handle: PvarHandle,
    ) -> Result<&'static PerformanceVariable, c_int> {
        let watch = self.state().watch(session, handle)?;
        Ok(&PERFORMANCE_VARIABLES[watch.variable])
    }

    /// Returns what `work` returns for the tally of a handle and the current value of the process.
    fn with_tally<T>(
        &self,
        session: PvarSession,
        handle: PvarHandle,
        work: impl FnOnce(&mut Tally, u64) -> T,
    ) -> Result<T, c_int> {
        let BoundVariable { variable, .. } = self.state().watch(session, handle)?;
        // The lock is not held, because reading the value may have to wait until another thread
        // leaves MPI.
        let now = self.value_of_process(variable)?;
        let worked = self.state().performance.with(handle, |watch| work(&mut watch.tally, now));
        worked.ok_or(MPI_T_ERR_INVALID_HANDLE)
    }

    fn value_of_process(&self, variable: usize) -> Result<u64, c_int> {
        match PERFORMANCE_VARIABLES[variable].source {
            ValueSource::Counted(read) => Ok(read(&self.instruments)),
            ValueSource::Sampled(read) => {
                let found = phase::if_free(|library| library.process.inspect(read).unwrap_or(0));
                found.ok_or(MPI_T_ERR_NOT_ACCESSIBLE)
            }
            ValueSource::Watched(take_highest) => {
                let state = self.state();
                let notice = || {
                    let highest = take_highest(&self.instruments);
                    state.performance.each(|_, watch| {
                        if watch.variable == variable {
                            watch.tally.notice(highest);
                        }
                    });
                    highest
                };
                // The first call ends a period of watching for all handles; the second starts the
                // next one at the current level.
                notice();
                Ok(notice())
            }
        }
    }
}

fn number_of(class: VariableClass) -> c_int {
    match class {
        VariableClass::Level => MPI_T_PVAR_CLASS_LEVEL,
        VariableClass::Size => MPI_T_PVAR_CLASS_SIZE,
        VariableClass::HighWatermark => MPI_T_PVAR_CLASS_HIGHWATERMARK,
        VariableClass::Counter => MPI_T_PVAR_CLASS_COUNTER,
        VariableClass::Aggregate => MPI_T_PVAR_CLASS_AGGREGATE,
        VariableClass::Timer => MPI_T_PVAR_CLASS_TIMER,
    }
}
