//! The tools, one file each, with what the model reads about it beside it.

pub(crate) mod bash;
pub(crate) mod delete_file;
pub(crate) mod edit_file;
mod fetch;
pub(crate) mod find_files;
pub(crate) mod grep;
pub(crate) mod http_get;
pub(crate) mod http_request;
pub(crate) mod list_dir;
pub(crate) mod move_file;
pub(crate) mod read_file;
mod splice;
pub(crate) mod write_file;
