//! The datatype: its constructor, its geometry, and whether it is committed.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use base::Result;
use memory::{Layout, Segment};

use crate::array;
use crate::blocks::{visit_blocks, visited_blocks};
use crate::construction::{ArgumentForm, Construction};
use crate::fortran;
use crate::geometry::{Geometry, Sum, too_large};
use crate::plan::TypePlan;
use crate::predefined::Predefined;
use crate::validate::validate;

/// An MPI datatype: basic elements, in an order, at displacements (section 5.1).
///
/// It is immutable, and can be shared freely. Handles, names and attributes are kept elsewhere.
#[derive(Debug)]
pub struct Datatype {
    construction: Construction,
    form: ArgumentForm,
    /// The datatype with the data of this one at its places, if this one is only another view of
    /// it: a duplicate, a resized datatype, an array in terms of vectors.
    base: Option<BorrowedDatatype>,
    geometry: Geometry,
    /// The largest number of datatypes between this one and a predefined one.
    depth: usize,
    plan: OnceLock<TypePlan>,
    committed: AtomicBool,
}

/// A reference to a datatype. Predefined datatypes exist for ever, so their users need not be
/// counted.
pub type BorrowedDatatype = Cow<'static, Arc<Datatype>>;

impl Datatype {
    /// Creates the datatype that `construction` describes, with arguments that were passed in
    /// `form`.
    ///
    /// # Errors
    /// - class `Count` for a negative count, `Arg` for other values that the standard forbids;
    /// - class `Arg` if size or bounds exceed 2^63-1 bytes;
    /// - class `Type` if datatypes are nested more than 2,000 deep.
    pub fn create(construction: Construction, form: ArgumentForm) -> Result<Arc<Datatype>> {
        validate(&construction)?;
        let base = base_of(&construction)?;
        let (geometry, depth) = measured(&construction, base.as_ref())?;
        let committed = match &construction {
            Construction::Named(_) => true,
            Construction::Duplicate(of) => of.is_committed(),
            _ => fortran::is_parameterized(&construction),
        };
        let datatype = Self {
            depth,
            construction,
            form,
            base,
            geometry,
            plan: OnceLock::new(),
            committed: AtomicBool::new(committed),
        };
        if datatype.depth.is_multiple_of(COMPILED_DEPTH) {
            datatype.plan();
        }
        Ok(Arc::new(datatype))
    }

    /// Returns the predefined datatype `named`, always one and the same object.
    #[inline]
    pub fn named(named: Predefined) -> &'static Arc<Datatype> {
        &NAMED[named as usize]
    }

    /// Returns a reference to this datatype for its users, or for constructors of other datatypes.
    pub fn borrowed(self: &Arc<Self>) -> BorrowedDatatype {
        match self.construction {
            Construction::Named(named) => BorrowedDatatype::Borrowed(Self::named(named)),
            _ => BorrowedDatatype::Owned(Arc::clone(self)),
        }
    }

    /// Prepares the datatype for communication; repeating it is harmless (section 5.1.9). A plan
    /// that takes little time is compiled on first use, as many datatypes only serve to construct
    /// others.
    pub fn commit(&self) {
        if visited_blocks(&self.construction) > DEFERRED_BLOCKS_MAX {
            self.plan();
        }
        self.committed.store(true, Ordering::Release);
    }

    /// Whether it may be used in communication.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Acquire)
    }

    /// Returns the number of data bytes in one element.
    #[inline]
    pub fn size(&self) -> usize {
        self.geometry.size
    }

    /// Returns the distance of consecutive elements, in bytes.
    #[inline]
    pub fn extent(&self) -> isize {
        self.geometry.extent()
    }

    /// Returns the lower bound, in bytes.
    pub fn lower_bound(&self) -> isize {
        self.geometry.bounds().0
    }

    /// Returns the upper bound in bytes: lower bound plus extent.
    pub fn upper_bound(&self) -> isize {
        self.geometry.bounds().1
    }

    /// Returns the displacement of the lowest byte of data; 0 if there is no data.
    pub fn true_lower_bound(&self) -> isize {
        self.geometry.data.map_or(0, |(low, _)| low)
    }

    /// Returns the distance from the lowest byte of data to one past the highest.
    pub fn true_extent(&self) -> isize {
        self.geometry.data.map_or(0, |(low, high)| high - low)
    }

    /// Returns the number of basic elements in one element; both members of a pair count.
    pub fn element_count(&self) -> usize {
        self.geometry.elements
    }

    /// Returns the predefined datatype that this datatype is: a named one, or a parameterized one
    /// of Fortran, which behaves like the named one of its representation. The result is none for a
    /// duplicate.
    #[inline]
    pub fn predefined(&self) -> Option<Predefined> {
        match &self.construction {
            Construction::Named(named) => Some(*named),
            construction if fortran::is_parameterized(construction) => self.base()?.predefined(),
            _ => None,
        }
    }

    /// Returns the predefined datatype of all its elements, treating pairs as one element, as
    /// accumulates of one-sided communication require it (section 12.3.4). `None` if they differ or
    /// there are none.
    pub fn operand(&self) -> Option<Predefined> {
        self.predefined().or_else(|| self.geometry.operands.only())
    }

    /// Returns its constructor and arguments.
    pub fn construction(&self) -> &Construction {
        &self.construction
    }

    /// Returns the form of the call that created it.
    pub fn form(&self) -> ArgumentForm {
        self.form
    }

    /// Returns the number of data bytes in `count` elements.
    ///
    /// # Errors
    /// Class `Count` if it exceeds 2^63-1, or if the elements exceed the address space.
    #[inline]
    pub fn packed_size(&self, count: usize) -> Result<usize> {
        let size = self.geometry.size.checked_mul(count);
        match size {
            Some(size) if size <= isize::MAX as usize => Ok(size),
            _ => Err(too_many(count)),
        }
    }

    /// Returns the displacements that `count` elements touch: lowest byte, one past the highest;
    /// (0, 0) if they touch nothing.
    ///
    /// # Errors
    /// Class `Count` if they exceed the address space.
    pub fn data_bounds(&self, count: usize) -> Result<(isize, isize)> {
        let Some((low, high)) = self.geometry.data.filter(|_| count > 0) else {
            return Ok((0, 0));
        };
        if count == 1 {
            // The bounds of one element were checked when the datatype was created.
            return Ok((low, high));
        }
        let reach = isize::try_from(count - 1).ok().and_then(|n| n.checked_mul(self.extent()));
        let bounds = reach.and_then(|reach| {
            Some((low.checked_add(reach.min(0))?, high.checked_add(reach.max(0))?))
        });
        match bounds {
            Some((low, high)) if high.checked_sub(low).is_some() => Ok((low, high)),
            _ => Err(too_many(count)),
        }
    }

    /// Returns the run of `count` elements if they are contiguous; it begins at the displacement of
    /// the returned segment, which is 0 for most datatypes. `None` if there are gaps.
    #[inline]
    pub fn run(&self, count: usize) -> Option<Segment> {
        self.plan().run(count)
    }

    /// Returns the layout of `count` elements. The result is none if they are one run from
    /// displacement 0, or have no data: then the buffer is plain bytes.
    #[inline]
    pub fn layout(self: &Arc<Self>, count: usize) -> Option<Arc<dyn Layout>> {
        match self.run(count) {
            Some(Segment { displacement: 0, .. }) => None,
            _ => Some(Arc::clone(self) as Arc<dyn Layout>),
        }
    }

    #[inline]
    pub(crate) fn plan(&self) -> &TypePlan {
        self.plan.get_or_init(|| TypePlan::compile(self))
    }

    pub(crate) fn base(&self) -> Option<&Arc<Datatype>> {
        self.base.as_deref()
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }
}

