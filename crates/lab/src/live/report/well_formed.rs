//! A small check, for the tests of the reports, that a text is well-formed XML: tags are balanced, attributes are
//! quoted, and nothing else looks like markup.

/// Checks a document whose one element may follow a document type.
pub(super) fn check(document: &str) -> Result<(), String> {
    let mut rest = document.strip_prefix("<!DOCTYPE html>").unwrap_or(document);
    let mut open: Vec<&str> = Vec::new();
    while let Some((text, from_tag)) = rest.split_once('<') {
        check_text(text)?;
        let (tag, after) = from_tag
            .split_once('>')
            .ok_or_else(|| format!("a tag does not end: {from_tag}"))?;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("{name} ends, but is not the last that began"));
            }
        } else {
            let name = check_tag(tag)?;
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        rest = after;
    }
    check_text(rest)?;
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("{} remain open", open.join(", ")))
    }
}

/// Checks `name a="b" c="d"`, and gives the name.
fn check_tag(tag: &str) -> Result<&str, String> {
    let tag = tag.trim_end_matches('/').trim_end();
    let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(format!("{name} is no name of a tag"));
    }
    let mut rest = attributes.trim();
    while !rest.is_empty() {
        let (_, value) = rest
            .split_once("=\"")
            .ok_or_else(|| format!("an attribute has no value: {rest}"))?;
        let (value, after) = value
            .split_once('"')
            .ok_or_else(|| format!("a value does not end: {value}"))?;
        check_text(value)?;
        rest = after.trim_start();
    }
    Ok(name)
}

fn check_text(text: &str) -> Result<(), String> {
    let known = ["amp;", "lt;", "gt;", "quot;"];
    let is_known = |after: &str| known.iter().any(|entity| after.starts_with(entity));
    match text.split('&').skip(1).find(|after| !is_known(after)) {
        Some(after) => Err(format!("a bare ampersand before {after}")),
        None => Ok(()),
    }
}

#[test]
fn what_is_not_well_formed_is_found() {
    assert_eq!(check("<a b=\"c\"><d/>e &amp; f</a>\n"), Ok(()));
    for bad in [
        "<a>",
        "<a></b>",
        "<a b></a>",
        "<a>&</a>",
        "<a",
        "<a b=\"c></a>",
        "< a></ a>",
    ] {
        assert!(check(bad).is_err(), "{bad}");
    }
}
