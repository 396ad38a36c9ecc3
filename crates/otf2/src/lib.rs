//! Writes archives of OTF2, the format of Score-P, Scalasca and Vampir, by its library, which is
//! loaded at run time: only `combray trace --to otf2` needs it.
//!
//! The declarations match versions 2 and 3 of the library. Some functions of version 3 have one
//! parameter more, behind the others; version 2 ignores it.

mod declarations;

use std::ffi::{CString, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use sys::library::LoadedLibrary;
use traces::export::{Otf2Archive, Otf2Event, Otf2Location};

use declarations::{Archive, FlushCallbacks, GlobalDefinitions, Otf2Functions, SUCCESS};

/// The names of the library: that of OTF2 itself, versions 3 and 2, and that of Debian.
const LIBRARIES: [&str; 4] =
    ["libotf2.so.10", "libopen-trace-format2.so.10", "libotf2.so.9", "libotf2.so"];

/// The name of the archive: the file that tools open is `traces.otf2` in its folder.
pub const ARCHIVE_NAME: &str = "traces";

/// Why an archive was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otf2Error(String);

impl fmt::Display for Otf2Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Otf2Error {}

/// The library.
pub struct Otf2Library {
    functions: Otf2Functions,
}

impl fmt::Debug for Otf2Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Otf2Library")
    }
}

impl Otf2Library {
    /// Loads the library where the dynamic loader finds it.
    ///
    /// # Errors
    /// It is not installed, cannot be loaded, or lacks a function.
    pub fn load() -> Result<Self, Otf2Error> {
        let library = Self::open()?;
        // SAFETY: a library of this name has these functions with these types.
        let functions = unsafe { Otf2Functions::of(&library) };
        let functions =
            functions.map_err(|name| Otf2Error(format!("the library of OTF2 has no {name}")))?;
        Ok(Self { functions })
    }

    /// Opens the first of the libraries that can be loaded.
    fn open() -> Result<LoadedLibrary, Otf2Error> {
        let mut reasons = Vec::new();
        for name in LIBRARIES {
            // SAFETY: libotf2 does nothing when it is loaded.
            match unsafe { LoadedLibrary::open(Path::new(name)) } {
                Ok(library) => return Ok(library),
                Err(reason) => reasons.push(reason.to_string()),
            }
        }
        Err(Otf2Error(format!(
            "the library of OTF2 cannot be loaded: {}. Debian has it in the packages otf2-tools \
             and libotf2-trace-dev; LD_LIBRARY_PATH names the folder of another installation",
            reasons.join("; ")
        )))
    }

    /// Writes an archive into a folder, which it creates.
    ///
    /// # Errors
    /// The library's: in general, the folder cannot be created or has an archive.
    pub fn write(&self, folder: &Path, archive: &Otf2Archive) -> Result<(), Otf2Error> {
        let path = CString::new(folder.as_os_str().as_bytes())
            .map_err(|_| Otf2Error("the path has a zero byte".to_owned()))?;
        let name = CString::new(ARCHIVE_NAME).unwrap_or_default();
        const WRITE: u8 = 0;
        const POSIX: u8 = 1;
        const UNCOMPRESSED: u8 = 1;
        let functions = &self.functions;
        // SAFETY: both texts end with a zero byte; the sizes of the chunks are allowed ones.
        let handle = unsafe {
            (functions.open)(
                path.as_ptr(),
                name.as_ptr(),
                WRITE,
                EVENT_CHUNK_BYTES,
                DEFINITION_CHUNK_BYTES,
                POSIX,
                UNCOMPRESSED,
            )
        };
        if handle.is_null() {
            return Err(Otf2Error("the library of OTF2 cannot create the archive".to_owned()));
        }
        let writer = ArchiveWriter { functions, handle, failure: None };
        writer.write(archive)
    }
}

/// The sizes of the chunks in which the library writes.
const EVENT_CHUNK_BYTES: u64 = 1 << 20;
const DEFINITION_CHUNK_BYTES: u64 = 4 << 20;

/// Nanoseconds in a second.
const RESOLUTION: u64 = 1_000_000_000;

