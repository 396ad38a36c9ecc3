//! Where Combray is installed, found from the place of this program, so that an installation can
//! be moved.

use std::env;
use std::path::PathBuf;

/// The folder that holds `bin`, `lib` and `include`.
pub fn find() -> Result<PathBuf, String> {
    let own = env::current_exe().and_then(|path| path.canonicalize());
    let own = own.map_err(|cause| format!("the folder of this program is not known: {cause}"))?;
    let bin = own.parent().unwrap_or(&own);
    Ok(bin.parent().unwrap_or(bin).to_path_buf())
}
