//! Envelope and contents: the constructor of a datatype and its arguments, as returned to programs
//! (section 5.1.13).

use std::sync::Arc;

use base::{Error, ErrorClass, Result};

use crate::arguments::{
    ArgumentForm, ArrayOrder, DistributedDimension, Distribution, DistributionArgument,
    SubarrayDimension,
};
use crate::datatype::{Construction, Datatype};

/// The constructor of a datatype (`MPI_COMBINER_…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Combiner {
    Named,
    Duplicate,
    Contiguous,
    Vector,
    Hvector,
    Indexed,
    Hindexed,
    IndexedBlock,
    HindexedBlock,
    Struct,
    Subarray,
    Darray,
    FortranReal,
    FortranComplex,
    FortranInteger,
    Resized,
}

/// The number of arguments of each kind in [`Contents`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentsCounts {
    /// The constructor.
    pub combiner: Combiner,
    /// The number of arguments of type `int`.
    pub integers: usize,
    /// The number of arguments of type `MPI_Aint`.
    pub addresses: usize,
    /// The number of arguments of type `MPI_Count`. If there are any, the calls without `_c` cannot
    /// return the datatype's envelope and contents.
    pub large_counts: usize,
    /// The number of datatypes.
    pub datatypes: usize,
}

/// An argument that the C interface returns as an `int`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentInteger {
    /// A plain number.
    Value(i64),
    /// `MPI_ORDER_…`.
    Order(ArrayOrder),
    /// `MPI_DISTRIBUTE_…`.
    Distribution(Distribution),
    /// `MPI_DISTRIBUTE_DFLT_DARG`.
    DefaultArgument,
    /// `MPI_UNDEFINED`.
    Undefined,
}

/// The arguments of a constructor, in the order of the standard.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Arguments of type `int`.
    pub integers: Vec<ContentInteger>,
    /// Arguments of type `MPI_Aint`, in bytes.
    pub addresses: Vec<i64>,
    /// Arguments of type `MPI_Count`.
    pub large_counts: Vec<i64>,
    /// The datatypes.
    pub datatypes: Vec<Arc<Datatype>>,
}

impl Datatype {
    /// Returns the constructor that created it.
    pub fn combiner(&self) -> Combiner {
        match self.construction() {
            Construction::Named(_) => Combiner::Named,
            Construction::Duplicate(_) => Combiner::Duplicate,
            Construction::Contiguous { .. } => Combiner::Contiguous,
            Construction::Vector { .. } => Combiner::Vector,
            Construction::Hvector { .. } => Combiner::Hvector,
            Construction::Indexed { .. } => Combiner::Indexed,
            Construction::Hindexed { .. } => Combiner::Hindexed,
            Construction::IndexedBlock { .. } => Combiner::IndexedBlock,
            Construction::HindexedBlock { .. } => Combiner::HindexedBlock,
            Construction::Struct(_) => Combiner::Struct,
            Construction::Subarray { .. } => Combiner::Subarray,
            Construction::Darray { .. } => Combiner::Darray,
            Construction::FortranReal { .. } => Combiner::FortranReal,
            Construction::FortranComplex { .. } => Combiner::FortranComplex,
            Construction::FortranInteger { .. } => Combiner::FortranInteger,
            Construction::Resized { .. } => Combiner::Resized,
        }
    }

    /// Returns the constructor and the number of its arguments of each kind.
    pub fn envelope(&self) -> ContentsCounts {
        let contents = list(self);
        ContentsCounts {
            combiner: self.combiner(),
            integers: contents.integers.len(),
            addresses: contents.addresses.len(),
            large_counts: contents.large_counts.len(),
            datatypes: contents.datatypes.len(),
        }
    }

    /// Returns the arguments of the constructor.
    ///
    /// # Errors
    /// Class `Type` for a named datatype, which has none.
    pub fn contents(&self) -> Result<Contents> {
        if let Construction::Named(named) = self.construction() {
            let detail = format!("{} is predefined and has no contents", named.name());
            return Err(Error::new(ErrorClass::Type, detail));
        }
        Ok(list(self))
    }
}

