//! Opening, viewing and synchronizing files (chapter 14 of the standard).

use std::ffi::{c_char, c_int};
use std::rc::Rc;

use base::ErrorClass;
use files::{AccessMode, AccessRights, File, Representation, SeekOrigin, ViewDisplacement};
use mpi::info::Info;

use crate::arguments::{
    Integer, KnownCommunicator, KnownDatatype, KnownFile, NamedObject, Out, OutInteger, OutText,
    TypeArgument, invalid,
};
use crate::c::{self, Comm, Datatype};
use crate::call::{Call, VisitingCall};
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::*;
use crate::handler_owner::HandlerOwner;

use super::datatypes::handle_of;
use super::groups;

/// A file of the program, or `MPI_FILE_NULL`, whose error handler is inherited by new files.
pub type AnyFile = Option<KnownFile>;

/// The flags of a mode that may be combined with any access right.
const WORDS: [c_int; 6] = [
    MPI_MODE_CREATE,
    MPI_MODE_EXCL,
    MPI_MODE_DELETE_ON_CLOSE,
    MPI_MODE_UNIQUE_OPEN,
    MPI_MODE_SEQUENTIAL,
    MPI_MODE_APPEND,
];

impl VisitingCall<'_> {
    /// Returns the communicator on which a file is opened. Errors go to the error handler of new
    /// files (section 14.7).
    pub fn file_communicator(
        &self,
        position: usize,
        handle: Comm,
    ) -> CallOutcome<KnownCommunicator<'_>> {
        self.set_handler_owner(HandlerOwner::File(MPI_FILE_NULL));
        self.communicator(position, handle)
    }
}

impl Call {
    /// Returns the file with this handle. Errors of the call go to its error handler.
    pub fn file(&self, position: usize, handle: c::File) -> CallOutcome<KnownFile> {
        let found = self.library.files.get(handle);
        let owner = if found.is_some() { handle } else { MPI_FILE_NULL };
        self.set_handler_owner(HandlerOwner::File(owner));
        let object = found.ok_or_else(|| invalid(position, handle))?;
        Ok(NamedObject { handle, object })
    }

    /// Returns the file with this handle, or `None` for `MPI_FILE_NULL`. Errors of the call go to
    /// its error handler.
    pub fn any_file(&self, position: usize, handle: c::File) -> CallOutcome<AnyFile> {
        if handle != MPI_FILE_NULL {
            return self.file(position, handle).map(Some);
        }
        self.set_handler_owner(HandlerOwner::File(MPI_FILE_NULL));
        Ok(None)
    }

    /// Returns the name of a file that is not open. Errors go to the error handler of new files
    /// (section 14.7).
    ///
    /// # Safety
    /// As for [`Call::text`].
    pub unsafe fn file_name(&self, position: usize, text: *const c_char) -> CallOutcome<&[u8]> {
        self.set_handler_owner(HandlerOwner::File(MPI_FILE_NULL));
        // SAFETY: the caller fulfils the safety requirements.
        let name = unsafe { self.text(position, text) }?;
        let name = files::without_file_system(name);
        if name.is_empty() {
            return Err(Failure::argument(position, ErrorClass::BadFile, "is empty"));
        }
        Ok(name)
    }

    /// Returns the size in bytes that a file is set to.
    pub fn file_size(&self, position: usize, size: impl Integer) -> CallOutcome<u64> {
        u64::try_from(size.wide()).map_err(|_| {
            let detail = format!("is {}, but must not be negative", size.wide());
            Failure::argument(position, ErrorClass::Arg, detail)
        })
    }

