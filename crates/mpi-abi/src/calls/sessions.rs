//! Sessions, and objects that are created from groups alone (sections 11.3, 7.3.2, 7.4.2 and 7.6.2
//! of the standard).

use std::ffi::c_int;
use std::rc::Rc;

use base::ErrorClass;
use mpi::ThreadLevel;
use mpi::communicator::{CreationArguments, TwoGroups};
use mpi::error_handler::{ErrorHandler, HandlerKind};
use mpi::group::Group;
use mpi::info::Info;
use mpi::session::{ProcessSet, Session as OpenSession};
use progress::entry_lock::ProgramInside;

use crate::arguments::{KnownSession, Out, OutSizedText};
use crate::c::{self, Comm, HandleKind, Session};
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::{MPI_COMM_NULL, MPI_MAX_STRINGTAG_LEN, MPI_SESSION_NULL};
use crate::handler_owner::HandlerOwner;
use crate::phase;
use crate::thread_levels::{level_named, name_of_level};

use super::{environment, groups, infos, spawning};

/// The info key for the level of thread support (section 11.3.1).
const THREAD_LEVEL: &[u8] = b"thread_level";

pub fn session_init(
    call: &Call,
    info: Option<Rc<Info>>,
    errhandler: Rc<ErrorHandler>,
    session: Out<Session>,
) -> CallOutcome<()> {
    let wanted = info.as_ref().and_then(|info| info.hint(THREAD_LEVEL));
    let level = match wanted {
        None => ThreadLevel::Single,
        Some(name) => level_named(&name).ok_or_else(|| unknown_level(&name))?,
    };
    let (made, _visit) = open(call, level, errhandler)?;
    environment::note_change(call);
    // The helper thread, which runs now, must stay outside.
    let _visit = phase::enter_library(call);
    if let Err(failure) = spawning::meet_parent(call) {
        made.close(&call.library.process)?;
        environment::note_change(call);
        return Err(failure);
    }
    session.set(call.library.sessions.insert(made));
    Ok(())
}

/// Opens a session, and returns it with the entry of the program into the library. Inside of
/// another call the level of thread support is at most the one that calls rely on.
pub fn open(
    call: &Call,
    level: ThreadLevel,
    errhandler: Rc<ErrorHandler>,
) -> CallOutcome<(Rc<OpenSession>, ProgramInside<'_>)> {
    let process = &call.library.process;
    let visit = phase::enter_library(call);
    let level = match phase::is_within_another(&visit) {
        true => level.min(process.highest_level()),
        false => level,
    };
    environment::refuse_other_libraries()?;
    let (made, warnings) = process.open_session(level, errhandler)?;
    if process.rank() == 0 {
        environment::print_warnings(&warnings);
    }
    phase::note_main_thread();
    Ok((made, visit))
}

#[cold]
fn unknown_level(name: &[u8]) -> Failure {
    let name = String::from_utf8_lossy(name);
    let detail = format!(
        "has \"{name}\" for the key thread_level, but the levels are MPI_THREAD_SINGLE, \
         MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED and MPI_THREAD_MULTIPLE"
    );
    Failure::argument(1, ErrorClass::InfoValue, detail)
}

impl Call {
    /// Returns the error handler for an object that the call creates. Errors of the call go to it.
    pub fn new_handler(
        &self,
        position: usize,
        handle: c::Errhandler,
        kind: HandleKind,
    ) -> CallOutcome<Rc<ErrorHandler>> {
        let handler = self.error_handler(position, handle)?;
        let wanted = match kind {
            HandleKind::Session => HandlerKind::Session,
            _ => HandlerKind::Communicator,
        };
        let fits = handler.check_kind(wanted);
        fits.map_err(|error| Failure::of_argument(position, error))?;
        self.set_handler_owner(HandlerOwner::New(kind, handle));
        Ok(handler)
    }
}

pub fn session_finalize(call: &Call, session: Out<Session>) -> CallOutcome<()> {
    let known = call.session(1, session.value())?;
    let _visit = phase::enter_library(call);
    let process = &call.library.process;
    known.close(process)?;
    call.library.sessions.forget(known.handle);
    environment::note_change(call);
    if !phase::is_open() {
        // The processes of spawned jobs need this one no longer.
        call.library.child_jobs.release(|_| false);
    }
    session.set(MPI_SESSION_NULL);
    Ok(())
}

pub fn session_get_info(
    call: &Call,
    session: KnownSession,
    info_used: Out<c::Info>,
) -> CallOutcome<()> {
    let used = Info::new();
    let level = name_of_level(session.thread_level());
    used.set(THREAD_LEVEL, level.as_bytes(), infos::LIMITS)?;
    info_used.set(call.library.infos.insert(used));
    Ok(())
}

