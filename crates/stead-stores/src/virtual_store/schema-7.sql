-- Format 7: operations are found by their agent, and by their name, however many there are.
CREATE INDEX version_agent ON version(agent, at);
CREATE INDEX version_operation ON version(operation);
