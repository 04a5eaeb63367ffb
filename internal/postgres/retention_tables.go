package postgres

// What is not kept for a time: it stays until somebody deletes it, or goes by a rule of its own.
const (
	KeptStanding = "standing"
	KeptOwnRule  = "own rule"
)

// KindsOfTables says of which kind each table is.
func KindsOfTables() map[string]string {
	of := map[string]string{}
	for kind, tables := range map[string][]string{
		KeptEvents:      {"events", "stream_producers"},
		KeptTranscripts: {"messages", "turn_steps", "session_notes", "remembered_decisions", "reference_lists", "session_references", "reference_names"},
		KeptResults:     {"agent_results"},
		KeptBlobs:       {"blobs", "blob_refs"},
		KeptTraces: {
			"tool_calls", "approvals", "prepared", "turn_tools", "workflow_runs", "workflow_run_steps", "workflow_run_attempts", "schedule_runs",
			"schedule_notices", "pipeline_shapes", "pipeline_uses", "pipeline_samples",
		},
		KeptAudit: {"audit_log"},
		KeptUsage: {"usage_ledger", "usage_daily"},
		KeptTurns: {"turns", "sessions", "streams"},
		KeptOwnRule: {
			"admissions", "turn_places", "result_cache", "chat_link_codes", "chat_link_failures", "chat_turns", "chat_questions", "workflow_requests",
			"retention_marks", "blob_collection", "usage_pending", "stream_peers",
		},
		KeptStanding: {
			"catalog_head", "catalog_documents", "catalog_artifacts", "catalog_history", "knowledge_documents", "knowledge_chunks", "knowledge_vectors",
			"workflow_definitions", "workflow_versions", "composites", "composite_versions", "api_keys", "chat_links",
			"chat_threads", "schedules", "erasures", "erasure_counts", "erasure_marks",
			versionTable,
		},
	} {
		for _, table := range tables {
			of[table] = kind
		}
	}
	return of
}
