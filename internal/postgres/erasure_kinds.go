package postgres

// erased is one kind of data that goes, or loses the name of its user. The check of an erasure counts what where finds, the erasing deletes
// it or sets it such that where finds it no more. @tenant, @user, @quoted (the user within a JSON string), @id, @pseudonym, @salt and @round
// are the erasure's.
type erased struct {
	name  string   // in the report; a table's, with what of it where that is not all
	table string   // empty: name
	where string   // which rows
	ready string   // which of those may go already; empty: all
	set   string   // empty: they are deleted
	sql   []string // in place of a statement made of the above
	why   string   // of those that are set: why the rows stay
}

const (
	ofTurns    = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'turn')`
	ofSessions = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'session' AND NOT done)`
	ofVisited  = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind IN ('session', 'shared') AND NOT done)`
	ofContent  = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'content')`
	ofChats    = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'chat')`
	ofRuns     = ` IN (SELECT run_id FROM workflow_runs WHERE tenant = @tenant AND user_id = @user)`
	// runsAsUser is about schedules; what is stored with a schedule says on whose behalf and with whose rights.
	runsAsUser = `tenant = @tenant AND (document->>'user_id' = @user OR principal->>'subject' = @user)`
	ofClock    = ` IN (SELECT name FROM schedules WHERE ` + runsAsUser + `)`
	ofRunClock = ` IN (SELECT run_id FROM schedule_runs WHERE tenant = @tenant AND schedule` + ofClock + `)`
	tellsUser  = `'"telegram":{"user":"' || @quoted || '"}'`

	whoDid = "what was done stays, by whom does not"

	// unnamedDetail is the detail of an audit record, as text, without the user: string by string, because a user may be called like a key, or
	// like what stands between two strings.
	unnamedDetail = `(SELECT string_agg(CASE
			WHEN s.next LIKE ':%' OR left(s.piece, 1) <> '"' THEN s.piece
			WHEN s.piece = '"' || @quoted || '"' THEN '"' || @pseudonym || '"'
			WHEN right(s.piece, length(@quoted) + 2) = '/' || @quoted || '"' THEN left(s.piece, -length(@quoted) - 1) || @pseudonym || '"'
			ELSE s.piece END, '' ORDER BY s.at)
		FROM (SELECT m[1] AS piece, m.at, lead(m[1]) OVER (ORDER BY m.at) AS next
			FROM regexp_matches(detail::text, '("(?:[^"\\]|\\.)*"|[^"]+)', 'g') WITH ORDINALITY AS m (m, at)) s)`
)

// unnamed is a column of the audit trail without the user. Its first word, as in key/… and erasure/…, is the runtime's own.
func unnamed(column string) string {
	own := `CASE WHEN position('/' IN ` + column + `) > 0 THEN split_part(` + column + `, '/', 1) ELSE '' END`
	return `(` + own + ` || turnstone_unname(substr(` + column + `, length(` + own + `) + 1), @user, @pseudonym))`
}

// erasing lists them in the order in which they go: what refers to others first.
func erasing() []erased {
	return append(append(erasingWays(), erasingTurns()...), erasingNames()...)
}

// erasingWays are the user's ways in, and what ran on his behalf besides turns.
func erasingWays() []erased {
	return []erased{
		{name: "api_keys", where: `tenant = @tenant AND subject = @user`},
		{name: "chat_questions", where: `turn_id IN (SELECT turn_id FROM chat_turns WHERE tenant = @tenant AND user_id = @user)`},
		{name: "chat_turns", where: `tenant = @tenant AND user_id = @user`},
		{name: "chat_link_codes", where: `tenant = @tenant AND user_id = @user`},
		{name: "chat_links", where: `tenant = @tenant AND user_id = @user`},
		{name: "chat_link_failures", where: `channel || '/' || chat_id` + ofChats},
		{name: "chat_threads", where: `channel || '/' || chat_id` + ofChats},
		{name: "admissions", where: `tenant = @tenant AND kind = 'user' AND name = turnstone_short_name(@user)`},
		{name: "turn_places", where: `tenant = @tenant AND user_id = turnstone_short_name(@user)`},
		{name: "schedule_notices", where: `run_id` + ofRunClock},
		{name: "schedule_runs", where: `run_id` + ofRunClock},
		{name: "schedules", where: runsAsUser},
		{name: "workflow_run_attempts", where: `run_id` + ofRuns},
		{name: "workflow_run_steps", where: `run_id` + ofRuns},
		{name: "workflow_runs", where: `tenant = @tenant AND user_id = @user`},
	}
}

// erasingTurns is what the user said and was answered.
func erasingTurns() []erased {
	return []erased{
		{name: "pipeline_samples", where: `tenant = @tenant AND (
			used_at IN (SELECT at FROM pipeline_uses WHERE tenant = @tenant AND split_part(key, '/', 1)` + ofTurns + `)
			OR NOT EXISTS (SELECT FROM pipeline_uses u WHERE u.tenant = @tenant AND u.at = used_at)
				AND EXISTS (SELECT FROM tool_calls WHERE turn_id` + ofTurns + ` AND name = 'execute_pipeline'))`},
		{name: "pipeline_uses", where: `tenant = @tenant AND split_part(key, '/', 1)` + ofTurns},
		{name: "events", where: `stream_id` + ofTurns},
		{name: "stream_producers", where: `stream_id` + ofTurns},
		{name: "streams", where: `stream_id` + ofTurns},
		{name: "agent_results", where: `turn_id` + ofTurns},
		{name: "prepared", where: `turn_id` + ofTurns},
		{name: "approvals", where: `turn_id` + ofTurns},
		{name: "tool_calls", where: `turn_id` + ofTurns},
		{name: "turn_steps", where: `turn_id` + ofTurns},
		{name: "turn_tools", where: `turn_id` + ofTurns},
		{name: "messages", where: `turn_id` + ofTurns},
		{name: "remembered_decisions", where: `tenant = @tenant AND (by = @user OR session_id` + ofSessions + `)`},
		// Whoever was there, notes and references are made of everything that was said: in shared sessions they are made anew.
		{name: "session_notes", where: `tenant = @tenant AND session_id` + ofVisited},
		{name: "reference_names", where: `tenant = @tenant AND session_id` + ofVisited},
		{name: "session_references", where: `tenant = @tenant AND session_id` + ofVisited},
		{name: "reference_lists", where: `tenant = @tenant AND session_id` + ofSessions},
		{name: "result_cache", where: `tenant = @tenant AND 'cas://sha256:' || digest` + ofContent},
		{
			name: "schedule_runs of others", table: "schedule_runs", where: `tenant = @tenant AND turn_id` + ofTurns,
			set: `turn_id = '', session_id = '', output = '', digest = '', result_ref = '', error = NULL`,
			why: "the run was of another's schedule; its answer is gone",
		},
		{
			name: "workflow_run_steps of others", table: "workflow_run_steps", where: `turn_id` + ofTurns,
			set: `turn_id = '', output = NULL, ref = '', error = NULL`, why: "the run was another's; what the step put out is gone",
		},
		{
			name: "usage_ledger", where: `tenant = @tenant AND (user_id = @user OR turn_id` + ofTurns + `)`,
			set: `user_id = @pseudonym, session_id = '', turn_id = 'erased-' || encode(sha256(convert_to(@salt || turn_id, 'UTF8')), 'hex')`,
			why: "what was paid stays countable, under a pseudonym; turn and session are no longer named",
		},
		{
			// Before usage_daily, where these rows go under the name that they have then.
			name: "usage_pending", where: `tenant = @tenant AND user_id = @user`, set: `user_id = @pseudonym`,
			why: "what was paid stays countable, under a pseudonym",
		},
		{
			// Slots of a round of their own: the day may have rows of the pseudonym already, of the round before.
			name: "usage_daily", where: `tenant = @tenant AND kind = 'user' AND name = turnstone_short_name(@user)`,
			set: `name = @pseudonym, slot = slot + 1000 * @round::integer`, why: "what was paid stays countable, under a pseudonym",
		},
		{
			name: "sessions held", table: "sessions", set: `holder = NULL`, where: `tenant = @tenant AND holder` + ofTurns,
			why: "the next turn of the session may run",
		},
		{name: "turns", where: `turn_id` + ofTurns},
		{
			name: "sessions", where: `tenant = @tenant AND session_id` + ofSessions,
			ready: `NOT EXISTS (SELECT FROM turns t WHERE t.tenant = sessions.tenant AND t.session_id = sessions.session_id)`,
		},
		{name: "blob_refs", where: `tenant = @tenant AND holder IN (SELECT 'turn/' || name FROM erasure_marks WHERE erasure_id = @id AND kind = 'turn')`},
	}
}

// erasingNames is where the user is named in what is not his.
func erasingNames() []erased {
	named := func(table, column string) erased {
		return erased{
			name: table + "." + column, table: table, where: `tenant = @tenant AND ` + column + ` = @user`, set: column + ` = @pseudonym`, why: whoDid,
		}
	}
	return []erased{
		{
			// Before the approvals, which say in whose streams they are: the turn's, and those of the turns that it was begun by.
			name: "events of decisions", table: "events", where: `event->>'type' = 'approval_resolved' AND event->'approval'->>'by' = @user
				AND stream_id IN (WITH RECURSIVE heard AS (SELECT turn_id FROM approvals WHERE tenant = @tenant AND decided_by = @user
					UNION SELECT t.parent FROM heard JOIN turns t ON t.turn_id = heard.turn_id AND t.tenant = @tenant WHERE t.parent <> ''
				) SELECT turn_id FROM heard)`,
			set: `event = (jsonb_set(event::jsonb, '{approval,by}', to_jsonb(@pseudonym::text)) #- '{approval,message}' #- '{approval,decided_args}')::json`,
			why: whoDid,
		},
		{
			name: "approvals.decided_by", table: "approvals", where: `tenant = @tenant AND decided_by = @user`,
			ready: `EXISTS (SELECT FROM turns t WHERE t.turn_id = approvals.turn_id AND t.state NOT IN ('queued', 'running'))`,
			set:   `decided_by = @pseudonym, message = '', decided_args = NULL`, why: "the call is another's; what the user wrote with his decision is gone",
		},
		named("api_keys", "created_by"), named("chat_links", "linked_by"), named("chat_link_codes", "linked_by"),
		named("schedules", "created_by"), named("schedules", "updated_by"),
		{
			name: "schedules.notify", table: "schedules", where: `tenant = @tenant AND position(` + tellsUser + ` IN document::text) > 0`,
			set: `document = replace(document::text, ` + tellsUser + `, '"telegram":{"user":"' || @pseudonym || '"}')::json`,
			why: "the schedule is another's; it tells the user no more",
		},
		{
			name: "schedules.note", table: "schedules", where: `tenant = @tenant AND note <> turnstone_unname(note, @user, @pseudonym)`,
			set: `note = turnstone_unname(note, @user, @pseudonym)`, why: whoDid,
		},
		named("workflow_versions", "updated_by"),
		{
			name: "workflow_definitions.owner", table: "workflow_definitions", where: `tenant = @tenant AND owner = @user`,
			why: "processes are the tenant's: they stay, under a pseudonym",
			sql: []string{
				`INSERT INTO workflow_definitions SELECT tenant, tag, @pseudonym, version, deleted FROM workflow_definitions
				WHERE tenant = @tenant AND owner = @user ON CONFLICT DO NOTHING`,
				// A tag that came anew since the round before has versions that the pseudonym has too.
				`UPDATE workflow_versions v SET owner = @pseudonym, version = v.version + coalesce((
					SELECT max(o.version) FROM workflow_versions o WHERE o.tenant = v.tenant AND o.tag = v.tag AND o.owner = @pseudonym), 0)
				WHERE v.tenant = @tenant AND v.owner = @user`,
				`DELETE FROM workflow_definitions WHERE tenant = @tenant AND owner = @user`,
			},
		},
		named("workflow_runs", "owner"), named("workflow_requests", "owner"),
		named("catalog_documents", "updated_by"), named("catalog_history", "by"),
		{
			name: "audit_log", why: "the trail stays whole: the user is a pseudonym in it, and the addresses that he came from are gone",
			// What the runtime itself wrote of an erasure names nobody: it is the other half of a proof.
			where: `tenant = @tenant AND (action <> 'erasures.write' OR method <> '' OR detail->'digest' IS NULL)
				AND (subject = @user
				OR credential <> ` + unnamed("credential") + ` OR resource <> ` + unnamed("resource") + `
				OR (position('"' || @quoted || '"' IN detail::text) > 0 OR position('/' || @quoted || '"' IN detail::text) > 0)
					AND detail::text <> ` + unnamedDetail + `)`,
			set: `remote = CASE subject WHEN @user THEN '' ELSE remote END, subject = CASE subject WHEN @user THEN @pseudonym ELSE subject END,
				credential = ` + unnamed("credential") + `, resource = ` + unnamed("resource") + `, detail = ` + unnamedDetail + `::jsonb`,
		},
	}
}

// spared lists the tables in which nothing goes, with the reason.
func spared() [][2]string {
	configured := "configuration of the tenant, no user's"
	return [][2]string{
		{"blob_collection", "how far the collection of content has come"},
		{"stream_peers", "where processes hand each other events"},
		{"blobs", "sizes and digests of content: counted under content, and gone with it"},
		{"catalog_artifacts", configured},
		{"catalog_head", "a number"},
		{"composite_versions", "tools made of pipelines that several turns had in common; what differed between them is a parameter"},
		{"composites", "tools made of pipelines that several turns had in common"},
		{"erasure_counts", "numbers"},
		{"erasure_marks", "of erasures under way; empty once one has ended"},
		{"erasures", "the reports themselves; the user's id goes with the end"},
		{"knowledge_chunks", "the tenant's documents, no user's: remove a document that is about somebody by its name"},
		{"knowledge_documents", "as their chunks"},
		{"knowledge_vectors", "as their chunks"},
		{"pipeline_shapes", "shapes of pipelines, without values"},
		{"plans", configured},
		{"retention_marks", "how far retention has come"},
		{"turnstone_schema_version", "a number"},
	}
}
