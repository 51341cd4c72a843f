-- Format 11: an agent's versions are found by their numbers, newest first. `at` is there to pass by older ones unread.
DROP INDEX version_agent;
CREATE INDEX version_agent ON version(agent, id, at);

-- What the audit has no record of, since it was off: how many versions were made then, and up to which version history was
-- forgotten. What is there already counts as that.
INSERT INTO meta(id, name, value)
  SELECT 5, 'unrecorded', (SELECT count(*) FROM version)
  UNION ALL SELECT 6, 'forgotten_unrecorded', (SELECT value FROM meta WHERE id = 3);
