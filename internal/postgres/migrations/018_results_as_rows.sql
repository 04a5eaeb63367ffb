-- A result's row as orchestrators read it: result_data, or the content that cas_id and s3_ref name, are the rows alone. What the agent answered
-- besides is in answer. Where answer is null, as in rows of releases from before and in results without rows, result_data or the content is the
-- whole document {output, structured, blocks, data_ref, data}. cache_hit is the provider's prompt cache.

ALTER TABLE agent_results
    ADD COLUMN answer             json,                           -- {output, structured, blocks, data_ref}
    ADD COLUMN pipeline_cache_hit boolean NOT NULL DEFAULT false; -- a tool answered out of the result cache

UPDATE agent_results SET pipeline_cache_hit = cache_hit IS TRUE, cache_hit = coalesce(cached_tokens, 0) > 0
WHERE cache_hit OR cached_tokens > 0;

---- create above / drop below ----

UPDATE agent_results SET cache_hit = pipeline_cache_hit WHERE cache_hit OR pipeline_cache_hit;
UPDATE agent_results SET cas_id = NULL, s3_ref = NULL,
    result_data = answer::jsonb || CASE WHEN result_data IS NULL THEN '{}' ELSE jsonb_build_object('data', result_data) END
WHERE answer IS NOT NULL;
ALTER TABLE agent_results DROP COLUMN answer, DROP COLUMN pipeline_cache_hit;
