-- Usage of requests that were cut off before the provider said what they used, and why a turn that was to be direct is not.

ALTER TABLE usage_ledger ADD COLUMN estimated boolean NOT NULL DEFAULT false;

CREATE INDEX usage_ledger_estimated ON usage_ledger (tenant, created_at) WHERE estimated;

ALTER TABLE turns ADD COLUMN fallback text NOT NULL DEFAULT ''; -- empty: the turn was not to be direct, or is

---- create above / drop below ----

ALTER TABLE turns DROP COLUMN fallback;
DROP INDEX usage_ledger_estimated;
ALTER TABLE usage_ledger DROP COLUMN estimated;
