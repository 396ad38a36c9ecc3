//! Data representations for files that the program registers (section 14.5.3 of the standard).

use std::ffi::{c_int, c_void};
use std::fmt;
use std::rc::Rc;

use base::{Error, ErrorClass};
use datatype::Predefined;
use files::{FileData, Representation, UserRepresentation};
use memory::LentBuffer;

use crate::arguments::{Callback, null};
use crate::c::Datatype;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::{MPI_MAX_DATAREP_STRING, MPI_SUCCESS};
use crate::library::library;
use crate::predefined::handle_of_type;

use super::datatypes::handle_of;

/// `MPI_Datarep_extent_function`.
type ExtentInC = unsafe extern "C" fn(Datatype, *mut isize, *mut c_void) -> c_int;
/// `MPI_Datarep_conversion_function`.
type ConversionInC =
    unsafe extern "C" fn(*mut c_void, Datatype, c_int, *mut c_void, i64, *mut c_void) -> c_int;
/// `MPI_Datarep_conversion_function_c`.
type LargeConversionInC =
    unsafe extern "C" fn(*mut c_void, Datatype, i64, *mut c_void, i64, *mut c_void) -> c_int;

/// A registered representation.
struct RegisteredRepresentation {
    name: Box<[u8]>,
    read: Option<Conversion>,
    write: Option<Conversion>,
    extent: ExtentInC,
    state: usize,
}

#[derive(Clone, Copy)]
enum Conversion {
    Int(ConversionInC),
    Large(LargeConversionInC),
}

impl RegisteredRepresentation {
    fn convert(
        &self,
        conversion: Option<Conversion>,
        data: &FileData,
        count: usize,
        file: &LentBuffer,
    ) -> base::Result<()> {
        let Some(conversion) = conversion else {
            let length = file.len().min(data.memory.len());
            let mut bytes = vec![0; length];
            file.read(0, &mut bytes);
            data.memory.write(0, &bytes);
            return Ok(());
        };
        let (user, state) = (data.address as *mut c_void, self.state as *mut c_void);
        let bytes = file.address() as *mut c_void;
        // SAFETY: data are converted inside calls.
        let library = unsafe { library() };
        let handle = handle_of(library, &data.datatype);
        let code = match conversion {
            // SAFETY: `Callback` holds the program's function of this type. The elements lie where
            // the program specified, and `file` has room for their representation in the file.
            Conversion::Large(function) => unsafe {
                function(user, handle, count as i64, bytes, 0, state)
            },
            Conversion::Int(function) => {
                let count = c_int::try_from(count).map_err(|_| {
                    let what = "the representation was registered without large counts";
                    Error::new(ErrorClass::Count, what)
                })?;
                // SAFETY: `Callback` holds the program's function of this type. The elements lie
                // where the program specified, and `file` has room for their representation in the
                // file.
                unsafe { function(user, handle, count, bytes, 0, state) }
            }
        };
        if data.datatype.predefined().is_none() {
            drop(library.datatypes.forget(handle));
        }
        self.outcome(code)
    }

    fn outcome(&self, code: c_int) -> base::Result<()> {
        if code == MPI_SUCCESS {
            return Ok(());
        }
        let name = String::from_utf8_lossy(&self.name);
        let detail =
            format!("a function of the representation \"{name}\" returned the error code {code}");
        Err(Error::new(ErrorClass::Conversion, detail))
    }
}

impl UserRepresentation for RegisteredRepresentation {
    fn name(&self) -> &[u8] {
        &self.name
    }

    fn extent(&self, named: Predefined) -> base::Result<usize> {
        let mut extent = 0_isize;
        let state = self.state as *mut c_void;
        // SAFETY: `Callback` holds the program's function of this type; the result is a local
        // variable.
        let code = unsafe { (self.extent)(handle_of_type(named), &raw mut extent, state) };
        self.outcome(code)?;
        usize::try_from(extent).map_err(|_| {
            let detail = format!("the extent of {} in the file is negative", named.name());
            Error::new(ErrorClass::Conversion, detail)
        })
    }

    fn converts(&self) -> bool {
        self.read.is_some() || self.write.is_some()
    }

    fn read(&self, data: &FileData, count: usize, file: &LentBuffer) -> base::Result<()> {
        self.convert(self.read, data, count, file)
    }

    fn write(&self, data: &FileData, file: &LentBuffer) -> base::Result<()> {
        if self.write.is_some() {
            return self.convert(self.write, data, data.count, file);
        }
        let mut bytes = vec![0; file.len().min(data.memory.len())];
        data.memory.read(0, &mut bytes);
        file.write(0, &bytes);
        Ok(())
    }
}

impl fmt::Debug for RegisteredRepresentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegisteredRepresentation({})", String::from_utf8_lossy(&self.name))
    }
}

pub fn register_datarep(
    call: &Call,
    datarep: &[u8],
    read: Callback<ConversionInC>,
    write: Callback<ConversionInC>,
    extent: Callback<ExtentInC>,
    state: usize,
) -> CallOutcome<()> {
    let read = read.function().map(Conversion::Int);
    let write = write.function().map(Conversion::Int);
    register(call, datarep, read, write, extent, state)
}

pub fn register_datarep_c(
    call: &Call,
    datarep: &[u8],
    read: Callback<LargeConversionInC>,
    write: Callback<LargeConversionInC>,
    extent: Callback<ExtentInC>,
    state: usize,
) -> CallOutcome<()> {
    let read = read.function().map(Conversion::Large);
    let write = write.function().map(Conversion::Large);
    register(call, datarep, read, write, extent, state)
}

fn register(
    call: &Call,
    name: &[u8],
    read: Option<Conversion>,
    write: Option<Conversion>,
    extent: Callback<ExtentInC>,
    state: usize,
) -> CallOutcome<()> {
    let extent = extent.function().ok_or_else(|| null(4))?;
    if name.is_empty() || name.len() >= MPI_MAX_DATAREP_STRING {
        let detail =
            format!("has {} bytes, but must have 1 to {}", name.len(), MPI_MAX_DATAREP_STRING - 1);
        return Err(Failure::argument(1, ErrorClass::Arg, detail));
    }
    let mut registered = call.library.representations.borrow_mut();
    let is_known = Representation::named(name).is_some()
        || registered.iter().any(|other| other.name() == name);
    if is_known {
        let detail = format!("is \"{}\", which is defined already", String::from_utf8_lossy(name));
        return Err(Failure::argument(1, ErrorClass::DupDatarep, detail));
    }
    registered.push(Rc::new(RegisteredRepresentation {
        name: name.into(),
        read,
        write,
        extent,
        state,
    }));
    Ok(())
}
