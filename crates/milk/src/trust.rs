//! `milk trust`: which directories' own configuration counts in full.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use milk_config::{Env, MilkHome, Trust};
use milk_files::resolve;

use crate::cli::TrustArgs;
use crate::log::say;
use crate::stdio::print_line;

pub(crate) fn run(arguments: &TrustArgs) -> ExitCode {
    match change(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("milk trust: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn change(arguments: &TrustArgs) -> Result<()> {
    let home = MilkHome::resolve(&Env::from_process())?;
    let (mut trust, warning) = Trust::load(&home);
    if let Some(warning) = warning {
        say(&warning.to_string());
    }
    if arguments.list {
        trust.list().iter().for_each(|directory| print_line(&directory.as_path().display().to_string()));
        return Ok(());
    }
    let here = std::env::current_dir().context("the current directory is gone")?;
    let directory = resolve(arguments.directory.as_deref().unwrap_or(Path::new(".")), &here);
    anyhow::ensure!(directory.is_dir() || arguments.remove, "{} is not a directory", directory.display());
    let changed =
        if arguments.remove { trust.remove(&home, &directory)? } else { trust.add(&home, &directory)? };
    print_line(&match (arguments.remove, changed) {
        (false, true) => format!("{} is trusted: its .milk/config.json counts in full.", directory.display()),
        (false, false) => format!("{} was trusted already.", directory.display()),
        (true, true) => format!("{} is no longer trusted.", directory.display()),
        (true, false) => format!("{} was not trusted.", directory.display()),
    });
    Ok(())
}
