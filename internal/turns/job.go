package turns

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// maxJobID bounds, in bytes, the ids of a job in a result row. A longer id is left out: a cut one could be another job's.
const maxJobID = 256

// jobFacts are the facts of an orchestrator's job, read from the metadata of its turn. Anybody can write metadata, so a member of another
// type is ignored.
type jobFacts struct {
	id, run, node string
	retry         int               // which attempt at the job the turn is
	workflow      agent.WorkflowKey // tag and owner alone
	context       *sessionContext   // nil if the orchestrator gave no earlier results
}

// jobOf returns the job facts of a turn's metadata. A child turn has the metadata of the turn that asked: it belongs to the same run, but not to
// the job.
func jobOf(r *agent.TurnRecord) jobFacts {
	metadata := r.Context.Metadata
	name := func(key string) string {
		if s, ok := metadata[key].(string); ok && len(s) <= maxJobID {
			return s
		}
		return ""
	}
	job := jobFacts{
		run: name(agent.MetaRunID), workflow: agent.WorkflowKey{Tag: name(agent.MetaWorkflowTag), Owner: name(agent.MetaWorkflowOwner)},
	}
	if r.Parent == "" {
		job.id, job.node = name(agent.MetaJobID), name(agent.MetaNodeID)
		job.retry = retryOf(metadata[agent.MetaRetryCount])
	}
	var c sessionContext
	c.addJob(previousResults(metadata[agent.MetaPreviousResults]), workflowState(metadata[agent.MetaWorkflowState]))
	if !c.empty() {
		job.context = &c
	}
	return job
}

// retryOf reads a retry count, a number of Go's or of JSON's; 0 for anything else.
func retryOf(v any) int {
	var n int
	if v == nil || json.Unmarshal(canonicalJSON(v), &n) != nil {
		return 0
	}
	return n
}

// previousResults reads [{node_id, result_ref, preview}]. Entries without node_id and result_ref are skipped.
func previousResults(v any) []contextResult {
	var entries []json.RawMessage
	if v == nil || json.Unmarshal(canonicalJSON(v), &entries) != nil {
		return nil
	}
	var out []contextResult
	for _, entry := range entries {
		var members map[string]json.RawMessage
		if json.Unmarshal(entry, &members) != nil {
			continue
		}
		p := contextResult{NodeID: boundedText(members["node_id"]), ResultRef: boundedText(members["result_ref"])}
		if p.NodeID == "" && p.ResultRef == "" {
			continue
		}
		if preview := members["preview"]; string(preview) != null {
			p.Preview = preview
		}
		if out = append(out, p); len(out) == maxPrevious {
			break
		}
	}
	return out
}

// workflowState reads an object.
func workflowState(v any) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if v == nil || json.Unmarshal(canonicalJSON(v), &members) != nil {
		return nil
	}
	return members
}

// boundedText returns a JSON string, or "" if it is something else or too long.
func boundedText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil || len(s) > maxContextText {
		return ""
	}
	return s
}

// canonicalJSON returns a value as JSON in the form that it has when it comes out of the store: names sorted, numbers as float64.
func canonicalJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var plain any
	if json.Unmarshal(raw, &plain) != nil {
		return nil
	}
	if raw, err = json.Marshal(plain); err != nil {
		return nil
	}
	return raw
}
