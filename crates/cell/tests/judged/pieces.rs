//! The pieces that lines are made from. In them `%p` is a path, `%r` a plain one, `%d` a folder, `%g` a pattern,
//! `%w` a word, `%v` a variable, `%n` a number, `%c` a command, `%q` a quoted line, and `@` in a frame the command.

/// Paths that nobody minds.
pub const PLAIN: &[&str] = &[
    "README.md", "notes.txt", "'a b.txt'", "data.json", "src/main.rs", "src/lib.rs", "docs/guide.md", "names.txt",
    "draft.txt", "new.txt", "src/new.rs", "target/debug/app", "docs/new/x.md", "out.txt", "workflows/ci.yml", "lib.sh",
    "templates/CLAUDE.md", "made/x.txt", "script.sed", "program.awk", "values.mk", "link-src/lib.rs", "/tmp/x", "x",
    "scripts/build.sh", "Makefile",
];
/// Paths that policy guards, ignored files, and ways to them.
pub const PROTECTED: &[&str] = &[
    ".env", "config/server.pem", "keys/id_rsa", "src/.env.local", "CLAUDE.md", ".claude/settings.json", ".claude/new",
    ".github/workflows/ci.yml", ".vscode/tasks.json", ".windlass/config.toml", ".git/config", ".git/hooks/pre-commit",
    ".cursor/rules.md", "local.db", "notes.local", "private/plan.txt", "private", "link-env", "link-claude/x",
    "link-md", "link-out/passwd", "AGENTS.md", ".mcp.json", ".gitattributes", ".envrc", ".claude", ".github", ".git",
    "config", "keys", "link-claude", "src/up/.env", "vendor/bare", "sub", "templates/hooks", "templates", ".cursor",
    "config/.netrc", "src/deep.local", "~/.ssh/id_ed25519", "/etc/passwd", "../x",
];
pub const FOLDERS: &[&str] = &[
    ".", "src", "docs", "config", "keys", ".claude", ".github", "workflows", "templates", "link-src", "link-claude",
    "vendor/bare", "sub", "private", "target", "made", "src/up", "docs/new", ".git", "..", "scripts", "vendor", "-",
];
pub const PATTERNS: &[&str] = &[
    "*", "*.md", "*.txt", ".*", ".e*", "src/*", "*/*", "[!x]*", "?ocal.db", "*.local", "k*/*", "**", ".[a-z]*", "*.{md,txt}",
    "c*/s*", "docs/*", "*.rs", "l*", "{a,b}", "src/.*",
];
pub const WORDS: &[&str] = &[
    "TODO", "x", "one", "-n", "--", "-", "'a b'", "''", "a=b", "'$(frob)'", "'`frob`'", "\\$HOME", "1,2p", "s/a/b/",
    "'s/one/frob/e'", "'w CLAUDE.md'", "'1e frob'", "p", ".", "'{print $1}'", "'BEGIN{system(\"frob\")}'", "@{0}", "HEAD",
    "'a;b'", "\"a|b\"", "CLAUDE.md", ".env", "+x", "644", "%s", "'%s\\n'", "=", "!", "{}", "';'", "$?", "$$", "$#",
    "$HOME", "$API_TOKEN", "\"$v\"", "$v", "${v}", "${v%x}", "${#v}", "$((1+2))", "$(nproc)", "$(pwd)", "`pwd`", "#x",
    "~", "main", "other", "plain", "v1", "HEAD~1", "stash@{1}", "'x[$(frob)]'", "$(cat names.txt)", "$(date)",
];
pub const NAMES: &[&str] = &[
    "v", "x", "f", "i", "PATH", "HOME", "GIT_DIR", "BASH_ENV", "IFS", "LD_PRELOAD", "CDPATH", "PS4", "RUST_LOG", "CC",
    "MAKEFLAGS", "GIT_PAGER", "API_TOKEN", "PWD", "LANG", "POSIXLY_CORRECT", "TMPDIR", "COLUMNS", "TAR_OPTIONS",
];
pub const OPERATORS: &[&str] =
    &["; ", " && ", " || ", " | ", "\n", " & ", " |& ", ";", "&&", "|", " ;\n", "& ", "; wait; ", " & wait; "];
