//! The datatype itself: what it is made of, its numbers, and whether it is committed.

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

/// An MPI datatype: which basic elements, in which order, at which displacements (section 5.1).
///
/// It never changes, and is shared freely. Handles, names and attributes are kept elsewhere.
#[derive(Debug)]
pub struct Datatype {
    construction: Construction,
    form: ArgumentForm,
    /// The datatype with the same data at the same places, where this one is only another view of
    /// it: a duplicate, a resized one, an array in terms of vectors.
    base: Option<BorrowedDatatype>,
    geometry: Geometry,
    /// How many datatypes stand between this one and the predefined ones, at most.
    depth: usize,
    plan: OnceLock<TypePlan>,
    committed: AtomicBool,
}

/// A datatype that is used for a while: a predefined one is there for ever, so that nobody has to
/// count its users.
pub type BorrowedDatatype = Cow<'static, Arc<Datatype>>;

impl Datatype {
    /// The datatype that `construction` describes, with arguments that came in `form`.
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

    /// The predefined datatype `named`, always the same one.
    #[inline]
    pub fn named(named: Predefined) -> &'static Arc<Datatype> {
        &NAMED[named as usize]
    }

    /// This datatype for who uses it, or makes others of it.
    pub fn borrowed(self: &Arc<Self>) -> BorrowedDatatype {
        match self.construction {
            Construction::Named(named) => BorrowedDatatype::Borrowed(Self::named(named)),
            _ => BorrowedDatatype::Owned(Arc::clone(self)),
        }
    }

    /// Prepares the datatype for communication; again is harmless (section 5.1.9). A plan that
    /// takes little time is made when it is first used, as many datatypes serve to make others
    /// only.
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

    /// Bytes of data in one element.
    #[inline]
    pub fn size(&self) -> usize {
        self.geometry.size
    }

    /// The distance at which consecutive elements follow each other, in bytes.
    #[inline]
    pub fn extent(&self) -> isize {
        self.geometry.extent()
    }

    /// The lower bound, in bytes.
    pub fn lower_bound(&self) -> isize {
        self.geometry.bounds().0
    }

    /// The upper bound, in bytes: lower bound and extent.
    pub fn upper_bound(&self) -> isize {
        self.geometry.bounds().1
    }

    /// The displacement of the lowest byte of data; 0 where there is no data.
    pub fn true_lower_bound(&self) -> isize {
        self.geometry.data.map_or(0, |(low, _)| low)
    }

    /// The distance from the lowest byte of data to one past the highest.
    pub fn true_extent(&self) -> isize {
        self.geometry.data.map_or(0, |(low, high)| high - low)
    }

    /// How many basic elements one element has; those of a pair count each.
    pub fn element_count(&self) -> usize {
        self.geometry.elements
    }

    /// The predefined datatype that this is: one with a name, or one of Fortran's parameterized
    /// ones, which behave like the named one of the same representation. A duplicate is none.
    #[inline]
    pub fn predefined(&self) -> Option<Predefined> {
        match &self.construction {
            Construction::Named(named) => Some(*named),
            construction if fortran::is_parameterized(construction) => self.base()?.predefined(),
            _ => None,
        }
    }

    /// The predefined datatype that all its elements are, with pairs whole, as accumulates of
    /// one-sided communication want it (section 12.3.4); `None` if they differ or there are none.
    pub fn operand(&self) -> Option<Predefined> {
        self.predefined().or_else(|| self.geometry.operands.only())
    }

    /// How it was made.
    pub fn construction(&self) -> &Construction {
        &self.construction
    }

    /// Which form of call made it.
    pub fn form(&self) -> ArgumentForm {
        self.form
    }

    /// The bytes of data in `count` elements.
    ///
    /// # Errors
    /// Class `Count` if they exceed 2^63-1, or if the elements leave the address space.
    #[inline]
    pub fn packed_size(&self, count: usize) -> Result<usize> {
        let size = self.geometry.size.checked_mul(count);
        match size {
            Some(size) if size <= isize::MAX as usize => Ok(size),
            _ => Err(too_many(count)),
        }
    }

    /// The displacements that `count` elements touch: lowest byte, one past the highest; (0, 0)
    /// when they touch nothing.
    ///
    /// # Errors
    /// Class `Count` if they leave the address space.
    pub fn data_bounds(&self, count: usize) -> Result<(isize, isize)> {
        let Some((low, high)) = self.geometry.data.filter(|_| count > 0) else {
            return Ok((0, 0));
        };
        if count == 1 {
            // What one element has was checked when the datatype was made.
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

    /// Where `count` elements lie if they are one run of bytes; it begins at the displacement of
    /// the returned segment, which is 0 for most datatypes. `None` if there are gaps.
    #[inline]
    pub fn run(&self, count: usize) -> Option<Segment> {
        self.plan().run(count)
    }

    /// How `count` elements lie, unless they are one run from displacement 0, or no data: then
    /// the buffer is plain bytes.
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

/// The geometry, and how many datatypes stand between this one and the predefined ones.
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

/// Datatypes are walked and dropped level by level on the stack, so there is an end to nesting.
const DEPTH_MAX: usize = 2000;

/// At every so many levels the plan is made at once, so that no later commit goes deeper.
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
