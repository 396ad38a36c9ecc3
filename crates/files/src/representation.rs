//! The representation of data in a file (section 14.5 of the MPI standard).

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use datatype::{ArgumentForm, Construction, Datatype, Predefined, StructBlock};
use memory::LentBuffer;

/// Elements in the memory of the program, which the file represents in another way.
#[derive(Debug)]
pub struct FileData {
    /// Their bytes.
    pub memory: LentBuffer,
    /// The address that the program passed.
    pub address: usize,
    /// Their datatype.
    pub datatype: Arc<Datatype>,
    /// Their number.
    pub count: usize,
}

/// A representation that the program registered (section 14.5.3).
pub trait UserRepresentation: fmt::Debug {
    /// Returns its name.
    fn name(&self) -> &[u8];

    /// Returns the size of an element in the file, in bytes.
    ///
    /// # Errors
    /// Those of the program.
    fn extent(&self, named: Predefined) -> Result<usize>;

    /// Whether elements are converted when they are read or written; if not, the file has them as
    /// memory does.
    fn converts(&self) -> bool;

    /// Converts `count` elements from their bytes in the file.
    ///
    /// # Errors
    /// Those of the program.
    fn read(&self, data: &FileData, count: usize, file: &LentBuffer) -> Result<()>;

    /// Converts elements to their bytes in the file.
    ///
    /// # Errors
    /// Those of the program.
    fn write(&self, data: &FileData, file: &LentBuffer) -> Result<()>;
}

/// The representation of data in a file.
#[derive(Clone, Debug)]
pub enum Representation {
    /// "native": as in memory.
    Native,
    /// "internal": as all processes of this library have it in memory.
    Internal,
    /// "external32": portable.
    External32,
    /// Defined by functions of the program.
    User(Rc<dyn UserRepresentation>),
}

impl Representation {
    /// Returns its name.
    pub fn name(&self) -> &[u8] {
        match self {
            Representation::Native => b"native",
            Representation::Internal => b"internal",
            Representation::External32 => b"external32",
            Representation::User(user) => user.name(),
        }
    }

    /// Returns the predefined representation with this name.
    pub fn named(name: &[u8]) -> Option<Self> {
        [Representation::Native, Representation::Internal, Representation::External32]
            .into_iter()
            .find(|one| one.name().eq_ignore_ascii_case(name))
    }

    /// Whether the file has data as memory does.
    pub(crate) fn is_as_in_memory(&self) -> bool {
        match self {
            Representation::Native | Representation::Internal => true,
            Representation::External32 => false,
            Representation::User(user) => !user.converts(),
        }
    }

    /// Whether functions of the program convert the data.
    pub(crate) fn calls_program(&self) -> bool {
        matches!(self, Representation::User(user) if user.converts())
    }

    /// Returns the size of an element in the file, in bytes.
    fn bytes_of(&self, named: Predefined) -> Result<usize> {
        match self {
            Representation::Native | Representation::Internal => Ok(named.size()),
            Representation::External32 => Ok(named.external32_size()),
            Representation::User(user) => user.extent(named),
        }
    }

    /// Returns a datatype with the sizes that elements have in the file; displacements in bytes are
    /// unchanged (section 14.5).
    ///
    /// # Errors
    /// Those of the program's functions.
    pub(crate) fn in_file(&self, datatype: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        match self {
            Representation::Native | Representation::Internal => Ok(Arc::clone(datatype)),
            _ => scaled(datatype, &|named| self.bytes_of(named)),
        }
    }

    /// Returns the extent of a datatype in the file (`MPI_File_get_type_extent`).
    ///
    /// # Errors
    /// Those of the program's functions.
    pub(crate) fn extent_of(&self, datatype: &Arc<Datatype>) -> Result<isize> {
        Ok(self.in_file(datatype)?.extent())
    }

    /// Returns the size of elements in the file, in bytes.
    ///
    /// # Errors
    /// `Count` if they are too many.
    fn size_of(&self, datatype: &Datatype, count: usize) -> Result<usize> {
        let mut bytes = Ok(Some(0_usize));
        datatype.basic_elements(1, &mut |named, elements| {
            bytes = self.bytes_of(named).map(|each| {
                let more = each.checked_mul(elements);
                bytes.as_ref().ok().copied().flatten()?.checked_add(more?)
            });
            matches!(bytes, Ok(Some(_)))
        });
        let size = bytes?.and_then(|bytes| bytes.checked_mul(count));
        size.ok_or_else(|| {
            let detail = format!("{count} elements take more than 2^63-1 bytes in the file");
            Error::new(ErrorClass::Count, detail)
        })
    }

