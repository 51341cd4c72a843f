//! Searching the content of many small files, compared with ripgrep on the same files on disk.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::case::Effort;
use crate::contender::{Contender, Disk, WriteMethod};
use crate::content::{COMMON, RARE, SMALL, text};
use crate::measure::{in_turns, timed};
use crate::table::{Table, Unit, count};

const FILES: usize = 10_000;

/// How many files contain a text, and how many lines do.
type MatchCounts = (usize, usize);
type Search = dyn Fn(&str) -> Result<MatchCounts>;

/// One way to search.
struct Searcher {
    label: &'static str,
    search: Box<Search>,
}

/// One table.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let searchers = searchers(data)?;
    let labels = searchers.iter().map(|searcher| searcher.label).collect::<Vec<_>>();
    let pairs = [("Virtual", "ripgrep"), ("Physical", "ripgrep")];
    let mut table = Table::new(format!("{} files of 4 KiB", count(FILES)), &labels, &pairs);
    for (name, literal) in [("a rare literal", RARE), ("a common literal", COMMON)] {
        let expected = expected(literal);
        let summaries = in_turns(&searchers, effort.rounds(), |searcher, _| {
            let sample = timed(1, || {
                let found = (searcher.search)(literal)?;
                let error = || format!("{}: {found:?} instead of {expected:?}", searcher.label).into();
                if found == expected { Ok(()) } else { Err(error()) }
            })?;
            Ok(Some(sample))
        })?;
        table.row(
            format!("{name} ({} files, {} lines)", count(expected.0), count(expected.1)),
            &summaries,
            Unit::Time,
        );
    }
    Ok(vec![table])
}

fn files() -> impl Iterator<Item = (String, Vec<u8>)> {
    (0..FILES).map(|number| {
        let mut content = text(number, SMALL);
        if number % (FILES / 3) == 7 {
            let line = format!("{RARE}\n");
            content[100..100 + line.len()].copy_from_slice(line.as_bytes());
        }
        (format!("{:02}/{number}.txt", number / 100), content)
    })
}

fn expected(literal: &str) -> MatchCounts {
    let lines = files().map(|(_, content)| {
        let content = String::from_utf8(content).expect("the content is text");
        content.lines().filter(|line| line.contains(literal)).count()
    });
    lines.filter(|&lines| lines > 0).fold((0, 0), |(files, total), lines| (files + 1, total + lines))
}

fn searchers(data: &Path) -> Result<Vec<Searcher>> {
    let mut searchers = Vec::new();
    let root = data.join("disk");
    std::fs::create_dir(&root)?;
    Disk::open(&root, WriteMethod::Plain).fill(&mut files())?;
    for (label, name) in [("Virtual", "virtual"), ("Physical", "physical")] {
        let directory = data.join(name);
        std::fs::create_dir(&directory)?;
        let fast = crate::contender::Durability::Fast;
        let store = match label {
            "Virtual" => crate::contender::SteadStore::in_database(&directory, fast)?,
            _ => crate::contender::SteadStore::on_disk(&directory, fast)?,
        };
        store.fill(&mut files())?;
        searchers
            .push(Searcher { label, search: Box::new(move |literal| grep_store(&**store.store(), literal)) });
    }
    searchers
        .push(Searcher { label: "ripgrep", search: Box::new(move |literal| with_ripgrep(&root, literal)) });
    Ok(searchers)
}

fn grep_store(store: &dyn stead_core::Store, literal: &str) -> Result<MatchCounts> {
    use stead_core::glob::PathGlobs;
    use stead_core::search::{Grep, GrepOutput, GrepQuery, PatternSyntax};
    use stead_core::store::NodePath;

    let query = GrepQuery {
        syntax: PatternSyntax::Literal,
        output: GrepOutput::Counts,
        max_results: usize::MAX,
        ..GrepQuery::new(literal)
    };
    let grep = Grep::new(&query, None, PathGlobs::none())?;
    let (mut files, mut lines) = (0, 0);
    store.grep(&NodePath::root(), &grep, &mut |file_matches| {
        files += 1;
        lines += file_matches.hits.count;
        std::ops::ControlFlow::Continue(())
    })?;
    Ok((files, lines))
}

/// Searches with ripgrep, with options that make it skip no file: the Stores skip none either.
fn with_ripgrep(root: &Path, literal: &str) -> Result<MatchCounts> {
    let mut command = Command::new("rg");
    command.args(["-uuu", "--no-messages", "--fixed-strings", "--count", literal]).current_dir(root);
    let output = command.output()?;
    let text = String::from_utf8(output.stdout)?;
    let counts = text.lines().map(|line| Ok(line.rsplit(':').next().unwrap_or_default().parse::<usize>()?));
    let counts = counts.collect::<Result<Vec<_>>>()?;
    Ok((counts.len(), counts.iter().sum()))
}
