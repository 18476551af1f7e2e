use std::os::unix::fs::symlink;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A file whose every byte must be one writer's or the other's.
fn is_whole(content: &[u8]) -> bool {
    content.len() == 64 * 1024 && content.iter().all(|b| *b == content[0])
}

#[test]
fn an_existing_mode_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script");
    for bits in [0o755, 0o644, 0o640, 0o600, 0o4755] {
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(bits)).unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(mode(&path), bits, "{bits:o}");
        assert_eq!(fs::read(&path).unwrap(), b"new");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_new_file_gets_what_a_plain_write_would_give() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, ours) = (dir.path().join("plain"), dir.path().join("ours"));
    fs::write(&plain, "x").unwrap();
    replace(&ours, b"x").unwrap();
    assert_eq!(mode(&ours), mode(&plain));
}

#[test]
fn a_private_file_is_private_whatever_stood_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    replace_private(&path, b"one").unwrap();
    assert_eq!(mode(&path), 0o600);
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    replace_private(&path, b"two").unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn links_stay_and_their_target_changes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("sub")).unwrap();
    fs::write(at("sub/target"), "old").unwrap();
    symlink("sub/target", at("link")).unwrap();
    symlink("link", at("link-to-link")).unwrap();
    symlink("sub/missing", at("dangling")).unwrap();

    replace(&at("link-to-link"), b"new").unwrap();
    replace(&at("dangling"), b"born").unwrap();

    assert_eq!(fs::read(at("sub/target")).unwrap(), b"new");
    assert_eq!(fs::read(at("sub/missing")).unwrap(), b"born");
    for link in ["link", "link-to-link", "dangling"] {
        assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink(), "{link}");
    }
}

#[test]
fn nothing_is_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    replace(&path, b"1").unwrap();
    replace(&path, b"2").unwrap();
    assert_eq!(names(dir.path()), ["f"]);
}

#[test]
fn what_is_not_a_file_is_refused_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    for path in [&folder, &pipe, Path::new("/")] {
        assert!(matches!(replace(path, b"x"), Err(FileError::NotRegular { .. })), "{}", path.display());
    }
    assert_eq!(names(dir.path()), ["folder", "pipe"]);
}

#[test]
fn errors_name_path_and_step() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    for missing in ["no/such/f", "file/f"] {
        let path = dir.path().join(missing);
        let error = replace(&path, b"SECRET").unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(missing) && !text.contains("SECRET"), "{text}");
    }
}

/// A folder in which nobody may create a file; root needs one that the kernel itself keeps.
fn closed_folder(dir: &Path) -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/proc/self");
    }
    fs::set_permissions(dir, Permissions::from_mode(0o555)).unwrap();
    dir.to_owned()
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let closed = closed_folder(dir.path());
    let error = replace(&closed.join("milk-test"), b"x").unwrap_err();
    assert!(matches!(error, FileError::Io { op: FileOp::CreateTemp, .. }), "{error:?}");
    assert!(error.to_string().contains("milk-test"), "{error}");
}

#[test]
fn a_file_made_read_only_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    // Root may write everything, here as with a plain write.
    let may_write = fs::OpenOptions::new().write(true).open(&path).is_ok();
    assert_eq!(replace(&path, b"new").is_ok(), may_write);
    assert_eq!(fs::read(&path).unwrap(), if may_write { b"new" } else { b"old" });
}

#[test]
fn a_reader_sees_one_whole_version_or_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    replace(&path, &vec![b'a'; 64 * 1024]).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = [b'b', b'c']
            .into_iter()
            .map(|letter| {
                let path = &path;
                scope.spawn(move || {
                    (0..20).for_each(|_| replace(path, &vec![letter; 64 * 1024]).unwrap());
                })
            })
            .collect();
        while !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            assert!(is_whole(&fs::read(&path).unwrap()));
        }
    });
    assert!(is_whole(&fs::read(&path).unwrap()));
}

#[test]
fn sweeping_takes_old_temporary_files_only() {
    let dir = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let hour = Duration::from_hours(1);
    for (name, age) in [
        (".milk-tmp.abcdefABCDEF", hour * 2),
        (".milk-tmp.000000000000", Duration::ZERO),
        (".milk-tmp.short", hour * 2),
        (".milk-tmp.abcdef_BCDEF", hour * 2),
        ("config.json", hour * 2),
    ] {
        let file = File::create(dir.path().join(name)).unwrap();
        file.set_modified(now - age).unwrap();
    }
    fs::create_dir(dir.path().join(".milk-tmp.directory012")).unwrap();

    assert_eq!(sweep(dir.path(), hour, now), 1);
    assert!(!dir.path().join(".milk-tmp.abcdefABCDEF").exists());
    assert_eq!(names(dir.path()).len(), 5);
    assert_eq!(sweep(&dir.path().join("none"), hour, now), 0);
}

#[test]
fn a_temporary_file_is_known_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let made =
        tempfile::Builder::new().prefix(TEMP_PREFIX).rand_bytes(TEMP_RANDOM).tempfile_in(&dir).unwrap();
    assert!(is_temp_name(made.path().file_name().unwrap()));
}
