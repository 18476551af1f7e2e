//! Every line here is a decision. `PWN` is the file that must never appear unasked.

use super::*;

fn allows(command: &str, patterns: &[&str]) -> bool {
    let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    WholeCommands.allows(command, &patterns)
}

#[track_caller]
fn asks(commands: &[&str], patterns: &[&str]) {
    let silent: Vec<_> = commands.iter().filter(|command| allows(command, patterns)).collect();
    assert!(silent.is_empty(), "run unasked under {patterns:?}: {silent:#?}");
}

#[track_caller]
fn runs(commands: &[&str], patterns: &[&str]) {
    let asked: Vec<_> = commands.iter().filter(|command| !allows(command, patterns)).collect();
    assert!(asked.is_empty(), "asked about under {patterns:?}: {asked:#?}");
}

/// Whatever a pattern can allow, this allows.
const EVERYTHING: &[&str] = &["*"];

#[test]
fn chains_060() {
    let commands = [
        "git status && touch PWN",
        "git status; touch PWN",
        "ls | tee PWN",
        "ls & touch PWN",
        "ls || touch PWN",
        "ls\ntouch PWN",
        "(touch PWN)",
        "{ touch PWN; }",
        "git statusx",
        "ls;touch PWN",
    ];
    for patterns in [&["git status", "ls"], &["git status*", "ls*"], &["git status *", "ls *"]] {
        asks(&commands, patterns);
    }
    let all_but_the_name = commands.iter().filter(|command| **command != "git statusx");
    asks(&all_but_the_name.copied().collect::<Vec<_>>(), EVERYTHING);
    runs(&["git status", "ls -la"], &["git status", "ls*"]);
}

#[test]
fn more_chains() {
    asks(
        &[
            "ls &&touch PWN",
            "ls&&touch PWN",
            "ls||touch PWN",
            "ls|sh",
            "ls |& sh",
            "ls &",
            "ls ;",
            ";ls",
            "ls;;ls",
            "ls\r\ntouch PWN",
            "ls\rtouch PWN",
            "ls\u{0b}touch PWN",
            "ls\u{0c}PWN",
            "ls\ttouch",
            "ls\0touch PWN",
            "! ls",
            "!ls",
            "ls # touch PWN",
            "ls#x",
            "if ls",
            "then ls",
            "while ls",
            "for x in a",
            "case a in",
            "time ls",
            "coproc ls",
            "function f",
            "f() ls",
            "[[ -f a ]]",
            "ls !!",
            "ls !$",
            "ls <<EOF\ntouch PWN\nEOF",
            "ls <<<a",
        ],
        EVERYTHING,
    );
}

#[test]
fn substitution_061() {
    let commands = [
        "git status $(touch PWN)",
        "ls `touch PWN`",
        "ls <(touch PWN)",
        "ls > >(touch PWN)",
        "ls \"$(touch PWN)\"",
        "ls ${x:-$(touch PWN)}",
        "ls $((1+1))",
        "ls $[1+1]",
        "ls $HOME",
        "ls ${HOME}",
        "ls \"$HOME\"",
        "ls $'\\x41'",
        "ls $\"a\"",
        "ls \"`touch PWN`\"",
        "ls '$(touch PWN)'",
        "ls '`touch PWN`'",
        "ls {a,b}",
        "ls {1..3}",
        "$(echo ls)",
        "`echo ls`",
        "$SHELL",
        "\"ls\" -la",
        "'ls'",
        "l's' -la",
        "l\"\"s -la",
        "\"\" ls",
        "ls\" \" x",
        "l\\s -la",
        "ls \\; touch PWN",
        "ls a\\ b",
        "ls \\\ntouch PWN",
        "ls 'a\nb'",
        "ls \"a",
        "ls 'a",
        "ls 'a; touch PWN'",
        "ls \"a | b\"",
    ];
    asks(&commands, EVERYTHING);
    asks(&commands, &["ls*", "git status*", "git*"]);
}

#[test]
fn redirections_and_assignments() {
    asks(
        &[
            "ls > PWN",
            "ls >> PWN",
            "ls >PWN",
            "ls>PWN",
            "ls 2> PWN",
            "ls 2>&1",
            "ls &> PWN",
            "ls >| PWN",
            "ls <> PWN",
            "ls < a",
            ">PWN",
            "> PWN ls",
            "FOO=bar ls",
            "PATH=. ls",
            "LD_PRELOAD=./x.so ls",
            "A=1",
            "a+=1 ls",
            "A=1 B=2 ls",
        ],
        EVERYTHING,
    );
}

