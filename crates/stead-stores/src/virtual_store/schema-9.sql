-- A fork asks a person first where the Workspace did that it was made of.
ALTER TABLE fork ADD COLUMN ask TEXT NOT NULL DEFAULT 'never';