    /// Returns how a file is opened.
    pub fn access_mode(&self, position: usize, amode: c_int) -> CallOutcome<AccessMode> {
        let rights = match amode & (MPI_MODE_RDONLY | MPI_MODE_WRONLY | MPI_MODE_RDWR) {
            MPI_MODE_RDONLY => AccessRights::Read,
            MPI_MODE_WRONLY => AccessRights::Write,
            MPI_MODE_RDWR => AccessRights::Both,
            _ => {
                let detail = format!(
                    "is {amode}, which must have one of MPI_MODE_RDONLY, MPI_MODE_WRONLY and \
                     MPI_MODE_RDWR"
                );
                return Err(Failure::argument(position, ErrorClass::Amode, detail));
            }
        };
        let known = WORDS.iter().fold(number_of_rights(rights), |sum, word| sum | word);
        if amode & !known != 0 {
            let detail = format!(
                "is {amode}, which has bits other than the constants MPI_MODE_... of files"
            );
            return Err(Failure::argument(position, ErrorClass::Amode, detail));
        }
        let has = |word: c_int| amode & word != 0;
        Ok(AccessMode {
            rights,
            create: has(MPI_MODE_CREATE),
            exclusive: has(MPI_MODE_EXCL),
            delete_on_close: has(MPI_MODE_DELETE_ON_CLOSE),
            unique: has(MPI_MODE_UNIQUE_OPEN),
            sequential: has(MPI_MODE_SEQUENTIAL),
            append: has(MPI_MODE_APPEND),
        })
    }
}

fn number_of_rights(rights: AccessRights) -> c_int {
    match rights {
        AccessRights::Read => MPI_MODE_RDONLY,
        AccessRights::Write => MPI_MODE_WRONLY,
        AccessRights::Both => MPI_MODE_RDWR,
    }
}

fn number_of_mode(mode: AccessMode) -> c_int {
    let AccessMode { create, exclusive, delete_on_close, unique, sequential, append, .. } = mode;
    let given = [create, exclusive, delete_on_close, unique, sequential, append];
    let words = WORDS.iter().zip(given).filter(|(_, given)| *given).map(|(word, _)| *word);
    words.fold(number_of_rights(mode.rights), |sum, word| sum | word)
}

pub fn file_open(
    call: &Call,
    comm: KnownCommunicator,
    filename: &[u8],
    amode: AccessMode,
    info: Option<Rc<Info>>,
    fh: Out<c::File>,
) -> CallOutcome<()> {
    let (process, works) = (&call.library.process, &call.library.file_works);
    let file = File::open(process, works, &comm, filename, amode, info.as_deref())?;
    file.set_error_handler(Rc::clone(&call.library.file_error_handler.borrow()));
    fh.set(call.library.files.insert(file));
    Ok(())
}

pub fn file_close(call: &Call, fh: Out<c::File>) -> CallOutcome<()> {
    let handle = fh.value();
    let known = call.file(1, handle)?;
    known.close(&call.library.process)?;
    drop(call.library.files.forget(handle));
    fh.set(MPI_FILE_NULL);
    Ok(())
}

pub fn file_delete(_call: &Call, filename: &[u8], _info: Option<Rc<Info>>) -> CallOutcome<()> {
    Ok(files::delete(filename)?)
}

pub fn file_set_size(call: &Call, fh: KnownFile, size: u64) -> CallOutcome<()> {
    Ok(fh.set_size(&call.library.process, size)?)
}

pub fn file_preallocate(call: &Call, fh: KnownFile, size: u64) -> CallOutcome<()> {
    Ok(fh.preallocate(&call.library.process, size)?)
}

pub fn file_get_size(_call: &Call, fh: KnownFile, size: Out<i64>) -> CallOutcome<()> {
    size.set(fh.size()? as i64);
    Ok(())
}

pub fn file_get_group(call: &Call, fh: KnownFile, group: Out<c::Group>) -> CallOutcome<()> {
    groups::hand_out(call, Rc::clone(fh.group()), group);
    Ok(())
}

pub fn file_get_amode(_call: &Call, fh: KnownFile, amode: Out<c_int>) -> CallOutcome<()> {
    amode.set(number_of_mode(fh.mode()));
    Ok(())
}

pub fn file_set_info(call: &Call, fh: KnownFile, info: Option<Rc<Info>>) -> CallOutcome<()> {
    Ok(fh.set_info(&call.library.process, &info.unwrap_or_default())?)
}

pub fn file_get_info(call: &Call, fh: KnownFile, info_used: Out<c::Info>) -> CallOutcome<()> {
    info_used.set(call.library.infos.insert(fh.info()));
    Ok(())
}