#[test]
fn look_alikes() {
    asks(
        &[
            "ls\u{37e} touch PWN",
            "ls \u{ff1b} x",
            "ls\u{a0}-la",
            "ls\u{2003}-la",
            "ls \u{202e}x",
            "ls a\u{200b}b",
            "l\u{455} -la",
            "ls é",
            "ls \u{1b}[2K",
            "ls \u{7f}",
            "",
            "   ",
            "''",
            "*",
            "l* -la",
            "l? -la",
            "[l]s",
        ],
        EVERYTHING,
    );
    asks(&[&format!("ls {}", "x".repeat(10_000))], EVERYTHING);
}

#[test]
fn options_that_run_or_write_063() {
    let commands = [
        "find . -exec touch PWN +",
        "find . -delete",
        "git log --output=PWN",
        "sort -o PWN a",
        "ls > PWN",
        "ls >> PWN",
    ];
    for patterns in [&["find *", "git log *", "sort *", "ls *"], &["find*", "git*", "sort*", "ls*"]] {
        asks(&commands, patterns);
        // Quoted words stand for themselves, so this one is understood; it is the option that counts.
        asks(&["git -c core.pager='touch PWN' log"], patterns);
    }
    // A pattern that is the complete text is a decision about that command.
    for command in &commands[..4] {
        runs(&[command], &[command]);
    }
    asks(&["find . -exec touch PWN ;", "ls > PWN"], &["find . -exec touch PWN ;", "ls > PWN"]);
}

#[test]
fn more_options_that_run_or_write() {
    asks(
        &[
            "find . -execdir touch PWN +",
            "find . -ok touch PWN",
            "find . -okdir touch PWN",
            "find . -fprint PWN",
            "find . -fprintf PWN x",
            "find . -fls PWN",
            "find . -ex*",
            "find *",
            "git -c core.pager=x log",
            "git -ccore.pager=x log",
            "git --config-env=a=b log",
            "git --exec-path=. log",
            "git --git-dir=x log",
            "git -C x log",
            "git -p log",
            "git log --outp=PWN",
            "git log --output PWN",
            "git diff --output=PWN",
            "git diff --ext-diff",
            "git grep -O x",
            "git grep -Otouch x",
            "git grep --open-files-in-pager=touch x",
            "git fetch --upload-pack=./x",
            "git push --receive-pack=./x",
            "git push --exec=./x",
            "git rebase -x ./x",
            "git rebase --exec ./x",
            "git bisect run ./x",
            "git submodule foreach ./x",
            "git config core.pager ./x",
            "git config --global alias.log x",
            "git difftool -x ./x",
            "git filter-branch",
            "git format-patch -o PWN",
            "git bis*",
            "git log *",
            "sort -oPWN a",
            "sort -uo PWN a",
            "sort --output=PWN a",
            "sort --out PWN a",
            "sort --compress-program=./x a",
            "sort *",
            "shuf -o PWN",
            "tree -o PWN",
            "split --filter=./x a",
            "tar cf a.tar --to-command=./x",
            "tar -I ./x -cf a b",
            "tar --checkpoint-action=exec=./x -cf a b",
            "tar --use-compress-program ./x -xf a",
            "rsync -e ./x a b",
            "rsync --rsh=./x a b",
            "rg --pre ./x a",
            "fd -x touch PWN",
            "fd --exec touch PWN",
            "curl -o PWN http://a",
            "curl -sSo PWN http://a",
            "curl --output PWN http://a",
            "curl -K x",
            "wget -O PWN http://a",
            "wget --use-askpass=./x http://a",
            "cargo --config x test",
            "cargo test --config build.rustc-wrapper=x",
            "cargo +nightly test",
            "cargo install x",
            "npm exec x",
            "npm test --script-shell=./x",
            "go run x.go",
            "go test -exec ./x",
            "go build -toolexec ./x",
            "go vet -vettool=./x",
            "make SHELL=./x",
            "make CC=./x all",
            "make --eval x",
            "make -f x",
            "gcc -wrapper ./x a.c",
            "docker run x",
            "docker -H x ps",
            "docker exec x ls",
            "kubectl exec x",
            "uv run x",
            "pytest -p x",
            "zip -TT x a",
            "ip netns exec a b",
        ],
        EVERYTHING,
    );
}

