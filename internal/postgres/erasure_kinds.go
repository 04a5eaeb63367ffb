package postgres

import "slices"

// erasedKind is a kind of data that is deleted, or no longer names its user. An erasure deletes the rows that where finds, or changes them
// so that where no longer finds them; its check counts them. @tenant, @user, @quoted (the user within a JSON string), @id, @pseudonym,
// @salt and @round are those of the erasure.
type erasedKind struct {
	name  string   // in the report: a table, with the part of it that is meant
	table string   // empty: name
	where string   // chooses the rows
	ready string   // chooses those that may be erased already; empty: all
	set   string   // empty: the rows are deleted
	sql   []string // instead of a statement from the fields above
	why   string   // the rows stay, if they are changed
}

const (
	ofTurns    = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'turn')`
	ofSessions = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'session' AND NOT done)`
	ofShared   = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'shared' AND NOT done)`
	ofVisited  = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind IN ('session', 'shared') AND NOT done)`
	ofContent  = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'content')`
	ofChats    = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'chat')`
	ofRuns     = ` IN (SELECT run_id FROM workflow_runs WHERE tenant = @tenant AND user_id = @user)`
	// runsAsUser chooses schedules that run on behalf of the user or with the rights of the user.
	runsAsUser = `tenant = @tenant AND (document->>'user_id' = @user OR principal->>'subject' = @user)`
	ofClock    = ` IN (SELECT name FROM schedules WHERE ` + runsAsUser + `)`
	ofRunClock = ` IN (SELECT run_id FROM schedule_runs WHERE tenant = @tenant AND schedule` + ofClock + `)`
	tellsUser  = `'"telegram":{"user":"' || @quoted || '"}'`

	whoDid = "what was done stays, by whom does not"

	// unnamedDetail is the detail of an audit record, as text, without the user. It replaces string by string, because the user may have the
	// name of a key, or a name that occurs between two strings.
	unnamedDetail = `(SELECT string_agg(CASE
			WHEN s.next LIKE ':%' OR left(s.piece, 1) <> '"' THEN s.piece
			WHEN s.piece = '"' || @quoted || '"' THEN '"' || @pseudonym || '"'
			WHEN right(s.piece, length(@quoted) + 2) = '/' || @quoted || '"' THEN left(s.piece, -length(@quoted) - 1) || @pseudonym || '"'
			ELSE s.piece END, '' ORDER BY s.at)
		FROM (SELECT m[1] AS piece, m.at, lead(m[1]) OVER (ORDER BY m.at) AS next
			FROM regexp_matches(detail::text, '("(?:[^"\\]|\\.)*"|[^"]+)', 'g') WITH ORDINALITY AS m (m, at)) s)`
)

// withoutUser returns an expression for a column of the audit trail without the user. Its first word, as in key/… and erasure/…, stays.
func withoutUser(column string) string {
	prefix := `CASE WHEN position('/' IN ` + column + `) > 0 THEN split_part(` + column + `, '/', 1) ELSE '' END`
	return `(` + prefix + ` || turnstone_unname(substr(` + column + `, length(` + prefix + `) + 1), @user, @pseudonym))`
}

// erasedKinds returns all kinds in the order in which they are erased: rows that refer to others first.
func erasedKinds() []erasedKind {
	return slices.Concat(accessKinds(), turnKinds(), nameKinds())
}

// accessKinds returns the user's keys and chats, and what ran on behalf of the user besides turns.
func accessKinds() []erasedKind {
	return []erasedKind{
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

// turnKinds returns the user's turns and their data.
func turnKinds() []erasedKind {
	return []erasedKind{
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
		// Notes and references contain data of everybody in the session: in shared sessions they are built again.
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
			// Before usage_daily, which these rows are added to under their new name.
			name: "usage_pending", where: `tenant = @tenant AND user_id = @user`, set: `user_id = @pseudonym`,
			why: "what was paid stays countable, under a pseudonym",
		},
		{
			// Each round has its own slots: the day may have rows of the pseudonym from the round before.
			name: "usage_daily", where: `tenant = @tenant AND kind = 'user' AND name = turnstone_short_name(@user)`,
			set: `name = @pseudonym, slot = slot + 1000 * @round::integer`, why: "what was paid stays countable, under a pseudonym",
		},
		{
			name: "sessions held", table: "sessions", set: `holder = NULL`, where: `tenant = @tenant AND holder` + ofTurns,
			why: "the next turn of the session may run",
		},
		{
			name: "sessions.forked_from", table: "sessions", set: `forked_from = ''`, where: `tenant = @tenant AND forked_from` + ofSessions,
			why: "the branch is another's; its origin is no longer named",
		},
		{name: "turns", where: `turn_id` + ofTurns},
		{
			name: "sessions", where: `tenant = @tenant AND session_id` + ofSessions,
			ready: `NOT EXISTS (SELECT FROM turns t WHERE t.tenant = sessions.tenant AND t.session_id = sessions.session_id)`,
		},
		{
			name: "sessions.title", table: "sessions", set: `title = '', titled_by = ''`,
			where: `tenant = @tenant AND title <> '' AND (titled_by = @user OR session_id` + ofShared + `)`,
			why:   "others are in the session too, or it is another's; its title may have told of the user",
		},
		{name: "blob_refs", where: `tenant = @tenant AND holder IN (SELECT 'turn/' || name FROM erasure_marks WHERE erasure_id = @id AND kind = 'turn')`},
	}
}

// nameKinds returns the places where data of others names the user.
func nameKinds() []erasedKind {
	named := func(table, column string) erasedKind {
		return erasedKind{
			name: table + "." + column, table: table, where: `tenant = @tenant AND ` + column + ` = @user`, set: column + ` = @pseudonym`, why: whoDid,
		}
	}
	return []erasedKind{
		{
			// Before the approvals, which lead to the streams: that of the turn, and those of its parents.
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
				// A tag that was created again since the round before has versions that the pseudonym has too.
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
			// The record of the runtime about an erasure names nobody: it proves the report.
			where: `tenant = @tenant AND (action <> 'erasures.write' OR method <> '' OR detail->'digest' IS NULL)
				AND (subject = @user
				OR credential <> ` + withoutUser("credential") + ` OR resource <> ` + withoutUser("resource") + `
				OR (position('"' || @quoted || '"' IN detail::text) > 0 OR position('/' || @quoted || '"' IN detail::text) > 0)
					AND detail::text <> ` + unnamedDetail + `)`,
			set: `remote = CASE subject WHEN @user THEN '' ELSE remote END, subject = CASE subject WHEN @user THEN @pseudonym ELSE subject END,
				credential = ` + withoutUser("credential") + `, resource = ` + withoutUser("resource") + `, detail = ` + unnamedDetail + `::jsonb`,
		},
	}
}

// sparedTables returns the tables in which nothing is erased, with the reason.
func sparedTables() [][2]string {
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