pub fn file_set_view(
    call: &Call,
    fh: KnownFile,
    disp: i64,
    etype: TypeArgument,
    filetype: TypeArgument,
    datarep: &[u8],
    info: Option<Rc<Info>>,
) -> CallOutcome<()> {
    let displacement = match disp {
        MPI_DISPLACEMENT_CURRENT => ViewDisplacement::Current,
        _ => ViewDisplacement::Bytes(u64::try_from(disp).map_err(|_| {
            let detail = format!("is {disp}, but must not be negative");
            Failure::argument(2, ErrorClass::Arg, detail)
        })?),
    };
    let (etype, filetype) = (etype.committed(call)?, filetype.committed(call)?);
    let representation = representation_of(call, 5, datarep)?;
    let process = &call.library.process;
    fh.set_view(process, displacement, &etype, &filetype, representation, info.as_deref())?;
    Ok(())
}

fn representation_of(call: &Call, position: usize, name: &[u8]) -> CallOutcome<Representation> {
    if let Some(representation) = Representation::named(name) {
        return Ok(representation);
    }
    let registered = call.library.representations.borrow();
    match registered.iter().find(|user| user.name() == name) {
        Some(user) => Ok(Representation::User(Rc::clone(user))),
        None => {
            let detail = format!(
                "is \"{}\", which is neither \"native\", \"internal\" or \"external32\" nor \
                 registered with MPI_Register_datarep",
                String::from_utf8_lossy(name)
            );
            Err(Failure::argument(position, ErrorClass::UnsupportedDatarep, detail))
        }
    }
}

pub fn file_get_view(
    call: &Call,
    fh: KnownFile,
    disp: Out<i64>,
    etype: Out<Datatype>,
    filetype: Out<Datatype>,
    datarep: OutText,
) -> CallOutcome<()> {
    let view = fh.view();
    disp.set(view.displacement as i64);
    etype.set(handle_of(call.library, &view.etype));
    filetype.set(handle_of(call.library, &view.filetype));
    datarep.write(view.representation.name());
    Ok(())
}

pub fn file_get_type_extent(
    _call: &Call,
    fh: KnownFile,
    datatype: KnownDatatype,
    extent: OutInteger,
) -> CallOutcome<()> {
    extent.set(fh.extent_of(&datatype)? as i64)
}

pub fn file_set_atomicity(call: &Call, fh: KnownFile, flag: c_int) -> CallOutcome<()> {
    Ok(fh.set_atomic(&call.library.process, flag != 0)?)
}

pub fn file_get_atomicity(_call: &Call, fh: KnownFile, flag: Out<c_int>) -> CallOutcome<()> {
    flag.set_flag(fh.is_atomic());
    Ok(())
}

pub fn file_sync(call: &Call, fh: KnownFile) -> CallOutcome<()> {
    Ok(fh.sync(&call.library.process)?)
}

fn origin_of(position: usize, whence: c_int) -> CallOutcome<SeekOrigin> {
    match whence {
        MPI_SEEK_SET => Ok(SeekOrigin::Beginning),
        MPI_SEEK_CUR => Ok(SeekOrigin::Current),
        MPI_SEEK_END => Ok(SeekOrigin::End),
        _ => {
            let detail =
                format!("is {whence}, but must be MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END");
            Err(Failure::argument(position, ErrorClass::Arg, detail))
        }
    }
}

pub fn file_seek(_call: &Call, fh: KnownFile, offset: i64, whence: c_int) -> CallOutcome<()> {
    Ok(fh.seek(offset, origin_of(3, whence)?)?)
}

pub fn file_seek_shared(call: &Call, fh: KnownFile, offset: i64, whence: c_int) -> CallOutcome<()> {
    Ok(fh.seek_shared(&call.library.process, offset, origin_of(3, whence)?)?)
}

pub fn file_get_position(_call: &Call, fh: KnownFile, offset: Out<i64>) -> CallOutcome<()> {
    offset.set(fh.position()? as i64);
    Ok(())
}

pub fn file_get_position_shared(call: &Call, fh: KnownFile, offset: Out<i64>) -> CallOutcome<()> {
    offset.set(fh.shared_position(&call.library.process)?);
    Ok(())
}

pub fn file_get_byte_offset(
    _call: &Call,
    fh: KnownFile,
    offset: i64,
    disp: Out<i64>,
) -> CallOutcome<()> {
    disp.set(fh.byte_offset(offset)? as i64);
    Ok(())
}
