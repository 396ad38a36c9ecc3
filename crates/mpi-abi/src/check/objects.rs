//! Checks for objects that the program creates and should free.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use checks::{CallSite, Mistake, MistakeKind};

use super::{Checks, SeenCall};
use crate::arguments::{KnownWindow, Out};
use crate::c::{Comm, Datatype, File, Group, Handle, HandleKind, Info, Op, Passed, Win};
use crate::library::LibraryState;

/// The call sites at which objects were created, by kind and handle.
#[derive(Debug, Default)]
pub struct MadeObjects(RefCell<HashMap<(&'static str, usize), Rc<CallSite>>>);

/// The parameters in which functions store the objects that they create.
const MAKERS: &[(&str, HandleKind)] = &[
    ("newcomm", HandleKind::Comm),
    ("comm_cart", HandleKind::Comm),
    ("comm_graph", HandleKind::Comm),
    ("comm_dist_graph", HandleKind::Comm),
    ("newintercomm", HandleKind::Comm),
    ("newintracomm", HandleKind::Comm),
    ("newtype", HandleKind::Datatype),
    ("newgroup", HandleKind::Group),
    ("newinfo", HandleKind::Info),
    ("info_used", HandleKind::Info),
];

/// The parameters for created objects in functions whose parameter names have another meaning in
/// other functions.
const SPECIAL_MAKERS: &[(&str, &str, HandleKind)] = &[
    ("MPI_Comm_group", "group", HandleKind::Group),
    ("MPI_Win_get_group", "group", HandleKind::Group),
    ("MPI_File_get_group", "group", HandleKind::Group),
    ("MPI_Info_create", "info", HandleKind::Info),
    ("MPI_Op_create", "op", HandleKind::Op),
    ("MPI_Win_create", "win", HandleKind::Win),
    ("MPI_Win_allocate", "win", HandleKind::Win),
    ("MPI_Win_allocate_shared", "win", HandleKind::Win),
    ("MPI_Win_create_dynamic", "win", HandleKind::Win),
    ("MPI_File_open", "fh", HandleKind::File),
];

/// Records the objects that a successful call has created.
pub fn end(seen: &SeenCall) {
    let function = seen.function();
    if function.starts_with("MPI_Type_create_f90") {
        // These datatypes are never freed (section 19.1.9).
        return;
    }
    let special = SPECIAL_MAKERS.iter().find(|(name, ..)| *name == function);
    let special = special.map(|&(_, parameter, kind)| (parameter, kind));
    let made = special.into_iter().chain(MAKERS.iter().copied());
    for (parameter, kind) in made {
        let Some(place) = seen.word(parameter).filter(|place| *place != 0) else { continue };
        let handle = match kind {
            HandleKind::Comm => left_there::<Comm>(seen, place),
            HandleKind::Datatype => left_there::<Datatype>(seen, place),
            HandleKind::Group => left_there::<Group>(seen, place),
            HandleKind::Info => left_there::<Info>(seen, place),
            HandleKind::Op => left_there::<Op>(seen, place),
            HandleKind::Win => left_there::<Win>(seen, place),
            HandleKind::File => left_there::<File>(seen, place),
            _ => None,
        };
        let Some(handle) = handle else { continue };
        seen.checks.objects.0.borrow_mut().insert((kind.noun(), handle), seen.site());
    }
}

/// Returns the handle that a call has stored at an address.
pub fn left_there<H: Handle + Passed>(seen: &SeenCall, place: usize) -> Option<usize> {
    let call = seen.call();
    // SAFETY: the call has succeeded, and the standard requires that it has stored a handle there
    // for the parameters that are listed above.
    let place = unsafe { call.out(1, std::ptr::with_exposed_provenance_mut(place)) };
    let place: Out<'_, H> = place.ok()?;
    Some(place.value().raw())
}

/// Calls `show` for all existing objects, by kind.
fn each(library: &LibraryState, show: &mut dyn FnMut(&'static str, usize)) {
    let mut show = |kind: HandleKind, handle: usize| show(kind.noun(), handle);
    library.communicators.each(|handle, _| show(HandleKind::Comm, handle.raw()));
    library.datatypes.each(|handle, _| show(HandleKind::Datatype, handle.raw()));
    library.groups.each(|handle, _| show(HandleKind::Group, handle.raw()));
    library.infos.each(|handle, _| show(HandleKind::Info, handle.raw()));
    library.operations.each(|handle, _| show(HandleKind::Op, handle.raw()));
    library.windows.each(|handle, _| show(HandleKind::Win, handle.raw()));
    library.files.each(|handle, _| show(HandleKind::File, handle.raw()));
}

impl MadeObjects {
    /// The number of recorded objects, including those that are gone.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Removes the records of objects that are gone.
    pub fn purge(&self, library: &LibraryState) {
        let mut alive = HashSet::new();
        each(library, &mut |noun, handle| {
            alive.insert((noun, handle));
        });
        self.0.borrow_mut().retain(|object, _| alive.contains(object));
    }

    /// Reports the objects that exist at the end of the program.
    pub fn report_left(&self, checks: &Checks, library: &LibraryState) {
        let sites = self.0.borrow();
        let mut counts: HashMap<(&'static str, Rc<CallSite>), usize> = HashMap::new();
        each(library, &mut |noun, handle| {
            if let Some(site) = sites.get(&(noun, handle)) {
                *counts.entry((noun, Rc::clone(site))).or_default() += 1;
            }
        });
        for ((noun, site), count) in counts {
            let article = if noun.starts_with(['e', 'i', 'o']) { "an" } else { "a" };
            let objects = match count {
                1 => format!("{article} {noun} of {} was", site.function),
                _ => format!("{count} {noun}s of {} were", site.function),
            };
            let what =
                format!("rank {} calls MPI_Finalize, but {objects} never freed", checks.rank);
            let sites = vec![(checks.rank, (*site).clone())];
            checks.report_mistake(&Mistake { kind: MistakeKind::Object, what, sites });
        }
    }
}

/// Returns the window that a call names.
pub fn window_of(seen: &SeenCall) -> Option<KnownWindow> {
    let handle = seen.word("win")?;
    let handle = match seen.function() {
        "MPI_Win_free" => left_there::<Win>(seen, handle)?,
        _ => handle,
    };
    seen.call().window(1, Win::from_raw(handle)).ok()
}