/// A datatype with more blocks of its own is compiled when it is committed.
const DEFERRED_BLOCKS_MAX: usize = 64;

static NAMED: LazyLock<Vec<Arc<Datatype>>> = LazyLock::new(|| {
    let named = |&named: &Predefined| {
        let geometry = Geometry::of_named(named);
        let datatype = Datatype {
            construction: Construction::Named(named),
            form: ArgumentForm::Int,
            base: None,
            geometry,
            depth: 0,
            plan: OnceLock::new(),
            committed: AtomicBool::new(true),
        };
        Arc::new(datatype)
    };
    Predefined::ALL.iter().map(named).collect()
});

fn base_of(construction: &Construction) -> Result<Option<BorrowedDatatype>> {
    Ok(match construction {
        Construction::Duplicate(of) | Construction::Resized { of, .. } => Some(of.clone()),
        Construction::Subarray { dimensions, order, of } => {
            Some(array::subarray(dimensions, *order, of)?)
        }
        Construction::Darray { rank, dimensions, order, of, .. } => {
            Some(array::darray(*rank, dimensions, *order, of)?)
        }
        _ => fortran::representation(construction)?
            .map(|named| BorrowedDatatype::Borrowed(Datatype::named(named))),
    })
}

/// Returns the geometry, and the number of datatypes between this one and the predefined ones.
fn measured(
    construction: &Construction,
    base: Option<&BorrowedDatatype>,
) -> Result<(Geometry, usize)> {
    if let Some(base) = base {
        return Ok((geometry_of_view(construction, base)?, checked_depth(base.depth + 1)?));
    }
    if let Construction::Named(named) = construction {
        return Ok((Geometry::of_named(*named), 0));
    }
    let (mut sum, mut depth) = (Sum::new(), 0);
    visit_blocks(construction, &mut |block| {
        sum.add(&block);
        depth = depth.max(block.of.depth + 1);
        true
    });
    let geometry = sum.finish(matches!(construction, Construction::Struct(_)))?;
    Ok((geometry, checked_depth(depth)?))
}

fn geometry_of_view(construction: &Construction, base: &Datatype) -> Result<Geometry> {
    let markers = match construction {
        Construction::Resized { lower_bound, extent, .. } => {
            let upper_bound = lower_bound.checked_add(*extent).ok_or_else(too_large)?;
            Some((*lower_bound as isize, upper_bound as isize))
        }
        Construction::Subarray { dimensions, of, .. } => {
            Some((0, array::whole_extent(dimensions.iter().map(|one| one.size), of)?))
        }
        Construction::Darray { dimensions, of, .. } => {
            Some((0, array::whole_extent(dimensions.iter().map(|one| one.global_size), of)?))
        }
        _ => base.geometry.markers,
    };
    Ok(Geometry { markers, ..base.geometry })
}

/// The largest depth of nesting: datatypes are walked and dropped recursively, which uses the
/// stack.
const DEPTH_MAX: usize = 2000;

/// At every multiple of this depth the plan is compiled at once, so that later commits recurse no
/// deeper.
const COMPILED_DEPTH: usize = 50;

fn checked_depth(depth: usize) -> Result<usize> {
    if depth > DEPTH_MAX {
        let detail = format!(
            "datatypes are nested {depth} deep, and at most {DEPTH_MAX} levels are possible; build \
             the datatype in fewer steps"
        );
        return Err(base::Error::new(base::ErrorClass::Type, detail));
    }
    Ok(depth)
}

#[cold]
fn too_many(count: usize) -> base::Error {
    base::Error::new(
        base::ErrorClass::Count,
        format!("{count} elements of this datatype exceed 2^63-1 bytes; use a smaller count"),
    )
}
