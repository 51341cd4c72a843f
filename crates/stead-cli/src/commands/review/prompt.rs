//! Asks about changes, hunk by hunk, with the answers of `git add -p`.

use std::collections::VecDeque;
use std::io::{BufRead, stdin};
use std::sync::Arc;

use stead::NodeKind;
use stead::history::hunks::{Hunk, HunkDecision, TextChange};
use stead::name::escape_line;
use stead::vfs::ChangedContent;

use super::decisions::{Decision, ReviewedChange};
use super::editor;
use crate::command_error::CommandError;
use crate::human;
use crate::session::{Colour, Session};

/// What a person can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    /// This and the rest of the file.
    All,
    /// Nothing of the rest of the file.
    None,
    Edit,
    Split,
    Quit,
}

const EXECUTE_BITS: u32 = 0o111;

/// An answer, its letter and its meaning.
const ANSWERS: [(Answer, char, &str); 7] = [
    (Answer::Yes, 'y', "take this"),
    (Answer::No, 'n', "refuse this"),
    (Answer::All, 'a', "take this and the rest of the file"),
    (Answer::None, 'd', "refuse this and the rest of the file"),
    (Answer::Edit, 'e', "edit this hunk"),
    (Answer::Split, 's', "split this hunk into smaller ones"),
    (Answer::Quit, 'q', "quit; what was not decided stays in the fork"),
];

