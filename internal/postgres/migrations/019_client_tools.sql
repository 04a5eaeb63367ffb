-- What a turn waits for besides a person's approval, in the same table: the result of a tool that runs at the caller.

ALTER TABLE approvals ADD COLUMN kind text NOT NULL DEFAULT ''; -- empty: an approval; client_tool: decided_args or message is the result
ALTER TABLE approvals DROP CONSTRAINT approvals_decision_check;
ALTER TABLE approvals ADD CONSTRAINT approvals_decision_check CHECK (decision IN ('approve', 'edit', 'reject', 'respond', 'provide'));

ALTER TABLE turns ADD COLUMN client_tools json; -- the request's

---- create above / drop below ----

ALTER TABLE turns DROP COLUMN client_tools;
DELETE FROM approvals WHERE kind <> '';
ALTER TABLE approvals DROP CONSTRAINT approvals_decision_check;
ALTER TABLE approvals ADD CONSTRAINT approvals_decision_check CHECK (decision IN ('approve', 'edit', 'reject', 'respond'));
ALTER TABLE approvals DROP COLUMN kind;
