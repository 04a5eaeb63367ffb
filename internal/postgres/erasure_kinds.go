package postgres

import "slices"

// erasedKind is a kind of data that an erasure deletes, or changes so that it no longer names the user. The condition where selects the rows
// before the erasure, and none afterwards, which the erasure checks. @tenant, @user, @quoted (the user as it appears in a JSON string), @id,
// @pseudonym, @salt and @round are those of the erasure.
type erasedKind struct {
	name  string   // in the report: a table or a part of one
	table string   // the table, if name is not the table
	where string   // selects the rows
	ready string   // selects those of them that may be erased now; empty for all
	set   string   // the changes; empty if the rows are deleted
	sql   []string // statements to use in place of the one made from these fields
	why   string   // in the report: why changed rows stay
}

const (
	inTurns    = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'turn')`
	inSessions = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'session' AND NOT done)`
	inShared   = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'shared' AND NOT done)`
	inVisited  = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind IN ('session', 'shared') AND NOT done)`
	inContent  = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'content')`
	inChats    = ` IN (SELECT name FROM erasure_marks WHERE erasure_id = @id AND kind = 'chat')`
	inRuns     = ` IN (SELECT run_id FROM workflow_runs WHERE tenant = @tenant AND user_id = @user)`
	// runsAsUser selects schedules that run on behalf of the user or with the rights of the user.
	runsAsUser     = `tenant = @tenant AND (document->>'user_id' = @user OR principal->>'subject' = @user)`
	inSchedules    = ` IN (SELECT name FROM schedules WHERE ` + runsAsUser + `)`
	inScheduleRuns = ` IN (SELECT run_id FROM schedule_runs WHERE tenant = @tenant AND schedule` + inSchedules + `)`
	notifiesUser   = `'"telegram":{"user":"' || @quoted || '"}'`

	keptUnderPseudonym = "the record stays; it names the user by a pseudonym"

	// unnamedDetail is the detail of an audit record, as text, with the pseudonym in place of the user. It replaces the user only in JSON strings
	// that are values, because the user may have the name of a key, or a name that occurs across two strings.
	unnamedDetail = `(SELECT string_agg(CASE
			WHEN s.next LIKE ':%' OR left(s.piece, 1) <> '"' THEN s.piece
			WHEN s.piece = '"' || @quoted || '"' THEN '"' || @pseudonym || '"'
			WHEN right(s.piece, length(@quoted) + 2) = '/' || @quoted || '"' THEN left(s.piece, -length(@quoted) - 1) || @pseudonym || '"'
			ELSE s.piece END, '' ORDER BY s.at)
		FROM (SELECT m[1] AS piece, m.at, lead(m[1]) OVER (ORDER BY m.at) AS next
			FROM regexp_matches(detail::text, '("(?:[^"\\]|\\.)*"|[^"]+)', 'g') WITH ORDINALITY AS m (m, at)) s)`
)

// withoutUser returns an expression for a column of the audit trail with the pseudonym in place of the user. It keeps a prefix such as key/ or
// erasure/.
func withoutUser(column string) string {
	prefix := `CASE WHEN position('/' IN ` + column + `) > 0 THEN split_part(` + column + `, '/', 1) ELSE '' END`
	return `(` + prefix + ` || turnstone_unname(substr(` + column + `, length(` + prefix + `) + 1), @user, @pseudonym))`
}

// erasedKinds returns all kinds in the order in which they are erased. Rows that refer to other rows come before those.
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
		{name: "chat_link_failures", where: `channel || '/' || chat_id` + inChats},
		{name: "chat_threads", where: `channel || '/' || chat_id` + inChats},
		{name: "admissions", where: `tenant = @tenant AND kind = 'user' AND name = turnstone_short_name(@user)`},
		{name: "turn_places", where: `tenant = @tenant AND user_id = turnstone_short_name(@user)`},
		{name: "schedule_notices", where: `run_id` + inScheduleRuns},
		{name: "schedule_runs", where: `run_id` + inScheduleRuns},
		{name: "schedules", where: runsAsUser},
		{name: "workflow_run_attempts", where: `run_id` + inRuns},
		{name: "workflow_run_steps", where: `run_id` + inRuns},
		{name: "workflow_runs", where: `tenant = @tenant AND user_id = @user`},
	}
}

// turnKinds returns the user's turns and their data.
func turnKinds() []erasedKind {
	return []erasedKind{
		{name: "pipeline_samples", where: `tenant = @tenant AND (
			used_at IN (SELECT at FROM pipeline_uses WHERE tenant = @tenant AND split_part(key, '/', 1)` + inTurns + `)
			OR NOT EXISTS (SELECT FROM pipeline_uses u WHERE u.tenant = @tenant AND u.at = used_at)
				AND EXISTS (SELECT FROM tool_calls WHERE turn_id` + inTurns + ` AND name = 'execute_pipeline'))`},
		{name: "pipeline_uses", where: `tenant = @tenant AND split_part(key, '/', 1)` + inTurns},
		{name: "events", where: `stream_id` + inTurns},
		{name: "stream_producers", where: `stream_id` + inTurns},
		{name: "streams", where: `stream_id` + inTurns},
		{name: "agent_results", where: `turn_id` + inTurns},
		{name: "prepared", where: `turn_id` + inTurns},
		{name: "approvals", where: `turn_id` + inTurns},
		{name: "tool_calls", where: `turn_id` + inTurns},
		{name: "turn_steps", where: `turn_id` + inTurns},
		{name: "turn_tools", where: `turn_id` + inTurns},
		{name: "messages", where: `turn_id` + inTurns},
		{name: "remembered_decisions", where: `tenant = @tenant AND (by = @user OR session_id` + inSessions + `)`},
		// Notes and references contain data of everybody in the session: in shared sessions they are built again.
		{name: "session_notes", where: `tenant = @tenant AND session_id` + inVisited},
		{name: "reference_names", where: `tenant = @tenant AND session_id` + inVisited},
		{name: "session_references", where: `tenant = @tenant AND session_id` + inVisited},
		{name: "reference_lists", where: `tenant = @tenant AND session_id` + inSessions},
		{name: "result_cache", where: `tenant = @tenant AND 'cas://sha256:' || digest` + inContent},
		{
			name: "schedule_runs of others", table: "schedule_runs", where: `tenant = @tenant AND turn_id` + inTurns,
			set: `turn_id = '', session_id = '', output = '', digest = '', result_ref = '', error = NULL`,
			why: "the run belongs to another user's schedule; its answer is removed",
		},
		{
			name: "workflow_run_steps of others", table: "workflow_run_steps", where: `turn_id` + inTurns,
			set: `turn_id = '', output = NULL, ref = '', error = NULL`, why: "the run is another user's; the output of the step is removed",
		},
		{
			name: "usage_ledger", where: `tenant = @tenant AND (user_id = @user OR turn_id` + inTurns + `)`,
			set: `user_id = @pseudonym, session_id = '', turn_id = 'erased-' || encode(sha256(convert_to(@salt || turn_id, 'UTF8')), 'hex')`,
			why: "the costs stay, under a pseudonym and without turn and session",
		},
		{
			// Before usage_daily, so that rows that are added to it meanwhile have the pseudonym.
			name: "usage_pending", where: `tenant = @tenant AND user_id = @user`, set: `user_id = @pseudonym`,
			why: "the costs stay, under a pseudonym",
		},
		{
			// Each round uses other slots, because there may be rows with the pseudonym from the round before.
			name: "usage_daily", where: `tenant = @tenant AND kind = 'user' AND name = turnstone_short_name(@user)`,
			set: `name = @pseudonym, slot = slot + 1000 * @round::integer`, why: "the costs stay, under a pseudonym",
		},
		{
			name: "sessions held", table: "sessions", set: `holder = NULL`, where: `tenant = @tenant AND holder` + inTurns,
			why: "the next turn of the session may run",
		},
		{
			name: "sessions.forked_from", table: "sessions", set: `forked_from = ''`, where: `tenant = @tenant AND forked_from` + inSessions,
			why: "the branch is another user's; its origin is removed",
		},
		{name: "turns", where: `turn_id` + inTurns},
		{
			name: "sessions", where: `tenant = @tenant AND session_id` + inSessions,
			ready: `NOT EXISTS (SELECT FROM turns t WHERE t.tenant = sessions.tenant AND t.session_id = sessions.session_id)`,
		},
		{
			name: "sessions.title", table: "sessions", set: `title = '', titled_by = ''`,
			where: `tenant = @tenant AND title <> '' AND (titled_by = @user OR session_id` + inShared + `)`,
			why:   "the session is another user's, too; its title, which may be about the user, is removed",
		},
		{name: "blob_refs", where: `tenant = @tenant AND holder IN (SELECT 'turn/' || name FROM erasure_marks WHERE erasure_id = @id AND kind = 'turn')`},
	}
}

// nameKinds returns the places where data of others names the user.
func nameKinds() []erasedKind {
	named := func(table, column string) erasedKind {
		return erasedKind{
			name: table + "." + column, table: table, where: `tenant = @tenant AND ` + column + ` = @user`, set: column + ` = @pseudonym`, why: keptUnderPseudonym,
		}
	}
	return []erasedKind{
		{
			// Before approvals.decided_by, which is needed to find the streams: that of the turn, and those of its parents.
			name: "events of decisions", table: "events", where: `event->>'type' = 'approval_resolved' AND event->'approval'->>'by' = @user
				AND stream_id IN (WITH RECURSIVE heard AS (SELECT turn_id FROM approvals WHERE tenant = @tenant AND decided_by = @user
					UNION SELECT t.parent FROM heard JOIN turns t ON t.turn_id = heard.turn_id AND t.tenant = @tenant WHERE t.parent <> ''
				) SELECT turn_id FROM heard)`,
			set: `event = (jsonb_set(event::jsonb, '{approval,by}', to_jsonb(@pseudonym::text)) #- '{approval,message}' #- '{approval,decided_args}')::json`,
			why: keptUnderPseudonym,
		},
		{
			name: "approvals.decided_by", table: "approvals", where: `tenant = @tenant AND decided_by = @user`,
			ready: `EXISTS (SELECT FROM turns t WHERE t.turn_id = approvals.turn_id AND t.state NOT IN ('queued', 'running'))`,
			set:   `decided_by = @pseudonym, message = '', decided_args = NULL`,
			why:   "the call is another user's; the message and arguments of the decision are removed",
		},
		named("api_keys", "created_by"), named("chat_links", "linked_by"), named("chat_link_codes", "linked_by"),
		named("schedules", "created_by"), named("schedules", "updated_by"),
		{
			name: "schedules.notify", table: "schedules", where: `tenant = @tenant AND position(` + notifiesUser + ` IN document::text) > 0`,
			set: `document = replace(document::text, ` + notifiesUser + `, '"telegram":{"user":"' || @pseudonym || '"}')::json`,
			why: "the schedule is another user's; it no longer notifies the user",
		},
		{
			name: "schedules.note", table: "schedules", where: `tenant = @tenant AND note <> turnstone_unname(note, @user, @pseudonym)`,
			set: `note = turnstone_unname(note, @user, @pseudonym)`, why: keptUnderPseudonym,
		},
		named("workflow_versions", "updated_by"),
		{
			name: "workflow_definitions.owner", table: "workflow_definitions", where: `tenant = @tenant AND owner = @user`,
			why: "processes belong to the tenant and stay, under a pseudonym",
			sql: []string{
				`INSERT INTO workflow_definitions SELECT tenant, tag, @pseudonym, version, deleted FROM workflow_definitions
				WHERE tenant = @tenant AND owner = @user ON CONFLICT DO NOTHING`,
				// If the user has created the tag again since the round before, the pseudonym has versions with the same numbers.
				`UPDATE workflow_versions v SET owner = @pseudonym, version = v.version + coalesce((
					SELECT max(o.version) FROM workflow_versions o WHERE o.tenant = v.tenant AND o.tag = v.tag AND o.owner = @pseudonym), 0)
				WHERE v.tenant = @tenant AND v.owner = @user`,
				`DELETE FROM workflow_definitions WHERE tenant = @tenant AND owner = @user`,
			},
		},
		named("workflow_runs", "owner"), named("workflow_requests", "owner"),
		named("catalog_documents", "updated_by"), named("catalog_history", "by"),
		{
			name: "audit_log", why: "the trail stays complete; it names the user by a pseudonym, without addresses",
			// The record that proves the report of an erasure is not changed. It names nobody.
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

// sparedTables returns the tables in which nothing is erased, each with the reason.
func sparedTables() [][2]string {
	configured := "configuration of the tenant"
	return [][2]string{
		{"blob_collection", "the progress of the collection of content"},
		{"stream_peers", "the addresses at which processes exchange events"},
		{"blobs", "sizes and digests of content, which are removed with the content"},
		{"catalog_artifacts", configured},
		{"catalog_head", "a number"},
		{"composite_versions", "tools made of pipelines that several turns had in common; values that differed are parameters"},
		{"composites", "tools made of pipelines that several turns had in common"},
		{"erasure_counts", "numbers"},
		{"erasure_marks", "marks of erasures that have not ended"},
		{"erasures", "the reports; the user's id is removed when an erasure ends"},
		{"knowledge_chunks", "the tenant's documents: delete one that is about the user by its name"},
		{"knowledge_documents", "as their chunks"},
		{"knowledge_vectors", "as their chunks"},
		{"pipeline_shapes", "shapes of pipelines, without values"},
		{"plans", configured},
		{"retention_marks", "the progress of retention"},
		{"turnstone_schema_version", "a number"},
	}
}