/// The number that stands for nothing.
const UNDEFINED: u32 = u32::MAX;

/// Writes one archive.
struct ArchiveWriter<'a> {
    functions: &'a Otf2Functions,
    handle: *mut Archive,
    /// The first function that failed, with its error; a function that returns nothing has none.
    failure: Option<(&'static str, Option<i32>)>,
}

/// `OTF2_PreFlushCallback`: full chunks are written to the file.
extern "C" fn flush(_: *mut c_void, _: u8, _: u64, _: *mut c_void, _: bool) -> u8 {
    const FLUSH: u8 = 1;
    FLUSH
}

impl ArchiveWriter<'_> {
    fn check(&mut self, name: &'static str, code: i32) {
        if code != SUCCESS && self.failure.is_none() {
            self.failure = Some((name, Some(code)));
        }
    }

    /// Notes that a function has returned null.
    fn fail(&mut self, name: &'static str) {
        self.failure.get_or_insert((name, None));
    }

    fn write(mut self, archive: &Otf2Archive) -> Result<(), Otf2Error> {
        static CALLBACKS: FlushCallbacks = FlushCallbacks { before: flush, after: None };
        let (functions, handle) = (self.functions, self.handle);
        // SAFETY: the archive is open, and the callbacks live as long as the program.
        unsafe {
            let code = (functions.set_flush_callbacks)(handle, &CALLBACKS, ptr::null_mut());
            self.check("OTF2_Archive_SetFlushCallbacks", code);
            let code = (functions.set_serial)(handle);
            self.check("OTF2_Archive_SetSerialCollectiveCallbacks", code);
            let code = (functions.open_events)(handle);
            self.check("OTF2_Archive_OpenEvtFiles", code);
        }
        for (number, location) in (0..).zip(&archive.locations) {
            self.events(number, location);
        }
        // SAFETY: the archive is open, and all writers of events are closed.
        unsafe {
            let code = (functions.close_events)(handle);
            self.check("OTF2_Archive_CloseEvtFiles", code);
            let code = (functions.open_definitions)(handle);
            self.check("OTF2_Archive_OpenDefFiles", code);
        }
        for number in 0..archive.locations.len() as u64 {
            // SAFETY: the files of definitions are open; each location has one writer.
            unsafe {
                let writer = (functions.definition_writer)(handle, number);
                let code = (functions.close_definition_writer)(handle, writer);
                self.check("OTF2_Archive_CloseDefWriter", code);
            }
        }
        // SAFETY: the archive is open, and all writers of definitions are closed.
        let definitions = unsafe {
            let code = (functions.close_definitions)(handle);
            self.check("OTF2_Archive_CloseDefFiles", code);
            (functions.global_definitions)(handle)
        };
        if definitions.is_null() {
            self.fail("OTF2_Archive_GetGlobalDefWriter");
        } else {
            let mut global = Definitions { writer: &mut self, handle: definitions, strings: 0 };
            global.write(archive);
        }
        // SAFETY: the archive is open, and is not used afterwards.
        let code = unsafe { (functions.close)(handle) };
        self.check("OTF2_Archive_Close", code);
        match self.failure {
            None => Ok(()),
            Some((name, code)) => {
                let reason = match code {
                    Some(code) => functions.description(code),
                    None => "no result".to_owned(),
                };
                Err(Otf2Error(format!("the library of OTF2: {name}: {reason}")))
            }
        }
    }

    /// Writes the events of a location.
    fn events(&mut self, number: u64, location: &Otf2Location) {
        let functions = self.functions;
        // SAFETY: the files of events are open.
        let writer = unsafe { (functions.event_writer)(self.handle, number) };
        if writer.is_null() {
            self.fail("OTF2_Archive_GetEvtWriter");
            return;
        }
        let none = ptr::null_mut();
        for (time, event) in &location.events {
            let time = *time;
            // SAFETY: the writer is open; there are no attributes, and the arrays of a metric have
            // one element.
            let code = unsafe {
                match *event {
                    Otf2Event::Enter(region) => (functions.enter)(writer, none, time, region),
                    Otf2Event::Leave(region) => (functions.leave)(writer, none, time, region),
                    Otf2Event::Send(peer, communicator, tag, bytes) => {
                        (functions.send)(writer, none, time, peer, communicator, tag, bytes)
                    }
                    Otf2Event::Receive(peer, communicator, tag, bytes) => {
                        (functions.receive)(writer, none, time, peer, communicator, tag, bytes)
                    }
                    Otf2Event::OperationBegan => (functions.operation_begin)(writer, none, time),
                    Otf2Event::OperationEnded { operation, communicator, root, sent, received } => {
                        let root = root.unwrap_or(UNDEFINED);
                        (functions.operation_end)(
                            writer,
                            none,
                            time,
                            operation,
                            communicator,
                            root,
                            sent,
                            received,
                        )
                    }
                    Otf2Event::Counted(counter, value) => {
                        (functions.metric)(writer, none, time, counter, 1, &UNSIGNED, &value)
                    }
                }
            };
            self.check("OTF2_EvtWriter", code);
        }
        // SAFETY: the writer is open, and is not used afterwards.
        let code = unsafe { (functions.close_event_writer)(self.handle, writer) };
        self.check("OTF2_Archive_CloseEvtWriter", code);
    }
}

