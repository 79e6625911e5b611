//! Each public error code has a page, and each page a code.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

const FOLDER: &str = "docs/errors";
/// The source that lists all codes, one on a line: `Variant = "CODE",`.
const CODES: &str = "crates/kernel/src/code.rs";
/// The headings of every page, in this order.
const SECTIONS: [&str; 3] = ["## Why", "## What to do", "## Exit code"];

/// A page, by the name of its file.
pub struct Page {
    name: String,
    text: String,
}

/// Reads all codes.
pub fn codes(root: &Path) -> Result<Vec<String>> {
    let text =
        std::fs::read_to_string(root.join(CODES)).with_context(|| format!("read `{CODES}`"))?;
    let codes = text.lines().filter_map(|line| line.strip_suffix("\",")?.split_once(" = \""));
    let codes: Vec<String> = codes.map(|(_, code)| code.to_owned()).collect();
    ensure!(!codes.is_empty(), "there are no error codes in `{CODES}`");
    Ok(codes)
}

/// Reads all pages.
pub fn read(root: &Path) -> Result<Vec<Page>> {
    let folder = root.join(FOLDER);
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("list `{FOLDER}`"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read `{FOLDER}/{name}`"))?;
        pages.push(Page { name, text });
    }
    pages.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(pages)
}

/// Codes without a page, pages without a code, and pages with other headings.
pub fn problems(codes: &[String], pages: &[Page]) -> Vec<String> {
    let mut problems = Vec::new();
    for code in codes {
        let name = format!("{code}.md");
        let Some(page) = pages.iter().find(|page| page.name == name) else {
            problems.push(format!("the code {code} has no page `{FOLDER}/{name}`"));
            continue;
        };
        let lines = page.text.lines().filter(|line| line.starts_with('#'));
        let title = format!("# {code}");
        let expected = std::iter::once(title.as_str()).chain(SECTIONS);
        if !lines.eq(expected) {
            let sections = SECTIONS.join("`, `");
            problems.push(format!("{FOLDER}/{name}: must have `{title}`, `{sections}`, no others"));
        }
    }
    for page in pages {
        let is_code = |name: &str| codes.iter().any(|code| code == name);
        if !page.name.strip_suffix(".md").is_some_and(is_code) && page.name != "README.md" {
            problems.push(format!("{FOLDER}/{}: there is no such code", page.name));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use windlass_kernel::Code;

    use super::*;

    fn all_codes() -> Vec<String> {
        Code::ALL.iter().map(ToString::to_string).collect()
    }

    fn page(name: &str) -> Page {
        let text = format!("# {name}\n\nIt broke.\n\n{}\n", SECTIONS.join("\n\nx\n\n"));
        Page { name: format!("{name}.md"), text }
    }

    fn all_pages() -> Vec<Page> {
        all_codes().iter().map(|code| page(code)).collect()
    }

    #[test]
    fn the_codes_are_read_as_the_kernel_has_them() {
        assert_eq!(codes(&crate::root()).unwrap(), all_codes());
    }

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        let problems = |pages: &[Page]| problems(&all_codes(), pages);
        assert_eq!(problems(&all_pages()), Vec::<String>::new());
        assert_eq!(problems(all_pages().get(1..).unwrap()).len(), 1);
        let mut more = all_pages();
        more.push(page("NO_SUCH_CODE"));
        more.push(Page { name: "INTERNAL.txt".into(), text: String::new() });
        assert_eq!(problems(&more).len(), 2);
    }

    #[test]
    fn a_page_has_its_title_and_sections() {
        for removed in ["## Why", "## Exit code", "# "] {
            let mut pages = all_pages();
            let first = pages.first_mut().unwrap();
            first.text = first.text.replacen(removed, "", 1);
            assert_eq!(problems(&all_codes(), &pages).len(), 1, "{removed}");
        }
    }
}
