-- Format 11: what the audit has no record of, since it was off: how many versions were made then, and up to which version
-- history was forgotten. What is there already counts as that.
INSERT INTO meta(id, name, value)
  SELECT 5, 'unrecorded', (SELECT count(*) FROM version)
  UNION ALL SELECT 6, 'forgotten_unrecorded', (SELECT value FROM meta WHERE id = 3);
