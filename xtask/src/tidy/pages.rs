//! One page per public error code, and no page without one.

use std::path::Path;

use anyhow::{Context as _, Result};
use windlass_kernel::Code;

const FOLDER: &str = "docs/errors";
/// What every page has, in this order.
const SECTIONS: [&str; 3] = ["## Why", "## What to do", "## Exit code"];

/// A page, by the name of its file.
pub struct Page {
    name: String,
    text: String,
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

/// Codes without a page, pages without a code, pages without their sections.
pub fn problems(pages: &[Page]) -> Vec<String> {
    let mut problems = Vec::new();
    for code in Code::ALL {
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
        let code = page.name.strip_suffix(".md").and_then(Code::named);
        if code.is_none() && page.name != "README.md" {
            problems.push(format!("{FOLDER}/{}: there is no such code", page.name));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> Page {
        let text = format!("# {name}\n\nIt broke.\n\n{}\n", SECTIONS.join("\n\nx\n\n"));
        Page { name: format!("{name}.md"), text }
    }

    fn all() -> Vec<Page> {
        Code::ALL.iter().map(|code| page(code.as_str())).collect()
    }

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        assert_eq!(problems(&all()), Vec::<String>::new());
        assert_eq!(problems(all().get(1..).unwrap()).len(), 1);
        let mut more = all();
        more.push(page("NO_SUCH_CODE"));
        more.push(Page { name: "INTERNAL.txt".into(), text: String::new() });
        assert_eq!(problems(&more).len(), 2);
    }

    #[test]
    fn a_page_has_its_title_and_sections() {
        for spoil in ["## Why", "## Exit code", "# "] {
            let mut pages = all();
            let first = pages.first_mut().unwrap();
            first.text = first.text.replacen(spoil, "", 1);
            assert_eq!(problems(&pages).len(), 1, "{spoil}");
        }
    }
}
