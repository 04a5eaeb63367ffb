-- The unique index of the constraint agent_results_job_id_key serves every search by job_id.
DROP INDEX idx_agent_results_job_id;
