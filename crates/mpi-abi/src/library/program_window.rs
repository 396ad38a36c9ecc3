//! The objects that window handles name.

use std::cell::Cell;
use std::ffi::c_int;
use std::fmt;
use std::rc::Rc;

use windows::{Flavor, Share, Window};

use crate::generated::constants::*;

/// A window with the values of its standard attributes, to which programs get pointers.
pub struct ProgramWindow {
    /// The window.
    pub window: Rc<Window>,
    size: Cell<isize>,
    unit: Cell<c_int>,
    flavor: Cell<c_int>,
    model: Cell<c_int>,
}

impl ProgramWindow {
    pub fn new(window: Rc<Window>) -> Self {
        let (_, Share { size, unit }) = window.own_part();
        let flavor = match window.flavor() {
            Flavor::Created => MPI_WIN_FLAVOR_CREATE,
            Flavor::Allocated => MPI_WIN_FLAVOR_ALLOCATE,
            Flavor::Shared => MPI_WIN_FLAVOR_SHARED,
            Flavor::Dynamic => MPI_WIN_FLAVOR_DYNAMIC,
        };
        Self {
            window,
            size: Cell::new(size as isize),
            unit: Cell::new(c_int::try_from(unit).unwrap_or(c_int::MAX)),
            flavor: Cell::new(flavor),
            model: Cell::new(MPI_WIN_UNIFIED),
        }
    }

    /// Returns the value of an attribute of the standard: for the base the address itself, for the
    /// others a pointer to the value; `None` for other keys.
    pub fn standard_value(&self, keyval: c_int) -> Option<usize> {
        Some(match keyval {
            MPI_WIN_BASE => self.window.own_part().0,
            MPI_WIN_SIZE => self.size.as_ptr() as usize,
            MPI_WIN_DISP_UNIT => self.unit.as_ptr() as usize,
            MPI_WIN_CREATE_FLAVOR => self.flavor.as_ptr() as usize,
            MPI_WIN_MODEL => self.model.as_ptr() as usize,
            _ => return None,
        })
    }
}

impl fmt::Debug for ProgramWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.window.fmt(f)
    }
}