/// Asks about each change until the person quits.
pub(super) fn ask_all(changes: &mut [ReviewedChange<'_>], session: &mut Session) -> Result<(), CommandError> {
    let asked: Vec<usize> =
        (0..changes.len()).filter(|index| !changes[*index].follows_others(changes)).collect();
    for index in asked {
        print_heading(&changes[index], session)?;
        // What goes with a replacement is shown with it.
        for part in changes.iter().filter(|change| change.is_part_of(index)) {
            print_heading(part, session)?;
            print_whole(part, session)?;
        }
        let change = &mut changes[index];
        let goes_on = match change.texts().filter(|_| !change.is_addition()) {
            Some((before, after)) => match TextChange::new(before, after) {
                Some(text) => ask_hunks(change, &text, session)?,
                None => ask_whole(change, session)?,
            },
            None => ask_whole(change, session)?,
        };
        if !goes_on {
            return Ok(());
        }
    }
    Ok(())
}

fn print_heading(change: &ReviewedChange<'_>, session: &mut Session) -> Result<(), CommandError> {
    let from = change.from().map_or(String::new(), |from| format!("{from} -> "));
    let suffix = change.kind().map_or("", human::kind_suffix);
    let heading = format!("{} {from}{}{suffix}", change.action(), change.path);
    session.print_line(session.paint(Colour::Bold, heading))?;
    let (_, after) = change.before_and_after();
    if let Some((before, after)) = change.modes() {
        session.print_line(format_args!("mode {before:o} -> {after:o}"))?;
    } else if let Some(mode) = after.and_then(|after| after.mode_after).filter(|_| change.is_addition())
        && change.kind() == Some(NodeKind::File)
        && mode & EXECUTE_BITS != 0
    {
        session.print_line(format_args!("mode {mode:o}"))?;
    }
    if let Some(tags) = change.tags() {
        session.print_line(format_args!("tags {}", human::escape_text(&tags.to_string())))?;
    }
    Ok(())
}

/// Asks about each hunk, and about a rename before. Returns whether the person goes on.
fn ask_hunks(
    change: &mut ReviewedChange<'_>,
    text: &TextChange<'_>,
    session: &mut Session,
) -> Result<bool, CommandError> {
    let is_renamed = change.from().is_some();
    if is_renamed {
        let allowed = [Answer::Yes, Answer::No, Answer::All, Answer::None];
        match ask("Take this rename", &allowed, session)? {
            Answer::Yes => {}
            Answer::All => {
                change.decide(Decision::Take);
                return Ok(true);
            }
            Answer::Quit => return Ok(false),
            // Its lines can't be taken without it: the file has another name in the fork.
            _ => {
                change.decide(Decision::Refuse);
                return Ok(true);
            }
        }
    }
    let mut left: VecDeque<Hunk> = text.hunks().into();
    let (mut decided, mut count) = (Vec::new(), left.len());
    let mut has_quit = false;
    while let Some(hunk) = left.pop_front() {
        print_hunk(text, &hunk, session)?;
        let (parts, editable) = (text.split(&hunk), text.text(&hunk));
        let mut allowed = vec![Answer::Yes, Answer::No, Answer::All, Answer::None];
        allowed.extend(editable.is_some().then_some(Answer::Edit));
        allowed.extend(parts.is_some().then_some(Answer::Split));
        let number = count - left.len();
        let question = format!("({number}/{count}) Take this hunk");
        match ask(&question, &allowed, session)? {
            Answer::Yes => decided.push((hunk, HunkDecision::Take)),
            Answer::No => decided.push((hunk, HunkDecision::Refuse)),
            Answer::All => {
                decided.extend([hunk].into_iter().chain(left).map(|hunk| (hunk, HunkDecision::Take)));
                break;
            }
            Answer::None => {
                decided.extend([hunk].into_iter().chain(left).map(|hunk| (hunk, HunkDecision::Refuse)));
                break;
            }
            Answer::Edit => {
                let editable = editable.unwrap_or_default();
                match editor::edit(text, (&hunk, &editable), |why| session.warn(why))? {
                    Some(decision) => decided.push((hunk, decision)),
                    None => left.push_front(hunk),
                }
            }
            Answer::Split => {
                let parts = parts.unwrap_or_default();
                count += parts.len().saturating_sub(1);
                parts.into_iter().rev().for_each(|part| left.push_front(part));
            }
            Answer::Quit => {
                decided.extend([hunk].into_iter().chain(left).map(|hunk| (hunk, HunkDecision::Refuse)));
                has_quit = true;
                break;
            }
        }
    }
    change.decide_hunks(decided, is_renamed, has_quit);
    Ok(!has_quit)
}

/// Asks about a change that is taken or refused as a whole. Returns whether the person goes on.
fn ask_whole(change: &mut ReviewedChange<'_>, session: &mut Session) -> Result<bool, CommandError> {
    print_whole(change, session)?;
    let what = match change.action() {
        "added" => "addition",
        "removed" => "deletion",
        "moved" => "rename",
        "attributes" => "change of the permission bits",
        "replaced" => "replacement",
        "tags" => "change of the tags",
        _ => "change",
    };
    let allowed = [Answer::Yes, Answer::No, Answer::All, Answer::None];
    match ask(&format!("Take this {what}"), &allowed, session)? {
        Answer::Yes | Answer::All => change.decide(Decision::Take),
        Answer::Quit => return Ok(false),
        _ => change.decide(Decision::Refuse),
    }
    Ok(true)
}

/// Shows what a change removes and adds.
fn print_whole(change: &ReviewedChange<'_>, session: &mut Session) -> Result<(), CommandError> {
    let empty = Vec::new();
    let (before, after) = change.before_and_after();
    let side = |content: Option<&ChangedContent>, bytes: fn(&ChangedContent) -> Option<&Arc<Vec<u8>>>| {
        content.map(|content| (content.kind, bytes(content).map(|bytes| bytes.to_vec())))
    };
    let before = side(before, |content| content.before.as_ref());
    let after = side(after, |content| content.after.as_ref());
    for (mark, side) in [('-', &before), ('+', &after)] {
        if let Some((NodeKind::Symlink, Some(leads_to))) = side {
            print_marked(mark, format_args!("-> {}", shown_line(leads_to)), session)?;
        }
    }
    let text = |side: &Option<(NodeKind, Option<Vec<u8>>)>| match side {
        Some((NodeKind::File, bytes)) => bytes.clone(),
        _ => None,
    };
    let (before, after) = (text(&before), text(&after));
    let (before, after) = (before.as_ref().unwrap_or(&empty), after.as_ref().unwrap_or(&empty));
    if let Some(text) = TextChange::new(before, after) {
        for hunk in text.hunks() {
            print_hunk(&text, &hunk, session)?;
        }
    } else if before != after {
        session.print_line(format_args!(
            "The content isn't text: {} before, {} after.",
            human::size(before.len() as u64),
            human::size(after.len() as u64)
        ))?;
    }
    Ok(())
}

fn print_hunk(text: &TextChange<'_>, hunk: &Hunk, session: &mut Session) -> Result<(), CommandError> {
    session.print_line(session.paint(Colour::Cyan, text.header(hunk)))?;
    for (mark, line) in text.lines(hunk) {
        let content = line.strip_suffix(b"\n");
        print_marked(mark, shown_line(content.unwrap_or(line)), session)?;
        if content.is_none() {
            session.print_line("\\ No newline at end of file")?;
        }
    }
    Ok(())
}

fn print_marked(mark: char, text: impl std::fmt::Display, session: &mut Session) -> Result<(), CommandError> {
    let line = format!("{mark}{text}");
    let line = match mark {
        '+' => session.paint(Colour::Green, line),
        '-' => session.paint(Colour::Red, line),
        _ => line,
    };
    session.print_line(line)
}

/// A line with everything escaped that can't be seen, except tabs.
fn shown_line(line: &[u8]) -> String {
    let parts: Vec<_> = line.split(|byte| *byte == b'\t').map(|part| escape_line(part).to_string()).collect();
    parts.join("\t")
}

/// Asks until the answer is one of the allowed ones. The end of the input quits.
fn ask(question: &str, allowed: &[Answer], session: &mut Session) -> Result<Answer, CommandError> {
    let is_allowed = |answer: Answer| answer == Answer::Quit || allowed.contains(&answer);
    let letters: Vec<String> = ANSWERS
        .into_iter()
        .filter(|(answer, ..)| is_allowed(*answer))
        .map(|(_, letter, _)| letter.to_string())
        .collect();
    loop {
        let prompt = session.paint(Colour::Blue, format_args!("{question} [{},?]?", letters.join(",")));
        session.write_output(|out| {
            use std::io::Write as _;
            write!(out, "{prompt} ")
        })?;
        session.flush()?;
        let mut line = String::new();
        let read = stdin().lock().read_line(&mut line);
        if read.map_err(|error| CommandError::host("the answer can't be read", error))? == 0 {
            session.print_line("")?;
            return Ok(Answer::Quit);
        }
        let given = line.trim().to_lowercase().chars().next();
        let found =
            ANSWERS.into_iter().find(|(answer, letter, _)| is_allowed(*answer) && given == Some(*letter));
        match found {
            Some((answer, ..)) => return Ok(answer),
            None => {
                for (_, letter, meaning) in ANSWERS.into_iter().filter(|(answer, ..)| is_allowed(*answer)) {
                    session.print_line(format_args!("{letter} - {meaning}"))?;
                }
                session.print_line("? - show this help")?;
            }
        }
    }
}
