//! The geometry of a type map: size, bounds and alignment (section 5.1).

use base::{Error, ErrorClass};

use crate::predefined::{Predefined, ValueKind};

/// The sizes and bounds of a type map, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// The number of data bytes.
    pub size: usize,
    /// The number of basic elements.
    pub elements: usize,
    /// The lowest and one past the highest byte of data; `None` if there is no data.
    pub data: Option<(isize, isize)>,
    /// The bounds that follow from the data and the padding of structures; `markers` override them.
    pub span: Option<(isize, isize)>,
    /// The bounds that `MPI_Type_create_resized` set, here or in a part.
    pub markers: Option<(isize, isize)>,
    /// The largest alignment of a basic element; 1 if there is none.
    pub alignment: usize,
    pub content: BasicElements,
    /// Like `content`, but a pair counts as one element, as in reduction operations.
    pub operands: BasicElements,
}

/// The basic elements of a type map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BasicElements {
    None,
    Only(Predefined),
    Mixed,
}

impl BasicElements {
    /// Returns the type of all basic elements, if they have one type.
    pub fn only(self) -> Option<Predefined> {
        match self {
            BasicElements::Only(named) => Some(named),
            BasicElements::None | BasicElements::Mixed => None,
        }
    }

    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (BasicElements::None, content) | (content, BasicElements::None) => content,
            (one, other) if one == other => one,
            _ => BasicElements::Mixed,
        }
    }
}

impl Geometry {
    pub fn of_named(named: Predefined) -> Self {
        let (elements, content, end) = match named.kind() {
            ValueKind::Pair(value, index) => {
                let content = BasicElements::Only(value).and(BasicElements::Only(index));
                (2, content, named.index_displacement() + index.size())
            }
            _ => (1, BasicElements::Only(named), named.size()),
        };
        Self {
            size: named.size(),
            elements,
            data: Some((0, end as isize)),
            span: Some((0, end.next_multiple_of(named.alignment()) as isize)),
            markers: None,
            alignment: named.alignment(),
            content,
            operands: BasicElements::Only(named),
        }
    }

    /// Returns the lower and the upper bound, which determine the distance of elements.
    pub fn bounds(&self) -> (isize, isize) {
        self.markers.or(self.span).unwrap_or((0, 0))
    }

    pub fn extent(&self) -> isize {
        let (low, high) = self.bounds();
        high - low
    }
}

/// Returns the error for a datatype whose bytes cannot be counted or addressed with 63 bits.
#[cold]
pub(crate) fn too_large() -> Error {
    Error::new(
        ErrorClass::Arg,
        "the new datatype's size or bounds exceed 2^63-1 bytes; use smaller counts, strides or \
         displacements",
    )
}