/// `OTF2_TYPE_UINT64`.
const UNSIGNED: u8 = 4;

/// The group of all ranks, to which the groups of communicators refer.
const ALL_RANKS: u32 = 0;

/// Writes the definitions.
struct Definitions<'a, 'b> {
    writer: &'a mut ArchiveWriter<'b>,
    handle: *mut GlobalDefinitions,
    /// The number of strings so far.
    strings: u32,
}

impl Definitions<'_, '_> {
    fn write(&mut self, archive: &Otf2Archive) {
        let functions = self.writer.functions;
        // SAFETY: the writer of definitions is open.
        let code = unsafe {
            (functions.clock)(self.handle, RESOLUTION, archive.begun, archive.lasted, u64::MAX)
        };
        self.writer.check("OTF2_GlobalDefWriter_WriteClockProperties", code);
        let empty = self.string("");
        self.system(archive, empty);
        for (number, region) in (0..).zip(&archive.regions) {
            let name = self.string(&region.name);
            // SAFETY: the writer of definitions is open.
            let code = unsafe {
                (functions.region)(
                    self.handle,
                    number,
                    name,
                    name,
                    empty,
                    region.role,
                    region.paradigm,
                    0,
                    empty,
                    0,
                    0,
                )
            };
            self.writer.check("OTF2_GlobalDefWriter_WriteRegion", code);
        }
        self.communicators(archive, empty);
        self.counters(archive, empty);
    }

    fn string(&mut self, text: &str) -> u32 {
        let number = self.strings;
        self.strings += 1;
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        let functions = self.writer.functions;
        // SAFETY: the writer of definitions is open, and the text ends with a zero byte.
        let code = unsafe { (functions.string)(self.handle, number, text.as_ptr()) };
        self.writer.check("OTF2_GlobalDefWriter_WriteString", code);
        number
    }

    /// Writes the hosts, ranks and locations.
    fn system(&mut self, archive: &Otf2Archive, empty: u32) {
        const PROCESS: u8 = 1;
        const CPU_THREAD: u8 = 1;
        let functions = self.writer.functions;
        let (machine, node) = (self.string("machine"), self.string("node"));
        let job = self.string("job");
        // SAFETY: the writer of definitions is open.
        let code = unsafe { (functions.tree_node)(self.handle, 0, job, machine, UNDEFINED) };
        self.writer.check("OTF2_GlobalDefWriter_WriteSystemTreeNode", code);
        for (number, host) in (1..).zip(&archive.hosts) {
            let name = self.string(host);
            // SAFETY: the writer of definitions is open.
            let code = unsafe { (functions.tree_node)(self.handle, number, name, node, 0) };
            self.writer.check("OTF2_GlobalDefWriter_WriteSystemTreeNode", code);
        }
        for (number, (name, host)) in (0..).zip(&archive.ranks) {
            let name = self.string(name);
            // SAFETY: the writer of definitions is open.
            let code = unsafe {
                (functions.location_group)(self.handle, number, name, PROCESS, host + 1, UNDEFINED)
            };
            self.writer.check("OTF2_GlobalDefWriter_WriteLocationGroup", code);
        }
        for (number, location) in (0..).zip(&archive.locations) {
            let name = if location.name.is_empty() { empty } else { self.string(&location.name) };
            let events = location.events.len() as u64;
            // SAFETY: the writer of definitions is open.
            let code = unsafe {
                (functions.location)(self.handle, number, name, CPU_THREAD, events, location.rank)
            };
            self.writer.check("OTF2_GlobalDefWriter_WriteLocation", code);
        }
    }

