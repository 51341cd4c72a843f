//! Finds the known word that is nearest to a misspelled one.

/// The nearest of `known`, if it is near enough for `written` to be a typing mistake.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = written.chars().count();
    let max_distance = (length / 3).max(1);
    let distances = known.into_iter().map(|word| (edit_distance(written, word), word));
    // A word of which nothing is left was not meant.
    let near = distances.filter(|(distance, _)| *distance <= max_distance && *distance < length);
    near.min().map(|(_, word)| word)
}

/// How many characters have to be inserted, deleted, replaced or swapped with their neighbour.
fn edit_distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, &left) in one.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, &right) in other.iter().enumerate() {
            let changed = last[column] + usize::from(left != right);
            let mut best = changed.min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && left == other[column - 1] && one[row - 1] == right {
                let swapped: &Vec<usize> = &before_last;
                best = best.min(swapped[column - 1] + 1);
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[other.len()]
}

/// Names as a list in a sentence: "`a`, `b` and `c`".
pub(super) fn quoted_list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        None => "none".into(),
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_mistake_has_the_distance_one() {
        assert_eq!(edit_distance("prefix", "prefix"), 0);
        assert_eq!(edit_distance("prefx", "prefix"), 1);
        assert_eq!(edit_distance("perfix", "prefix"), 1);
        assert_eq!(edit_distance("scope", "store"), 2);
        assert_eq!(edit_distance("", "abc"), 3);
    }

    #[test]
    fn only_a_near_word_is_suggested() {
        let known = ["prefix", "scope", "store", "path"];
        assert_eq!(nearest("prefx", known), Some("prefix"));
        assert_eq!(nearest("stroe", known), Some("store"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("b", ["a"]), None);
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!(quoted_list(["a", "b", "c"]), "`a`, `b` and `c`");
        assert_eq!(quoted_list(["a"]), "`a`");
        assert_eq!(quoted_list([]), "none");
    }
}
