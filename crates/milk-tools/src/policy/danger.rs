//! Commands that run other commands, or write files, through their arguments. For these a pattern with a `*` says less
//! than it seems to, so it is not enough (tables; each row errs towards asking).

use super::words::Word;

/// Programs that run what their arguments say, whatever these are: wrappers, interpreters, editors and pagers.
const RUNNERS: &[&str] = &[
    // Wrappers.
    "env sudo doas su runuser pkexec xargs parallel nohup nice ionice chrt taskset timeout time \
               watch entr setsid stdbuf unbuffer script strace ltrace flock chroot unshare nsenter \
               systemd-run at batch crontab start-stop-daemon run-parts ssh scp sftp mosh busybox toybox \
               screen tmux expect socat nc ncat netcat inotifywait watchexec catchsegv firejail bwrap \
               fakeroot proot setarch linux32 linux64 numactl prlimit cgexec dbus-run-session xvfb-run ld.so \
               ld-linux.so.2 ld-linux-x86-64.so.2 setpriv capsh rlwrap caffeinate direnv nix-shell hyperfine \
               perf valgrind",
    // Shells and what in them runs or evaluates text.
    "sh bash dash zsh ksh mksh fish csh tcsh ash rbash pwsh eval exec command builtin source . trap \
               alias enable mapfile readarray complete compgen bind fc",
    // Interpreters.
    "awk gawk mawk nawk sed gsed perl python python2 python3 pypy pypy3 ruby irb node nodejs deno \
               bun php lua luajit tclsh wish osascript Rscript R julia guile scheme sbcl clisp ghci runghc \
               scala groovy jshell elixir iex erl swift ts-node tsx dc m4 gdb lldb sqlite3 psql mysql mariadb \
               redis-cli mongosh",
    // Programs that fetch and run a package.
    "npx pnpx bunx uvx pipx",
    // Editors and pagers.
    "vi vim view vimdiff nvim ex ed emacs emacsclient nano less more most man info",
];

/// What else of a program's arguments runs or writes.
struct Row {
    programs: &'static str,
    /// Sub-commands: the first word that is no option.
    subcommands: &'static str,
    /// Long options, without their dashes; abbreviations count, as many programs take them.
    long: &'static str,
    /// Letters of short options, wherever they stand in a cluster such as `-uo`.
    short: &'static str,
    /// Words that count exactly as they are, with what may follow after `=`.
    words: &'static str,
    /// Whether options in front of the sub-command count, whatever they are.
    options_first: bool,
    /// Whether `NAME=value` counts.
    assignments: bool,
}

const NONE: Row = Row {
    programs: "",
    subcommands: "",
    long: "",
    short: "",
    words: "",
    options_first: false,
    assignments: false,
};

const TABLE: &[Row] = &[
    Row {
        programs: "git",
        // `config` names programs for later commands, as aliases and filters; the rest run what they are given.
        subcommands: "config bisect submodule rebase filter-branch filter-repo difftool mergetool hook \
               for-each-repo daemon instaweb web--browse gui citool gitk send-email svn p4 credential \
               remote-ext remote-fd upload-pack receive-pack archive clone init worktree maintenance \
               help bundle fast-import fast-export shell am mailsplit checkout-index unpack-file \
               interpret-trailers var update-index replace notes",
        long: "output output-directory ext-diff textconv upload-pack receive-pack exec \
               open-files-in-pager extcmd template config config-env exec-path git-dir work-tree \
               namespace super-prefix paginate sign gpg-sign strategy tool edit contents \
               git-completion-helper use-mailmap-file signature-file pathspec-from-file",
        short: "oOxc",
        options_first: true,
        ..NONE
    },
    Row {
        programs: "find gfind bfs",
        words: "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -rm",
        ..NONE
    },
    Row { programs: "fd fdfind", long: "exec exec-batch", short: "xX", ..NONE },
    Row { programs: "rg", long: "pre hostname-bin", ..NONE },
    Row { programs: "ag ack", long: "pager", ..NONE },
    Row { programs: "sort gsort", long: "output compress-program temporary-directory", short: "oT", ..NONE },
    Row { programs: "shuf tree", long: "output", short: "o", ..NONE },
    Row { programs: "split csplit", long: "filter", ..NONE },
    Row {
        programs: "tar gtar bsdtar",
        long: "to-command use-compress-program checkpoint-action info-script new-volume-script \
               rsh-command rmt-command to-stdout-command",
        short: "IF",
        ..NONE
    },
    Row { programs: "zip unzip 7z 7za", long: "unzip-command", short: "T", ..NONE },
    Row { programs: "cpio pax", long: "rsh-command", short: "OFEs", ..NONE },
    Row { programs: "rsync", long: "rsh rsync-path", short: "eM", ..NONE },
    Row {
        programs: "curl",
        long: "output remote-name remote-name-all output-dir config dump-header trace trace-ascii \
               cookie-jar upload-file libcurl stderr etag-save hsts alt-svc engine netrc-file form data",
        short: "oOKDcTJdF",
        ..NONE
    },
    Row {
        programs: "wget wget2",
        long: "output-document output-file append-output execute use-askpass config post-file body-file \
               directory-prefix input-file save-cookies warc-file rejected-log use-server-timestamps",
        short: "OoaePi",
        ..NONE
    },
    Row {
        programs: "cargo",
        subcommands: "install login",
        long: "config manifest-path target-dir",
        short: "Z",
        options_first: true,
        ..NONE
    },
    Row {
        programs: "npm pnpm yarn",
        subcommands: "exec x dlx explore edit config set init create",
        long: "script-shell node-options shell call editor browser prefix globalconfig userconfig",
        short: "c",
        ..NONE
    },
    Row {
        programs: "go",
        subcommands: "run generate env tool",
        words: "-exec -toolexec -vettool -o -overlay --exec --toolexec --vettool",
        ..NONE
    },
    Row {
        programs: "uv poetry pipenv pdm hatch rye conda mamba bundle mise asdf volta rustup",
        subcommands: "run exec shell tool x",
        ..NONE
    },
    Row {
        programs: "make gmake",
        long: "eval file makefile directory include-dir",
        short: "fCIE",
        assignments: true,
        ..NONE
    },
    Row {
        programs: "just",
        long: "shell shell-arg command justfile working-directory chooser edit set",
        short: "cfd",
        assignments: true,
        ..NONE
    },
    Row { programs: "ninja", short: "fC", ..NONE },
    Row { programs: "cmake", short: "PE", long: "build install", ..NONE },
    Row {
        programs: "gcc g++ cc c++ clang clang++",
        short: "oB",
        words: "-wrapper -fplugin -Xclang -load",
        ..NONE
    },
    Row {
        programs: "docker podman nerdctl",
        subcommands: "run exec create start build buildx compose cp container image save export commit \
               plugin",
        options_first: true,
        ..NONE
    },
    Row {
        programs: "kubectl oc",
        subcommands: "exec run debug cp attach edit plugin apply create replace patch config",
        long: "kubeconfig",
        options_first: true,
        ..NONE
    },
    Row { programs: "gh", subcommands: "alias extension ext config codespace cs repo", ..NONE },
    Row {
        programs: "systemctl journalctl loginctl",
        subcommands: "edit enable link start set-property",
        long: "pager cursor-file host",
        short: "H",
        ..NONE
    },
    Row { programs: "ip", subcommands: "netns vrf", short: "b", words: "-batch -force exec", ..NONE },
    Row { programs: "openssl", words: "-engine -provider -out -config", ..NONE },
    Row { programs: "patch", long: "output reject-file directory", short: "ordi", ..NONE },
    Row { programs: "date", long: "set", short: "s", ..NONE },
    Row {
        programs: "column diff cmp sdiff diff3",
        long: "output diff-program paginate merge",
        short: "o",
        ..NONE
    },
    Row {
        programs: "pip pip3",
        long: "python log target editor",
        subcommands: "config",
        options_first: true,
        ..NONE
    },
    Row {
        programs: "pytest py.test tox nox",
        long: "override-ini rootdir confcutdir config-file basetemp debug pdbcls",
        short: "pco",
        ..NONE
    },
    Row { programs: "yq", long: "inplace split-exp", short: "is", ..NONE },
];

