//! Sections of a page that a program writes: the text between `<!-- begin NAME -->` and `<!-- end NAME -->`.

use crate::Result;

/// The sections of a text: their names and their content, with the marks.
pub(crate) fn sections(text: &str) -> Vec<(&str, &str)> {
    let mut sections = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("<!-- begin ") {
        rest = &rest[start..];
        let name = rest["<!-- begin ".len()..].split(" -->").next().unwrap_or_default();
        let close = format!("<!-- end {name} -->");
        let Some(end) = rest.find(&close) else { break };
        let (section, after) = rest.split_at(end + close.len());
        sections.push((name, section));
        rest = after;
    }
    sections
}

/// Returns the page with its sections replaced by those of the same name in `new_sections`. The page decides where a
/// section is, so it is an error if the page lacks one.
pub(crate) fn replace_sections(page: &str, new_sections: &str) -> Result<String> {
    let mut page = page.to_owned();
    for (name, section) in sections(new_sections) {
        let old = sections(&page).into_iter().find(|(section_name, _)| *section_name == name);
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
    fn a_new_section_replaces_the_old_one() {
        let page = replace_sections(PAGE, "noise <!-- begin b -->\nnew\n<!-- end b -->").unwrap();
        assert_eq!(page, PAGE.replace("<!-- begin b -->", "<!-- begin b -->\nnew\n"));
    }

    #[test]
    fn a_section_that_the_page_lacks_is_refused() {
        assert!(replace_sections(PAGE, "<!-- begin c --><!-- end c -->").is_err());
    }
}