pub const REDIRECTS: &[&str] = &[
    "> %p", ">> %p", ">| %p", "< %p", "2> %p", "&> %p", ">& %p", ">&%p", "&>> %p", "2>&1", ">&2", "<> %p", "< %r", "> %r",
    ">> out.txt", "2>/dev/null", "<<< %w", "<<< \"$(%c)\"", "<<E\n%w $(%c)\nE\n", "<<'E'\n$(%c)\nE\n", "<<-E\n\t%w\n\tE\n",
    "3> %p >&3", "> >(%c)", "< <(%c)", "{v}> %p", ">&%w", "1>&-", "<& %p", "0< %p", ">\"%p\"", "10> %p", "<<\\E\n%w\nE\n",
];
pub const ASSIGNMENTS: &[&str] = &[
    "v=%p", "v=%r", "v='%p'", "v=\"%p\"", "%v=%w", "export v=%p", "export %v=%w", "%v+=:x", "v=$(%c)", "v=`%c`",
    "printf -v %v %w", "printf -v%v %w", "read -r v < %r", "read v <<< %p", "read %v < %r", "declare %v=%w", "local %v=x",
    "v=(a b)", "%v[0]=x", "let v=1", ": ${v:=%p}", ": ${%v=%w}", "((v=1))", "v=$((1+1))", "typeset v=%p", "unset %v",
    "mapfile v < names.txt", "readonly v=%p", "declare -n v=%v", "v=%w", "IFS=%w read -r v < %r", "v=%g", "v='%c'",
    "export -n %v", "alias ls='%c'", "set -- %p %r", "shopt -s dotglob", "v=${v:-%p}", "getopts a v", "v=frob", "v=-x",
];
pub const FRAMES: &[&str] = &[
    "(@)", "{ @; }", "if @; then %c; fi", "if true; then @; else %c; fi", "while ! @; do break; done",
    "for v in %p %r; do @; done", "for f in %g; do cat \"$f\"; done", "for f in %p; do %c; done", "! @", "time @",
    "command @", "builtin @", "env @", "env -i @", "env -u x @", "env A=b @", "env -C %d @", "env -iC%d @", "nice @",
    "nice -n 3 @", "timeout 5 @", "timeout -k 1 5 @", "stdbuf -oL @", "bash -c %q", "sh -c %q", "bash -ec %q", "eval %q",
    "eval @", "echo \"$(@)\"", "echo `@`", "cat <(@)", "f() { @; }; f", "case x in x) @;; esac", "[[ -f x ]] && @",
    "[ -f README.md ] && @", "@ | head -%n", "@ | xargs cat", "@ | xargs -n1 echo", "cat names.txt | xargs @", "coproc @",
    "@ &", "@ & wait", "wait; @ &", "(@ &)", "trap %q EXIT", "exec @", "source <(echo @)", "cd %d && @", "cd %d; @",
    "pushd %d; @", "(cd %d && @)", "@ && cd %d && %c", "until @; do break; done", "select v in a; do @; break; done",
    "function f { @; }; f", "xargs -I{} @ < names.txt", "nohup @", "setsid @", "find . -maxdepth 1 -name '%g' -exec @ \\;",
    "while read -r v; do @; done < names.txt", "@ 2>&1 | tee %p", "@ > %p", "[[ $(@) ]]", "x=$(@)", "test -n \"$(@)\"",
    "true && @", "false || @", "false && @", "@; exit", "exit; @", "git -C %d status; @", "{ @; } > %r", "(@) < %p",
    "command -p @", "command -v @", "time -p @", "ionice -c3 @", "xargs -a names.txt @", "sleep 3 & @", "sleep 3 & wait; @",
    "sleep 3 & kill %1; @", "make -n; @", "printf '%s\\n' %p | xargs @", "echo %p | while read v; do cat $v; done",
];
pub const COMMANDS: &[&str] = &[
    // Reading.
    "ls %p", "ls -la %d", "ls %g", "cat %p", "cat %r", "cat %g", "cat < %p", "head -%n %p", "head -n%n %r %p",
    "tail -n +%n %p", "wc -l %p", "wc -l %g", "wc --files0-from=%p", "grep %w %p", "grep -n %w %r", "grep -r %w %d",
    "grep -rn %w", "grep -f%p %r", "grep -%n -R %w %d", "grep -e %w -d recurse %d", "grep --include='%g' -r %w",
    "grep -c '' %g", "egrep -r %w %d", "find %d", "find %d -name '%g'", "find %d -type f -exec %c \\;",
    "find %d -name '%g' -exec cat {} +", "find %d -delete", "find %d -name '%g' -delete", "find %d -fprint %p",
    "find -newer %p", "find %d -execdir cat {} \\;", "find %d -maxdepth 1 -exec rm {} \\;", "find %d -ok %c \\;",
    "find -files0-from %p", "find %d -type f | xargs grep %w", "find %d -name '%g' -exec sh -c %q \\;", "stat %p",
    "file %p", "file -f %p", "diff %p %r", "diff -r %d %d", "diff -r %d", "diff --from-file=%p %r", "cmp %p %r",
    "comm %p %r", "sort %p", "sort -u %r -o %p", "sort -uo%p %r", "sort --o=%p %r", "sort --files0-from=%p", "sort -T %d %r",
    "uniq %r", "uniq %r %p", "uniq -c %p", "cut -c1-9 %p", "tr a b < %p", "nl %p", "tac %p", "paste %p %r", "paste -s %p",
    "fold %p", "join %p %r", "column %p", "column -t %r", "basename %p", "dirname %p", "realpath %p", "readlink -f %p",
    "pwd", "echo %w", "echo %p", "echo %g", "echo -e %w %w", "printf '%s\\n' %w", "printf %w %w", "printf -v v %w",
    "seq %n", "expr 1 + %n", "jq . %p", "jq -n env", "jq -n '$ENV.API_TOKEN'", "jq --rawfile a %p . data.json",
    "jq -n --slurpfile a %p '$a'", "jq -f %p data.json", "jq -L %d . data.json", "jq . data.json", "true", "false",
    "test -f %p", "[ -f %p ]", "[[ -f %p ]]", "[[ %w == %w ]]", "[[ -v %w ]]", "[[ %w -eq 1 ]]", "[ %w = %w ]", "test -n %w",
    "date", "date -f %p", "date -uf%p", "date --file=%p", "date -r %p", "date +%w", "which %w", "type %w", "du -a %d",
    "du --files0-from=%p", "du -sh %p", "df", "sha256sum %p", "sha256sum -c %p", "md5sum %g", "cksum %p", "hexdump -C %p",
    "xxd %p", "xxd %r %p", "xxd -r %r %p", "xxd -p %p %r", "od -c %p", "sleep 0", "cd %d", "cd", "cd -", "cd %d %d",
    "exit", "exit %n", "break", "return", "read v", "read v < %p", "read -r %v", "read -a v < %p", "wait", "wait %w",
    "sed -n 1p %p", "sed %w %p", "sed -n %w %r", "sed -i s/a/b/ %p", "sed -i.bak s/a/b/ %p", "sed -ni p %p",
    "sed -n '/one/p' %p", "sed -e p -e %w %r", "sed -f %p %r", "sed -n 'w %r' %p", "sed 's/x/y/w %p' %r", "sed 1r%p %r",
    "sed '1r %p' %r", "sed -s p %p", "sed --expression=%w %p", "sed -E 's/(o)/\\1/' %p", "sed '$!d' %p", "sed 1d\\;2q %p",
    "sed -i p %g", "sed -n '$=' %p", "sed s,a,b, %p", "sed -z s/a/b/ %p", "sed '1~2d' %p", "sed -i -e %w %p",
    "awk '{print}' %p", "awk %w %p", "awk '{print > \"%r\"}' %p", "awk -f %p %r", "awk -F: '{print $1}' %p",
    "awk '{print $1 | \"frob\"}' %p", "awk 'BEGIN{while((getline l < \"%p\")>0) print l}'", "awk -v a=%p '{print a}' %r",
    "awk '{printf \"%s\", $1 > \"%p\"}' %r", "awk '/x/{print}' %p", "awk '$1 > 1' %p", "awk 'END{print NR}' %g",
    "awk 'BEGIN{print ENVIRON[\"API_TOKEN\"]}'", "awk '{a=$1>2; print a}' %p", "awk 'BEGIN{print 1>2}'", "base64 %p",
    "strings %p", "zcat %p", "zgrep %w %p", "shellcheck %p", "whoami", "id", "uname -a", "ps aux", "ps e", "ps -ef", "ps eww",
    "free", "hostname %w", "getconf ARG_MAX", "locale", "groups", "env", "env -0", "printenv", "set", "export -p", "declare -p",
    "tee %p", "tee -a %p < %r", "split %p", "split -l1 %r %p", "csplit %r 1", "xargs cat < %p", "xargs -a %p cat", "shuf %p",
    // Git.
    "git status", "git status -s", "git diff", "git diff %w", "git diff --no-index %p %r", "git diff --output=%p", "git log",
    "git log -p", "git log --oneline -%n", "git log --output=%p", "git show", "git show %w", "git show %w:%p",
    "git show HEAD:.env", "git grep %w", "git grep -n %w %d", "git grep -Ofrob %w", "git grep -nOfrob %w", "git blame %p",
    "git ls-files", "git ls-files %p", "git cat-file -p %w", "git cat-file -p HEAD:%p", "git rev-parse %w", "git describe",
    "git branch", "git branch new", "git branch -D plain", "git tag t1", "git tag -d v1", "git stash", "git stash -u",
    "git stash -a", "git stash pop", "git stash apply %w", "git stash show -p", "git stash show %w", "git stash list",
    "git stash push %p", "git stash drop", "git stash branch b2", "git stash save -a x", "git stash push -a", "git add -A",
    "git add %p", "git add -f %p", "git commit -m %w", "git commit -am %w", "git commit -F%p", "git commit --file=%p",
    "git commit -t%p", "git commit --allow-empty -m x", "git switch %w", "git switch -c new %w", "git switch -",
    "git switch --detach %w", "git checkout %w", "git checkout %w -- %p", "git checkout -- %p", "git checkout .",
    "git checkout -b new %w", "git checkout -f %w", "git checkout %w %p", "git checkout -p", "git checkout --orphan z",
    "git restore %p", "git restore .", "git restore -s %w .", "git restore --source=%w %p", "git restore -s%w %d",
    "git restore --sour=%w .", "git restore --staged %p", "git restore --ours .", "git merge %w", "git merge --no-ff %w",
    "git merge --squash %w", "git rebase %w", "git rebase --onto %w %w", "git rebase -x frob HEAD~1", "git rebase -ifrob",
    "git rebase --exec=frob HEAD~1", "git cherry-pick %w", "git cherry-pick -n %w", "git revert %w", "git revert --no-edit %w",
    "git revert -n %w", "git revert --no-edit HEAD~1", "git revert --no-commit HEAD~1..HEAD", "git reset --hard",
    "git reset --hard %w", "git reset %w", "git reset --keep %w", "git reset --merge %w", "git clean -fd", "git clean -fdx",
    "git clean -ffdx", "git clean -n", "git clean -f %d", "git clean -fX", "git rm %p", "git rm -r %d", "git rm -rf %d",
    "git rm --cached %p", "git mv %p %r", "git mv %r %p", "git mv %d %d", "git -C %d status", "git -C %d log",
    "git -c core.pager=frob log", "git --git-dir=%d status", "git --work-tree=%d checkout .", "git -p log",
    "git config core.pager frob", "git config user.name", "git archive HEAD", "git apply %p", "git init %d", "git worktree list",
    "git bisect start", "git update-index --chmod=+x %p", "git shortlog", "git rev-list HEAD", "git for-each-ref %w",
    "git check-ignore %p", "git merge-base %w %w", "git diff-tree -p %w", "git show-ref", "git name-rev %w", "git notes add -m x",
    // Changing files.
    "mkdir %p", "mkdir -p %d/x", "rmdir %d", "touch %p", "touch %g", "cp %r %p", "cp %p %r", "cp %r %d", "cp -r %d %d",
    "cp -rT %d %d", "cp -a %d/. %d", "cp -t%d %r", "cp -ft %d %r %p", "cp --target-directory=%d %r", "cp --target=%d %r",
    "cp --parents %r %d", "cp -b -S .md %r CLAUDE", "cp -l %p %r", "cp -s %p %r", "cp -L %p %r", "cp -R %g %d", "mv %r %p",
    "mv %p %r", "mv %r %d", "mv %d %d", "mv -t %d %r", "mv -T %d %d", "mv %g %d", "mv -ft%d %g", "mv -b -S .md %r CLAUDE",
    "rm %p", "rm -f %p", "rm -rf %d", "rm -r -- %p", "rm -f %g", "rm -rf %g", "rm -rf %d/%g", "rm -d %d", "unlink %p",
    "ln -s %p %r", "ln %p %r", "ln -sf %r %p", "ln -s %d new && cat new/x", "ln -sfT %d %p", "ln -st %d %r", "ln %p", "ln -s %p",
    "install %r %p", "install -D %r %d/x", "install -t %d %r", "install -d %p", "truncate -s0 %p", "truncate -r %r %p",
    "chmod +x %p", "chmod -R +x %d", "chmod 644 %g", "chmod --reference=%r %p", "mktemp %pXXX", "mktemp -p %d", "mktemp -d",
    "gzip %p", "gzip -k %p", "gzip -r %d", "gzip -c %p", "gzip -S .md %r", "gunzip %p", "gzip -cd %p", "gzip -dN %p",
    // Others.
    "make", "make test", "make -C %d", "make -sC%d", "make -f %p", "make SHELL=frob", "make x=%w", "make --eval=%w",
    "make -I %d", "make -W %p", "make -pn", "make -t %p", "make clean", "make CC='$(shell frob)'", "make %w", "make -n %p",
    "make MAKEFILES=values.mk", "make --include-dir=%d", "make sub/%r", "make -e", "./scripts/build.sh %w",
    "bash scripts/build.sh", "bash %p", "sh %r", "source %p", ". %p", "source .venv/bin/activate", ". ./lib.sh", "bash < %p",
    "bash -s < %p", "bash --rcfile %p", "bash --init-file %p -i", "bash -O extglob -c %q", "bash -l -c %q", "sh lib.sh",
    "python3 -c %w", "python3 %p", "python3 -m %w", "cargo test", "cargo --config %p build", "npm test", "npm run %w",
    "cargo run -- %p", "go test ./...", "go test -exec frob ./...", "gcc -o %p %r", "pytest -q", "node -e %w", "node %p",
    "sudo ls", "curl %w", "frob", "frob %p", "tar cf %p %d", "tar xf %p", "dd if=%p of=%r", "kill %n", "zip x %p", "xargs frob",
    "uv run %c", "npx tsc", "rustc %p -o %r", "java %p", "cmake -E env", "cmake -P %p", "just --command frob", "npm --prefix %d test",
];
/// Long options of programs, as their help lists them; those with `=` take a value.
pub const LONG_OPTIONS: &[(&str, &str)] = &[
    ("ls", "all recursive dereference directory hide= ignore= color= format= sort= time-style= quoting-style= hyperlink"),
    ("head", "bytes= lines= quiet verbose zero-terminated"),
    ("tail", "bytes= lines= follow= pid= retry sleep-interval= zero-terminated"),
    ("wc", "bytes chars files0-from= lines max-line-length words total="),
    ("grep", "after-context= binary-files= count dereference-recursive devices= directories= exclude-dir= exclude-from= exclude= \
        extended-regexp file= files-with-matches include= invert-match label= max-count= null only-matching perl-regexp quiet \
        recursive regexp= text with-filename"),
    ("stat", "dereference file-system format= printf= terse"),
    ("diff", "brief context exclude-from= from-file= ifdef= label= line-format= new-file paginate recursive show-function-line= \
        starting-file= to-file= unified side-by-side text no-dereference unidirectional-new-file"),
    ("cmp", "bytes= ignore-initial= print-bytes verbose"),
    ("sort", "batch-size= buffer-size= check compress-program= debug field-separator= files0-from= key= merge output= parallel= \
        random-source= random-sort reverse sort= temporary-directory= unique zero-terminated"),
    ("uniq", "all-repeated check-chars= count group repeated skip-fields= zero-terminated"),
    ("cut", "bytes= characters= delimiter= fields= output-delimiter="),
    ("nl", "body-numbering= number-format= section-delimiter="),
    ("date", "date= debug file= iso-8601 reference= rfc-3339= set= universal"),
    ("du", "all block-size= exclude-from= exclude= files0-from= max-depth= summarize time total"),
    ("sha256sum", "binary check ignore-missing quiet tag zero"),
    ("od", "address-radix= format= read-bytes= skip-bytes= strings traditional width"),
    ("sed", "debug expression= file= follow-symlinks in-place in-place= line-length= null-data posix quiet regexp-extended \
        sandbox separate"),
    ("base64", "decode ignore-garbage wrap="),
    ("jq", "arg argjson args jsonargs rawfile slurpfile tab from-file= raw-input slurp null-input"),
    ("mkdir", "mode= parents verbose"),
    ("touch", "date= no-create no-dereference reference= time="),
    ("cp", "archive attributes-only backup copy-contents dereference force link no-clobber no-target-directory parents \
        preserve recursive reflink remove-destination sparse= strip-trailing-slashes suffix= symbolic-link \
        target-directory= update"),
    ("mv", "backup force no-clobber no-target-directory strip-trailing-slashes suffix= target-directory= update"),
    ("rm", "dir force no-preserve-root one-file-system recursive verbose"),
    ("tee", "append ignore-interrupts output-error="),
    ("ln", "backup force logical no-dereference no-target-directory physical relative suffix= symbolic target-directory="),
    ("install", "backup compare directory mode= no-target-directory preserve-timestamps strip strip-program= suffix= \
        target-directory= owner="),
    ("truncate", "io-blocks no-create reference= size="),
    ("chmod", "changes recursive reference= silent"),
    ("mktemp", "directory dry-run suffix= tmpdir="),
    ("gzip", "decompress force keep recursive stdout suffix= test name"),
    ("xargs", "arg-file= delimiter= eof max-args= max-lines= max-procs= no-run-if-empty null process-slot-var= replace= verbose"),
    ("env", "chdir= debug ignore-environment null split-string= unset="),
    ("nice", "adjustment="),
    ("timeout", "foreground kill-after= preserve-status signal= verbose"),
    ("stdbuf", "error= input= output="),
    ("make", "always-make assume-new= directory= dry-run environment-overrides eval= file= include-dir= just-print keep-going \
        makefile= old-file= print-data-base question silent touch trace what-if="),
    ("file", "brief compile files-from= magic-file= mime uncompress print0 special-files"),
    ("git", "exec-path= git-dir= work-tree= namespace= config-env= paginate no-pager bare html-path literal-pathspecs \
        super-prefix= output= ext-diff textconv no-index open-files-in-pager= exec= strategy= source= file= template= \
        pathspec-from-file= patch include-untracked all recurse-submodules edit quiet force"),
];
