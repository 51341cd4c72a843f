//! Reads the records of an organization that are in `stead.toml`.

use std::ops::Range;

use stead_core::organization::{
    AgentRecord, OrganizationRecords, RecordField, RecordRef, TeamRecord, ToolRule,
};

use super::{Position, RecordPositions};
use crate::config::section::{Section, WithSpan};

/// Reads the records; `None` if some id is missing.
pub(super) fn read(section: &Section<'_>, positions: &mut RecordPositions) -> Option<OrganizationRecords> {
    let mut add_position = |section: &Section<'_>, record, field, span: Option<Range<usize>>| {
        let (line, column) =
            span.map_or_else(|| section.position(), |span| section.document().position(&span));
        positions.insert(record, field, Position { file: None, line, column });
    };
    let id = section.required("id", "its id, or `path` with the directory of its records");
    let (tools, tools_span) = tools(section);
    add_position(section, RecordRef::Organization, None, None);
    add_position(section, RecordRef::Organization, Some(RecordField::Id), span(&id));
    add_position(section, RecordRef::Organization, Some(RecordField::Tools), tools_span);
    let name = section.text("name").map(|text| text.value.to_owned());
    let mut teams = Vec::new();
    let (team_sections, agent_sections) = (section.tables("teams"), section.tables("agents"));
    for (index, section) in team_sections.iter().enumerate() {
        let (id, (tools, tools_span)) = (section.required("id", "its id"), self::tools(section));
        add_position(section, RecordRef::Team(index), None, None);
        add_position(section, RecordRef::Team(index), Some(RecordField::Id), span(&id));
        add_position(section, RecordRef::Team(index), Some(RecordField::Tools), tools_span);
        teams.push(id.map(|id| TeamRecord {
            id: id.value.to_owned(),
            name: section.text("name").map(|text| text.value.to_owned()),
            leadership: section.boolean("leadership").is_some_and(|boolean| boolean.value),
            tools,
        }));
        section.reject_unknown_keys();
    }
    let mut agents = Vec::new();
    for (index, section) in agent_sections.iter().enumerate() {
        let (id, (tools, tools_span)) = (section.required("id", "its id"), self::tools(section));
        let team_id = section.text("teamId");
        add_position(section, RecordRef::Agent(index), None, None);
        add_position(section, RecordRef::Agent(index), Some(RecordField::Id), span(&id));
        add_position(section, RecordRef::Agent(index), Some(RecordField::TeamId), span(&team_id));
        add_position(section, RecordRef::Agent(index), Some(RecordField::Tools), tools_span);
        agents.push(id.map(|id| AgentRecord {
            id: id.value.to_owned(),
            name: section.text("name").map(|text| text.value.to_owned()),
            team_id: team_id.map(|text| text.value.to_owned()),
            tools,
        }));
        section.reject_unknown_keys();
    }
    Some(OrganizationRecords {
        id: id?.value.to_owned(),
        name,
        tools,
        teams: teams.into_iter().collect::<Option<_>>()?,
        agents: agents.into_iter().collect::<Option<_>>()?,
        ..OrganizationRecords::default()
    })
}

fn span<T>(value: &Option<WithSpan<T>>) -> Option<Range<usize>> {
    value.as_ref().map(|value| value.span.clone())
}

/// The rule of a record, and where it is.
fn tools(section: &Section<'_>) -> (ToolRule, Option<Range<usize>>) {
    let listed = section.texts("toolWhitelist");
    let span = span(&listed);
    let whitelist = listed.map(|names| names.value.iter().map(|name| name.value.to_owned()).collect());
    (ToolRule { whitelist, ..ToolRule::default() }, span)
}