fn list(datatype: &Datatype) -> Contents {
    let mut list = ArgumentLists { form: datatype.form(), contents: Contents::default() };
    match datatype.construction() {
        Construction::Named(_) => {}
        Construction::Duplicate(of) => list.datatype(of),
        Construction::Contiguous { count, of } => {
            list.counts(&[*count]);
            list.datatype(of);
        }
        Construction::Vector { count, block_length, stride, of } => {
            list.counts(&[*count, *block_length, *stride]);
            list.datatype(of);
        }
        Construction::Hvector { count, block_length, stride, of } => {
            list.counts(&[*count, *block_length]);
            list.addresses(&[*stride]);
            list.datatype(of);
        }
        Construction::Indexed { block_lengths, displacements, of } => {
            list.counts(&[block_lengths.len() as i64]);
            list.counts(block_lengths);
            list.counts(displacements);
            list.datatype(of);
        }
        Construction::Hindexed { block_lengths, displacements, of } => {
            list.counts(&[block_lengths.len() as i64]);
            list.counts(block_lengths);
            list.addresses(displacements);
            list.datatype(of);
        }
        Construction::IndexedBlock { block_length, displacements, of } => {
            list.counts(&[displacements.len() as i64, *block_length]);
            list.counts(displacements);
            list.datatype(of);
        }
        Construction::HindexedBlock { block_length, displacements, of } => {
            list.counts(&[displacements.len() as i64, *block_length]);
            list.addresses(displacements);
            list.datatype(of);
        }
        Construction::Struct(blocks) => {
            list.counts(&[blocks.len() as i64]);
            blocks.iter().for_each(|block| list.counts(&[block.length]));
            blocks.iter().for_each(|block| list.addresses(&[block.displacement]));
            blocks.iter().for_each(|block| list.datatype(&block.of));
        }
        Construction::Subarray { dimensions, order, of } => {
            list.subarray(dimensions, *order);
            list.datatype(of);
        }
        Construction::Darray { size, rank, dimensions, order, of } => {
            list.darray(*size, *rank, dimensions, *order);
            list.datatype(of);
        }
        Construction::Resized { lower_bound, extent, of } => {
            list.addresses(&[*lower_bound, *extent]);
            list.datatype(of);
        }
        Construction::FortranReal { precision, range }
        | Construction::FortranComplex { precision, range } => {
            list.integer(optional(*precision));
            list.integer(optional(*range));
        }
        Construction::FortranInteger { range } => list.integer(optional(Some(*range))),
    }
    list.contents
}

/// Sorts arguments into the lists that the form of the call requires.
struct ArgumentLists {
    form: ArgumentForm,
    contents: Contents,
}

impl ArgumentLists {
    /// Adds arguments that are `int` in one form, and `MPI_Count` in the other.
    fn counts(&mut self, values: &[i64]) {
        match self.form {
            ArgumentForm::Int => {
                let values = values.iter().map(|&value| ContentInteger::Value(value));
                self.contents.integers.extend(values);
            }
            ArgumentForm::Large => self.contents.large_counts.extend_from_slice(values),
        }
    }

    /// Adds arguments that are `MPI_Aint` in one form, and `MPI_Count` in the other.
    fn addresses(&mut self, values: &[i64]) {
        match self.form {
            ArgumentForm::Int => self.contents.addresses.extend_from_slice(values),
            ArgumentForm::Large => self.contents.large_counts.extend_from_slice(values),
        }
    }

    /// Adds an argument that is `int` in both forms.
    fn integer(&mut self, value: ContentInteger) {
        self.contents.integers.push(value);
    }

    fn datatype(&mut self, datatype: &Arc<Datatype>) {
        self.contents.datatypes.push(Arc::clone(datatype));
    }

    fn subarray(&mut self, dimensions: &[SubarrayDimension], order: ArrayOrder) {
        self.integer(ContentInteger::Value(dimensions.len() as i64));
        dimensions.iter().for_each(|one| self.counts(&[one.size]));
        dimensions.iter().for_each(|one| self.counts(&[one.subsize]));
        dimensions.iter().for_each(|one| self.counts(&[one.start]));
        self.integer(ContentInteger::Order(order));
    }

    fn darray(
        &mut self,
        size: i64,
        rank: i64,
        dimensions: &[DistributedDimension],
        order: ArrayOrder,
    ) {
        for value in [size, rank, dimensions.len() as i64] {
            self.integer(ContentInteger::Value(value));
        }
        dimensions.iter().for_each(|one| self.counts(&[one.global_size]));
        for one in dimensions {
            self.integer(ContentInteger::Distribution(one.distribution));
        }
        for one in dimensions {
            self.integer(match one.argument {
                DistributionArgument::Default => ContentInteger::DefaultArgument,
                DistributionArgument::Size(size) => ContentInteger::Value(size),
            });
        }
        for one in dimensions {
            self.integer(ContentInteger::Value(one.processes));
        }
        self.integer(ContentInteger::Order(order));
    }
}

fn optional(value: Option<i32>) -> ContentInteger {
    value.map_or(ContentInteger::Undefined, |value| ContentInteger::Value(i64::from(value)))
}
