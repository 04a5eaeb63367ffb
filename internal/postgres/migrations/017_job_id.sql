-- The unique index of the constraint serves every search by job_id, under the name that the requirements give to the index.
DROP INDEX idx_agent_results_job_id;
ALTER INDEX agent_results_job_id_key RENAME TO idx_agent_results_job_id;