/// Programs that only look, whatever their options are: file names that become options do no harm there.
const HARMLESS: &str = "ls cat wc head tail echo grep egrep fgrep stat du df";

/// Whether a command runs another one or writes through its arguments, or may do so.
pub(super) fn runs_or_writes(command: &[Word]) -> bool {
    let Some((name, arguments)) = command.split_first() else { return true };
    let program = name.text.rsplit('/').next().unwrap_or_default();
    if is_runner(program) {
        return true;
    }
    let row = TABLE.iter().find(|row| lists(row.programs, program));
    // File names may begin with a dash: the shell would make options of them that nobody sees here.
    let hides_options =
        arguments.iter().any(|word| word.pattern && word.text.starts_with(['*', '?', '[', '-']));
    row.is_some_and(|row| row.is_dangerous(arguments)) || (hides_options && !lists(HARMLESS, program))
}

/// Whether a row of words holds this one.
fn lists(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|listed| listed == word)
}

/// Also with a version at its end, as in `python3.12`.
fn is_runner(program: &str) -> bool {
    let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    program.is_empty() || RUNNERS.iter().any(|row| lists(row, program) || lists(row, plain))
}

impl Row {
    fn is_dangerous(&self, arguments: &[Word]) -> bool {
        let mut before_subcommand = true;
        arguments.iter().any(|word| {
            let text = word.text.as_str();
            let is_option = text.starts_with('-') && text.len() > 1;
            let is_first = before_subcommand;
            before_subcommand = is_first && is_option;
            let is_subcommand = is_first && !is_option;
            // `cargo +toolchain` is an option in front, too.
            let stands_in_front = is_first && (is_option || text.starts_with('+'));
            let may_become_one =
                word.pattern && (is_subcommand && !self.subcommands.is_empty() || !self.words.is_empty());
            may_become_one
                || (is_subcommand && lists(self.subcommands, text))
                || (stands_in_front && self.options_first)
                || (self.assignments && text.contains('='))
                || self.is_word(text)
                || self.is_option(text)
        })
    }

    fn is_word(&self, text: &str) -> bool {
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        lists(self.words, name)
    }

    fn is_option(&self, text: &str) -> bool {
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split_once('=').map_or(long, |(name, _)| name);
            return !name.is_empty()
                && self.long.split_ascii_whitespace().any(|option| option.starts_with(name));
        }
        text.strip_prefix('-').is_some_and(|letters| letters.contains(|c| self.short.contains(c)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_hold_whole_words() {
        let rows = TABLE.iter().flat_map(|row| [row.programs, row.subcommands, row.long, row.words]);
        for word in
            rows.chain(RUNNERS.iter().copied()).chain([HARMLESS]).flat_map(str::split_ascii_whitespace)
        {
            assert!(!word.ends_with('-') && word.is_ascii(), "{word}");
        }
        assert!(TABLE.iter().all(|row| !row.long.contains("--")), "long options are without their dashes");
        let mut programs: Vec<_> =
            TABLE.iter().flat_map(|row| row.programs.split_ascii_whitespace()).collect();
        programs.sort_unstable();
        let twice = programs.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None, "only the first row of a program counts");
    }
}