    /// Allocates memory for elements in the representation of the file.
    ///
    /// # Errors
    /// `Count` if they are too many; those of the program's functions.
    pub(crate) fn room(&self, data: &FileData) -> Result<LentBuffer> {
        Ok(LentBuffer::zeroed(self.size_of(&data.datatype, data.count)?))
    }

    /// Converts elements to the representation of the file.
    ///
    /// # Errors
    /// `Conversion` if one has no representation; those of the program's functions.
    pub(crate) fn encoded(&self, data: &FileData) -> Result<LentBuffer> {
        let file = self.room(data)?;
        match self {
            Representation::User(user) => user.write(data, &file)?,
            _ => {
                let mut bytes = vec![0; file.len()];
                if let Some(from) = data.memory.program_buffer() {
                    data.datatype.pack_external32(data.count, from, &mut bytes, 0)?;
                }
                file.write(0, &bytes);
            }
        }
        Ok(file)
    }

    /// Converts the complete elements in the first `bytes` bytes that were read; returns their size
    /// in memory in bytes.
    ///
    /// # Errors
    /// Those of the program's functions.
    pub(crate) fn decode(&self, file: &LentBuffer, bytes: u64, data: &FileData) -> Result<u64> {
        let each = self.size_of(&data.datatype, 1)?;
        let count = (bytes as usize).checked_div(each).unwrap_or(data.count).min(data.count);
        match self {
            Representation::User(user) => user.read(data, count, file)?,
            _ => {
                let mut read = vec![0; count * each];
                file.read(0, &mut read);
                if let Some(into) = data.memory.program_buffer() {
                    data.datatype.unpack_external32(count, &read, 0, into)?;
                }
            }
        }
        Ok((count * data.datatype.size()) as u64)
    }
}

/// Returns a datatype in which each predefined one has another size.
fn scaled(
    datatype: &Arc<Datatype>,
    bytes_of: &dyn Fn(Predefined) -> Result<usize>,
) -> Result<Arc<Datatype>> {
    if let Some(named) = datatype.predefined() {
        let bytes = bytes_of(named)?;
        if bytes == named.size() && named.size() == named.extent() {
            return Ok(Arc::clone(datatype));
        }
        let of = Datatype::named(Predefined::Byte).borrowed();
        let construction = Construction::Contiguous { count: bytes as i64, of };
        return Datatype::create(construction, ArgumentForm::Int);
    }
    let mut construction = datatype.construction().clone();
    match &mut construction {
        Construction::Duplicate(of)
        | Construction::Contiguous { of, .. }
        | Construction::Vector { of, .. }
        | Construction::Hvector { of, .. }
        | Construction::Indexed { of, .. }
        | Construction::Hindexed { of, .. }
        | Construction::IndexedBlock { of, .. }
        | Construction::HindexedBlock { of, .. }
        | Construction::Subarray { of, .. }
        | Construction::Darray { of, .. }
        | Construction::Resized { of, .. } => *of = scaled(of, bytes_of)?.borrowed(),
        Construction::Struct(blocks) => {
            for StructBlock { of, .. } in blocks {
                *of = scaled(of, bytes_of)?.borrowed();
            }
        }
        _ => {}
    }
    Datatype::create(construction, datatype.form())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datatypes_have_the_sizes_of_the_file() {
        let external = Representation::named(b"External32").unwrap();
        let long = Datatype::named(Predefined::Long);
        assert_eq!(external.extent_of(long).unwrap(), 4);
        let of = long.borrowed();
        let vector = Construction::Vector { count: 3, block_length: 1, stride: 2, of };
        let vector = Datatype::create(vector, ArgumentForm::Int).unwrap();
        assert_eq!((vector.size(), vector.extent()), (24, 40));
        let there = external.in_file(&vector).unwrap();
        assert_eq!((there.size(), there.extent()), (12, 20));
        assert_eq!(external.size_of(&vector, 2).unwrap(), 24);
        assert!(Representation::named(b"unheard").is_none());
    }
}