    fn communicators(&mut self, archive: &Otf2Archive, empty: u32) {
        /// `OTF2_GROUP_TYPE_COMM_LOCATIONS` and `OTF2_GROUP_TYPE_COMM_GROUP`.
        const LOCATIONS: u8 = 4;
        const GROUP: u8 = 5;
        // The first location of each rank is its first thread.
        let mut first = vec![None; archive.ranks.len()];
        for (number, location) in (0_u64..).zip(&archive.locations) {
            if let Some(place) = first.get_mut(location.rank as usize) {
                place.get_or_insert(number);
            }
        }
        let first: Vec<u64> = first.into_iter().map(Option::unwrap_or_default).collect();
        let name = self.string("all ranks");
        self.group(ALL_RANKS, name, LOCATIONS, &first);
        for (number, communicator) in (0..).zip(&archive.communicators) {
            let ranks: Vec<u64> = communicator.ranks.iter().map(|rank| u64::from(*rank)).collect();
            self.group(ALL_RANKS + 1 + number, empty, GROUP, &ranks);
            let name = self.string(&communicator.name);
            let functions = self.writer.functions;
            let group = ALL_RANKS + 1 + number;
            // SAFETY: the writer of definitions is open.
            let code =
                unsafe { (functions.communicator)(self.handle, number, name, group, UNDEFINED, 0) };
            self.writer.check("OTF2_GlobalDefWriter_WriteComm", code);
        }
    }

    fn group(&mut self, number: u32, name: u32, kind: u8, members: &[u64]) {
        const MPI: u8 = 4;
        let (functions, count) = (self.writer.functions, members.len() as u32);
        // SAFETY: the writer of definitions is open, and the array has so many members.
        let code = unsafe {
            (functions.group)(self.handle, number, name, kind, MPI, 0, count, members.as_ptr())
        };
        self.writer.check("OTF2_GlobalDefWriter_WriteGroup", code);
    }

    fn counters(&mut self, archive: &Otf2Archive, empty: u32) {
        const OTHER: u8 = 0;
        /// `OTF2_METRIC_ABSOLUTE_POINT`.
        const ABSOLUTE_POINT: u8 = 1 | 1 << 4;
        const DECIMAL: u8 = 1;
        /// `OTF2_METRIC_ASYNCHRONOUS`.
        const ASYNCHRONOUS: u8 = 2;
        const ABSTRACT: u8 = 1;
        let functions = self.writer.functions;
        for (number, counter) in (0_u32..).zip(&archive.counters) {
            let name = self.string(counter);
            // SAFETY: the writer of definitions is open; the class has one member.
            let (member, class) = unsafe {
                let member = (functions.metric_member)(
                    self.handle,
                    number,
                    name,
                    empty,
                    OTHER,
                    ABSOLUTE_POINT,
                    UNSIGNED,
                    DECIMAL,
                    0,
                    empty,
                );
                let class = (functions.metric_class)(
                    self.handle,
                    number,
                    1,
                    &number,
                    ASYNCHRONOUS,
                    ABSTRACT,
                );
                (member, class)
            };
            self.writer.check("OTF2_GlobalDefWriter_WriteMetricMember", member);
            self.writer.check("OTF2_GlobalDefWriter_WriteMetricClass", class);
        }
    }
}
