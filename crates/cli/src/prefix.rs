//! The installation prefix of Combray, found from the path of this program, so that an installation
//! can be moved.

use std::env;
use std::path::PathBuf;

/// The folder that contains `bin`, `lib` and `include`.
pub fn find() -> Result<PathBuf, String> {
    let own = env::current_exe().and_then(|path| path.canonicalize());
    let own = own.map_err(|cause| format!("the folder of this program is not known: {cause}"))?;
    let bin = own.parent().unwrap_or(&own);
    Ok(bin.parent().unwrap_or(bin).to_path_buf())
}

/// The path of a documentation page such as `user/launching.md`: inside the prefix, if this program
/// is installed.
pub fn page(name: &str) -> String {
    let installed = find().map(|prefix| prefix.join("share/doc/combray/docs").join(name));
    match installed {
        Ok(path) if path.exists() => path.display().to_string(),
        _ => format!("docs/{name}"),
    }
}