#[test]
fn commands_that_run_commands_063() {
    let commands = [
        "env",
        "env ls",
        "env -S ls",
        "/usr/bin/env ls",
        "sudo ls",
        "doas ls",
        "su -c ls",
        "xargs ls",
        "parallel ls",
        "nohup ls",
        "nice ls",
        "ionice ls",
        "timeout 5 ls",
        "watch ls",
        "setsid ls",
        "stdbuf -o0 ls",
        "strace ls",
        "flock a ls",
        "chroot . ls",
        "unshare ls",
        "ssh host ls",
        "scp a b",
        "busybox ls",
        "tmux new ls",
        "script PWN",
        "sh -c ls",
        "/bin/sh x",
        "bash x",
        "bash -c ls",
        "dash x",
        "zsh x",
        "eval ls",
        "exec ls",
        "command ls",
        "builtin ls",
        "source x",
        ". x",
        "trap ls EXIT",
        "alias ls=x",
        "awk x",
        "gawk x",
        "sed -i x a",
        "sed w",
        "perl x",
        "perl5.36 x",
        "python x",
        "python3 -m http.server",
        "python3.12 x",
        "ruby x",
        "node x",
        "php x",
        "lua5.4 x",
        "vi x",
        "vim -c x",
        "less x",
        "man ls",
        "npx x",
        "uvx x",
        "gdb x",
        "sqlite3 a",
        "at now",
    ];
    asks(&commands, EVERYTHING);
    for command in commands {
        let program = command.split(' ').next().unwrap();
        asks(&[command], &[&format!("{program}*"), &format!("{program} *")]);
        runs(&[command], &[command]);
    }
}

#[test]
fn ordinary_commands_run() {
    runs(
        &[
            "ls",
            "ls -la",
            "  ls -la  ",
            "ls -la\n",
            "ls *.rs",
            "ls src/*.rs",
            "ls ~/x",
            "cat a.txt b.txt",
            "cat 'a b.txt'",
            "grep -rn 'fn main' src",
            "grep -c \"it's\" a",
            "find . -name '*.rs'",
            "find . -name \"*.rs\" -type f",
            "git status -s",
            "git log --oneline -n 5",
            "git log --format=%H",
            "git diff HEAD~1 -- src/main.rs",
            "git show HEAD^",
            "git show stash@{0}x".strip_suffix("{0}x").unwrap(),
            "git add -A",
            "git commit -m 'fix the thing'",
            "git commit -am \"fix: the thing, again!\"",
            "git push origin main",
            "cargo test -p milk-tools -- --nocapture",
            "cargo build --release",
            "npm test",
            "npm run build",
            "make -j4 test",
            "go test ./...",
            "sort -k2,2n -u a",
            "tar -tf a.tar",
            "curl -sS http://localhost:8080/x?y",
            "pytest -q tests/test_a.py::test_b",
            "docker ps -a",
            "echo hello",
            "./gradlew test",
            "mkdir -p a/b",
        ],
        EVERYTHING,
    );
}

#[test]
fn patterns_are_words() {
    for (pattern, command, allowed) in [
        ("git status", "git status", true),
        ("git status", "git  status", true),
        ("git status", " git status ", true),
        ("git status", "git status -s", false),
        ("git status", "git", false),
        ("git status", "Git status", false),
        ("git status*", "git status", true),
        ("git status*", "git status -s", true),
        ("git status*", "git statusx", false),
        ("git status *", "git status -s", true),
        ("git status *", "git status", false),
        ("git stat*", "git status", false),
        ("npm run test*", "npm run test:evil", false),
        ("./scripts/*", "./scripts/../../evil", false),
        ("ls*", "lsof", false),
        ("ls*", "ls", true),
        ("ls*", "/bin/ls", false),
        ("/bin/ls*", "/bin/ls -la", true),
        ("cargo test*", "cargo test --all", true),
        ("cargo test*", "cargo build", false),
        ("  cargo test *  ", "cargo test --all", true),
        ("git commit -m 'a b'", "git commit -m 'a b'", true),
        ("git commit -m 'a b'", "git commit -m \"a b\"", true),
        ("git commit -m 'a b'", "git commit -m a b", false),
        ("ls a?", "ls a?", true),
        ("ls a?", "ls ab", false),
        ("ls 'a?'", "ls a?", false),
        ("", "ls", false),
        ("  ", "ls", false),
        ("**", "ls", false),
        ("ls -l* x", "ls -la x", false),
        ("ls; rm*", "ls", false),
        ("^ls", "ls", false),
        ("FOO=1 ls*", "FOO=1 ls", false),
    ] {
        assert_eq!(allows(command, &[pattern]), allowed, "{pattern:?} {command:?}");
    }
    asks(&["ls"], &[]);
    runs(&["ls"], &["cat*", "ls"]);
}

/// Whatever is put behind an allowed command, in whatever way: it is one of its words or it is asked about.
#[test]
fn no_separator_gets_by() {
    for c in (0_u8..=255).map(char::from).chain(['\u{2028}', '\u{2029}', '\u{85}', '\u{feff}']) {
        for line in [format!("ls{c}touch PWN"), format!("ls {c} touch PWN"), format!("ls {c}touch PWN")] {
            if !allows(&line, &["ls*"]) {
                continue;
            }
            assert!(c == ' ' || "_-./:=,+@%~]^*?[".contains(c) || c.is_ascii_alphanumeric(), "{line:?}");
            assert!(line.starts_with("ls "), "{line:?}");
        }
    }
}
