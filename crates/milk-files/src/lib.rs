//! The leaf under everything that touches the disk: where milk keeps its files ([`MilkHome`]), how a file is
//! replaced whole ([`replace`], [`replace_private`]), how one is read without trusting it ([`read_bounded`]), and
//! when two spellings mean one place ([`DirId`], R21). Unix only.

mod env;
mod error;
mod home;
mod identity;
mod read;
mod replace;
mod workspace;

pub use env::Env;
pub use error::{FileError, FileOp};
pub use home::{Folder, HomeError, MilkHome};
pub use identity::{DirId, expand_tilde, resolve, same_place};
pub use read::read_bounded;
pub use replace::{TEMP_PREFIX, is_temp_name, replace, replace_private, sweep};
pub use workspace::{Place, Workspace};
