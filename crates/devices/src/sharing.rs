//! Access to the memory of devices from other processes: what this process has exported, and what
//! it has imported.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use memory::{ForeignMemory, MemoryExport};
use parking_lot::Mutex;

use crate::api::{Api, ApiError, inside};
use crate::copies::ScopedMemory;
use crate::record::{Exported, Handle};

/// So many allocations of this process are remembered with their handles. Beyond that all are
/// forgotten.
const EXPORTS_MAX: usize = 1024;

/// So many allocations of other processes stay accessible.
const IMPORTS_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Sharing {
    exports: Mutex<HashMap<u64, Export>>,
    /// The one that was used last is at the end.
    imports: Mutex<Vec<Import>>,
}

/// An allocation of this process: with its handle, or why it has none.
type Export = Result<(Exported, Arc<Handle>), String>;

/// An allocation of another process: accessible here, or why not.
#[derive(Debug)]
struct Import {
    owner: i32,
    /// The scope in which it is accessible.
    scope: usize,
    exported: Exported,
    access: Result<Arc<Imported>, String>,
}

/// Access to an allocation of another process, which ends with this value.
struct Imported {
    api: Arc<dyn Api>,
    scope: usize,
    address: usize,
    exported: Exported,
    handle: Handle,
}

impl std::fmt::Debug for Imported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Imported").field("exported", &self.exported).finish_non_exhaustive()
    }
}

impl Sharing {
    /// Returns by what other processes reach `length` bytes of this process.
    pub(crate) fn export(
        &self,
        memory: &ScopedMemory,
        address: usize,
        length: usize,
    ) -> Result<MemoryExport, String> {
        let text = |error: ApiError| error.to_string();
        let allocation = memory.inside(|api| api.allocation_of(address)).map_err(text)?;
        let offset = address.wrapping_sub(allocation.base);
        if offset > allocation.bytes || length > allocation.bytes - offset {
            return Err("the buffer consists of several allocations".to_owned());
        }
        let mut exports = self.exports.lock();
        if exports.len() >= EXPORTS_MAX {
            exports.clear();
        }
        let export = exports.entry(allocation.id).or_insert_with(|| {
            let handle = memory.inside(|api| api.export(&allocation)).map_err(text)?;
            Ok((Exported::of(allocation, &handle), Arc::new(handle)))
        });
        let (exported, handle) = export.as_ref().map_err(String::clone)?;
        Ok(MemoryExport { record: exported.record(address), kept: Arc::clone(handle) as _ })
    }

    /// Makes memory of another process accessible; returns the address here of the bytes that are
    /// used, and what must be kept as long as they are.
    pub(crate) fn import(
        &self,
        memory: &ScopedMemory,
        from: &ForeignMemory<'_>,
    ) -> Result<(usize, Arc<dyn Any + Send + Sync>), String> {
        let end = from.offset.saturating_add(from.length);
        let (exported, start) =
            Exported::parse(from.record, end).ok_or("the record of another process is damaged")?;
        let offset = start + from.offset;
        let (owner, scope) = (from.process, memory.scope());
        let mut imports = self.imports.lock();
        let of_owner = |import: &Import| import.owner == owner && import.scope == scope;
        let known = imports.iter().position(|one| of_owner(one) && one.exported == exported);
        let import = match known {
            Some(place) => imports.remove(place),
            None => {
                // What its owner has freed since: another allocation lies there now.
                imports.retain(|one| !(of_owner(one) && one.exported.overlaps(&exported)));
                if imports.len() >= IMPORTS_MAX {
                    imports.remove(0);
                }
                let access = Imported::open(memory, &exported, owner).map(Arc::new);
                Import { owner, scope, exported, access }
            }
        };
        let access = import.access.clone();
        imports.push(import);
        let imported = access?;
        Ok((imported.address + offset, imported))
    }
}

impl Imported {
    fn open(memory: &ScopedMemory, exported: &Exported, owner: i32) -> Result<Self, String> {
        let handle = exported.handle(owner)?;
        let address = memory.inside(|api| api.import(&exported.allocation, &handle));
        let address = address.map_err(|error| error.to_string())?;
        let (api, scope) = (Arc::clone(memory.api()), memory.scope());
        Ok(Self { api, scope, address, exported: exported.clone(), handle })
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        // If the program has ended the scope, the access has ended with it.
        let _ = inside(&*self.api, self.scope, |api| {
            api.close(self.address, &self.exported.allocation, &self.handle);
            Ok(())
        });
    }
}
