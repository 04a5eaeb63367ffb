-- The calls of models without a price, which reports count.
CREATE INDEX usage_ledger_unpriced ON usage_ledger (tenant, created_at) WHERE cost_usd = 0 AND (input_tokens > 0 OR output_tokens > 0);
