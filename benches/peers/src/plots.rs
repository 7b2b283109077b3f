//! Plots of a report, as SVG.

use std::path::Path;

use crate::contender::Result;
use crate::table::Report;

pub fn write(_: &Report, _: &Path) -> Result<()> {
    Ok(())
}
