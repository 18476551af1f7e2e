//! The environment as a value, so that nothing below the composition reads or changes the process's own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// A snapshot of environment variables. Its `Debug` shows names only: values may be secrets (R37).
#[derive(Clone, Default)]
pub struct Env {
    vars: BTreeMap<OsString, OsString>,
    account_home: Option<PathBuf>,
}

impl Env {
    /// The environment of this process, and the account's home folder for when `HOME` is missing.
    pub fn from_process() -> Self {
        Self { vars: std::env::vars_os().collect(), account_home: std::env::home_dir() }
    }

    /// An environment of these variables alone; nothing of the process shows through.
    pub fn of<N: Into<OsString>, V: Into<OsString>>(vars: impl IntoIterator<Item = (N, V)>) -> Self {
        let vars = vars.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { vars, account_home: None }
    }

    /// The value of a variable, if it is set (an empty one is).
    pub fn get_os(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.vars.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// The value of a variable, if it is set and UTF-8.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&str> {
        self.get_os(name).and_then(OsStr::to_str)
    }

    /// Every variable whose name and value are UTF-8, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.vars.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
    }

    /// The user's home folder: an absolute `HOME`, else the account's. Empty and relative values count as missing,
    /// as POSIX leaves their meaning open.
    pub fn home(&self) -> Option<&Path> {
        let usable = |path: &&Path| path.is_absolute();
        let from_var = self.get_os("HOME").map(Path::new).filter(usable);
        from_var.or_else(|| self.account_home.as_deref().filter(usable))
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.vars.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_a_value() {
        let env = Env::of([("OPENAI_API_KEY", "sk-SECRET-123")]);
        let shown = format!("{env:?}");
        assert!(shown.contains("OPENAI_API_KEY"));
        assert!(!shown.contains("SECRET"));
    }

    #[test]
    fn home_is_absolute_or_missing() {
        for (value, expected) in
            [(Some("/home/me"), Some("/home/me")), (Some(""), None), (Some("here"), None), (None, None)]
        {
            let env = Env::of(value.map(|v| ("HOME", v)));
            assert_eq!(env.home(), expected.map(Path::new), "HOME={value:?}");
        }
    }

    #[test]
    fn the_account_stands_in_for_a_missing_home() {
        let env = Env { account_home: Some(PathBuf::from("/home/account")), ..Env::default() };
        assert_eq!(env.home(), Some(Path::new("/home/account")));
    }

    #[test]
    fn values_that_are_not_utf8_are_kept_but_not_text() {
        use std::os::unix::ffi::OsStrExt;
        let env = Env::of([("A", OsStr::from_bytes(b"\xff")), ("B", OsStr::new("b"))]);
        assert_eq!(env.get("A"), None);
        assert!(env.get_os("A").is_some());
        assert_eq!(env.iter().collect::<Vec<_>>(), [("B", "b")]);
    }
}
