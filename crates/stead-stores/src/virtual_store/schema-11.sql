-- Format 11: an agent's versions are found by their numbers, newest first. `at` is there to pass by older ones unread.
DROP INDEX version_agent;
CREATE INDEX version_agent ON version(agent, id, at);
