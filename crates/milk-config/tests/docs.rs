//! The page on configuration is made from the key table. `MILK_BLESS=1 cargo test -p milk-config` writes it anew.

use std::path::Path;

const HEAD: &str = "\
# Configuration

milk reads `~/.milk/config.json` (`MILK_HOME` moves the folder, `MILK_CONFIG` the file alone) and, over it, the project's own
`.milk/config.json`. Files are JSON, merged key by key; `agents` and `mcp_servers` are merged by name. Both are read again for each
new session. A value that cannot be used costs that one key and a warning on standard error; unknown keys are kept and ignored.

Of a project's file only harmless keys count until you run `milk trust` in that folder; the last column says which.
`${NAME}` in `api_key`, in a header or in `url` stands for an environment variable.

";

#[test]
fn the_page_is_made_from_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let wanted = format!("{HEAD}{}", milk_config::key::reference());
    if std::env::var_os("MILK_BLESS").is_some() {
        std::fs::write(&file, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == wanted, "docs/configuration.md is out of date: MILK_BLESS=1 cargo test -p milk-config");
}