pub fn session_get_num_psets(
    call: &Call,
    _session: KnownSession,
    _info: Option<Rc<Info>>,
    npset_names: Out<c_int>,
) -> CallOutcome<()> {
    npset_names.set(call.library.process.process_sets().names().len() as c_int);
    Ok(())
}

pub fn session_get_nth_pset(
    call: &Call,
    _session: KnownSession,
    _info: Option<Rc<Info>>,
    n: usize,
    pset_name: OutSizedText,
) -> CallOutcome<()> {
    let names = call.library.process.process_sets().names();
    let Some(name) = names.get(n) else {
        let detail = format!("is {n}, but there are {} process sets", names.len());
        return Err(Failure::argument(3, ErrorClass::Arg, detail));
    };
    if pset_name.room() < 0 {
        let detail = format!("is {}, but must not be negative", pset_name.room());
        return Err(Failure::argument(4, ErrorClass::Arg, detail));
    }
    // If the length argument is 0, only the length is returned, including the zero byte.
    pset_name.write(name.as_bytes())
}

pub fn session_get_pset_info(
    call: &Call,
    session: KnownSession,
    pset_name: &[u8],
    info: Out<c::Info>,
) -> CallOutcome<()> {
    let group = session.group_of_set(&call.library.process, set_named(call, pset_name)?);
    let reported = Info::new();
    reported.set(b"mpi_size", group.size().to_string().as_bytes(), infos::LIMITS)?;
    info.set(call.library.infos.insert(reported));
    Ok(())
}

pub fn group_from_session_pset(
    call: &Call,
    session: KnownSession,
    pset_name: &[u8],
    newgroup: Out<c::Group>,
) -> CallOutcome<()> {
    let group = session.group_of_set(&call.library.process, set_named(call, pset_name)?);
    groups::hand_out(call, group, newgroup);
    Ok(())
}

fn set_named(call: &Call, name: &[u8]) -> CallOutcome<ProcessSet> {
    let found = call.library.process.process_sets().named(name);
    found.map_err(|error| Failure::of_argument(2, error))
}

pub fn comm_create_from_group(
    call: &Call,
    group: Rc<Group>,
    stringtag: &[u8],
    info: Option<Rc<Info>>,
    errhandler: Rc<ErrorHandler>,
    newcomm: Out<Comm>,
) -> CallOutcome<()> {
    check_string_tag(2, stringtag)?;
    if group.size() == 0 {
        newcomm.set(MPI_COMM_NULL);
        return Ok(());
    }
    let agreed = CreationArguments { string_tag: stringtag, error_handler: &errhandler };
    let made = group.create_communicator(&call.library.process, agreed)?;
    if let Some(info) = info {
        made.set_info(&call.library.process, &info);
    }
    newcomm.set(call.library.communicators.insert(made));
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn intercomm_create_from_groups(
    call: &Call,
    local_group: Rc<Group>,
    local_leader: c_int,
    remote_group: c::Group,
    remote_leader: c_int,
    stringtag: &[u8],
    info: Option<Rc<Info>>,
    errhandler: Rc<ErrorHandler>,
    newintercomm: Out<Comm>,
) -> CallOutcome<()> {
    check_string_tag(5, stringtag)?;
    if local_group.size() == 0 {
        newintercomm.set(MPI_COMM_NULL);
        return Ok(());
    }
    let leader = u32::try_from(local_leader).ok().filter(|rank| *rank < local_group.size());
    let Some(local_leader) = leader else {
        let size = local_group.size();
        let detail = format!("is {local_leader}, but the group has {size} processes");
        return Err(Failure::argument(2, ErrorClass::Rank, detail));
    };
    let process = &call.library.process;
    // The remote group is significant on the leader only.
    let leads = local_group.rank_of(base::GateId(process.rank())) == Some(local_leader);
    let remote = if leads { Some(call.group(3, remote_group)?) } else { None };
    let groups = TwoGroups {
        local: &local_group,
        local_leader,
        remote: remote.as_ref(),
        // A negative leader becomes a rank that no process has.
        remote_leader: remote_leader as u32,
    };
    let agreed = CreationArguments { string_tag: stringtag, error_handler: &errhandler };
    let made = groups.create_intercommunicator(process, agreed)?;
    if let Some(info) = info {
        made.set_info(&call.library.process, &info);
    }
    newintercomm.set(call.library.communicators.insert(made));
    Ok(())
}

fn check_string_tag(position: usize, tag: &[u8]) -> CallOutcome<()> {
    if tag.len() < MPI_MAX_STRINGTAG_LEN {
        return Ok(());
    }
    let detail =
        format!("has {} characters, but may have {}", tag.len(), MPI_MAX_STRINGTAG_LEN - 1);
    Err(Failure::argument(position, ErrorClass::Arg, detail))
}
