//! The files that decide what gates and checks measure: tests, scripts and build settings.

/// The maximum number of files that are listed.
const LISTED_MAX: usize = 100;

/// Folders that hold tests, scripts or the settings of continuous integration.
const FOLDERS: [&str; 26] = [
    "test",
    "tests",
    "testing",
    "testdata",
    "spec",
    "specs",
    "__tests__",
    "__mocks__",
    "__snapshots__",
    "e2e",
    "integration-tests",
    "script",
    "scripts",
    "checks",
    "gates",
    "ci",
    "hack",
    "tools",
    ".ci",
    ".github",
    ".gitlab",
    ".circleci",
    ".buildkite",
    ".githooks",
    ".husky",
    ".cargo",
];
/// Files of these names, in lower case.
const NAMES: [&str; 62] = [
    "makefile",
    "gnumakefile",
    "justfile",
    ".justfile",
    "rakefile",
    "taskfile.yml",
    "taskfile.yaml",
    "package.json",
    "cargo.toml",
    "build.rs",
    "conftest.py",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "tox.ini",
    "noxfile.py",
    "tasks.py",
    "pytest.ini",
    ".coveragerc",
    "mypy.ini",
    ".flake8",
    ".pylintrc",
    "ruff.toml",
    ".ruff.toml",
    "clippy.toml",
    ".clippy.toml",
    "rustfmt.toml",
    ".rustfmt.toml",
    "deny.toml",
    "nextest.toml",
    "cmakelists.txt",
    "meson.build",
    "configure.ac",
    "pom.xml",
    "build.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "gradlew",
    "mvnw",
    "build.sbt",
    "mix.exs",
    "composer.json",
    "phpunit.xml",
    "phpunit.xml.dist",
    ".rspec",
    "tsconfig.json",
    "biome.json",
    "deno.json",
    "dockerfile",
    "jenkinsfile",
    ".travis.yml",
    ".gitlab-ci.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".golangci.yml",
    ".golangci.yaml",
    "codecov.yml",
    ".gitattributes",
    ".gitignore",
];
/// Beginnings of names of settings, in lower case.
const BEGINNINGS: [&str; 13] = [
    ".eslintrc",
    ".eslintignore",
    "eslint.config.",
    "jest.config.",
    "vitest.config.",
    "vite.config.",
    "playwright.config.",
    "cypress.config.",
    "karma.conf.",
    "webpack.config.",
    ".mocharc",
    ".nycrc",
    ".prettierrc",
];
/// Endings of scripts, in lower case.
const ENDINGS: [&str; 12] = [
    ".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat", ".cmd", ".bats", ".mk", ".cmake", ".gradle",
    ".snap",
];

/// The changed files that decide what gates and checks measure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasuringFiles {
    /// The first of them, sorted.
    pub paths: Vec<String>,
    /// The number of those that are not listed.
    pub omitted: usize,
}

impl MeasuringFiles {
    /// Picks them from the changed files of a run.
    #[must_use]
    pub fn of(files: &[String]) -> Self {
        let mut paths: Vec<String> =
            files.iter().filter(|file| is_measuring(file)).cloned().collect();
        paths.sort();
        paths.dedup();
        let omitted = paths.len().saturating_sub(LISTED_MAX);
        paths.truncate(LISTED_MAX);
        Self { paths, omitted }
    }

    /// The paths, and how many are not listed.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let more = (self.omitted > 0).then(|| format!("… and {} more", self.omitted));
        self.paths.iter().cloned().chain(more).collect()
    }
}

/// Whether a file is a test, a script or a build setting.
#[must_use]
pub fn is_measuring(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    is_measuring_folder(folder) || is_measuring_name(name)
}

/// Whether a folder, or one above it, holds tests or scripts.
#[must_use]
pub fn is_measuring_folder(folder: &str) -> bool {
    folder.split('/').any(|part| FOLDERS.contains(&part.to_ascii_lowercase().as_str()))
}

fn is_measuring_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    if NAMES.contains(&lower.as_str())
        || BEGINNINGS.iter().any(|beginning| lower.starts_with(beginning))
        || ENDINGS.iter().any(|ending| lower.ends_with(ending))
    {
        return true;
    }
    let Some((stem, _)) = name.split_once('.') else { return false };
    let lower_stem = stem.to_ascii_lowercase();
    // `a.test.ts`, `a.spec.js`.
    if lower.split('.').skip(1).any(|part| matches!(part, "test" | "tests" | "spec" | "cy")) {
        return true;
    }
    let marked = |mark: &str| {
        let ends = |by: &str| lower_stem.ends_with(&format!("{by}{mark}"));
        lower_stem == mark
            || lower_stem.starts_with(&format!("{mark}_"))
            || ["_", "-"].into_iter().any(ends)
    };
    // `CalcTest.java`, `TestCalc.java`, but not `Contest.java` or `Testament.java`.
    let camel = ["Test", "Tests", "Spec"].iter().any(|mark| stem.ends_with(mark))
        || stem.strip_prefix("Test").is_some_and(|rest| rest.starts_with(char::is_uppercase));
    camel || ["test", "tests", "spec"].into_iter().any(marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_scripts_and_build_settings_are_known_by_name() {
        for path in [
            "tests/a.rs",
            "crates/x/tests/data/a.txt",
            "test/a.js",
            "src/__tests__/a.js",
            "spec/a_spec.rb",
            "a_test.go",
            "test_a.py",
            "pkg/conftest.py",
            "a.test.ts",
            "a.spec.js",
            "CalcTest.java",
            "TestCalc.java",
            "src/tests.rs",
            "my-test.js",
            "check.sh",
            "scripts/run",
            "Makefile",
            "sub/makefile",
            "justfile",
            "package.json",
            "build.rs",
            "Cargo.toml",
            ".github/workflows/ci.yml",
            ".gitlab-ci.yml",
            "jest.config.js",
            ".eslintrc.json",
            "CMakeLists.txt",
            "a.bats",
            ".gitattributes",
            "pyproject.toml",
            ".husky/pre-commit",
            "tools/lint.py",
            "UserSpec.scala",
            ".Cargo/config.toml",
        ] {
            assert!(is_measuring(path), "{path}");
        }
        for path in [
            "src/main.rs",
            "README.md",
            "src/contest.py",
            "src/Contest.java",
            "latest.txt",
            "Testament.java",
            "src/attestation.go",
            "docs/testing.md",
            "lib/inspect.rb",
            "package-lock.json",
            "a/b/testimony.c",
            "src/protest.ts",
            "specification.md",
        ] {
            assert!(!is_measuring(path), "{path}");
        }
    }

    #[test]
    fn the_list_is_sorted_and_limited() {
        let files: Vec<String> = ["z.sh", "a.sh", "src/a.rs", "a.sh"].map(str::to_owned).to_vec();
        let found = MeasuringFiles::of(&files);
        assert_eq!((found.lines(), found.omitted), (vec!["a.sh".to_owned(), "z.sh".to_owned()], 0));
        let many: Vec<String> = (0..LISTED_MAX + 3).map(|at| format!("{at:04}.sh")).collect();
        let found = MeasuringFiles::of(&many);
        assert_eq!((found.paths.len(), found.omitted), (LISTED_MAX, 3));
        assert_eq!(found.lines().last().map(String::as_str), Some("… and 3 more"));
    }
}
