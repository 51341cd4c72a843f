-- Format 10: the places of a fork that were Workspaces of their own for its maker, and are no part of it. A JSON array of
-- paths, counted from the fork's top.
ALTER TABLE fork ADD COLUMN left_out TEXT NOT NULL DEFAULT '[]';
