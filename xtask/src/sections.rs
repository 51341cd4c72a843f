//! Sections of a page that a program writes: the text between `<!-- begin NAME -->` and `<!-- end NAME -->`.

use crate::Result;

/// The sections of a text: their names and their content, with the marks.
pub(crate) fn sections(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("<!-- begin ") {
        rest = &rest[start..];
        let name = rest["<!-- begin ".len()..].split(" -->").next().unwrap_or_default();
        let close = format!("<!-- end {name} -->");
        let Some(end) = rest.find(&close) else { break };
        let (section, after) = rest.split_at(end + close.len());
        found.push((name, section));
        rest = after;
    }
    found
}

/// Returns the page with its sections replaced by those of the same name in `fresh`. The page decides where a section
/// is, so it is an error if the page lacks one.
pub(crate) fn replace_sections(page: &str, fresh: &str) -> Result<String> {
    let mut page = page.to_owned();
    for (name, section) in sections(fresh) {
        let old = sections(&page).into_iter().find(|(there, _)| *there == name);
        let old = old.ok_or_else(|| format!("the page has no section `{name}`"))?.1.to_owned();
        page = page.replacen(&old, section, 1);
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# Page\n<!-- begin a -->\nold\n<!-- end a -->\nbetween\n<!-- begin b --><!-- end b -->\nend\n";

    #[test]
    fn a_fresh_section_takes_the_place_of_the_old_one() {
        let page = replace_sections(PAGE, "noise <!-- begin b -->\nnew\n<!-- end b -->").unwrap();
        assert_eq!(page, PAGE.replace("<!-- begin b -->", "<!-- begin b -->\nnew\n"));
    }

    #[test]
    fn a_section_without_a_place_is_refused() {
        assert!(replace_sections(PAGE, "<!-- begin c --><!-- end c -->").is_err());
    }
}
