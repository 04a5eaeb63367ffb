package turns

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// maxJobID bounds, in bytes, the ids of a job in a result row. A longer id is left out, because a cut one could be the id of another job.
const maxJobID = 256

// jobFacts are the facts of an orchestrator's job, read from the metadata of its turn. Callers can write any metadata, so values of another type are
// ignored.
type jobFacts struct {
	id, run, node string
	retry         int               // the number of earlier attempts at the job
	workflow      agent.WorkflowKey // only tag and owner
	context       *sessionContext   // nil if the metadata has no earlier results and no state
}

// jobOf returns the job facts of a turn. A child turn has the metadata of its parent: it belongs to the same run, but it is not the job.
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

// retryOf returns a retry count, or 0 if v is not a whole number.
func retryOf(v any) int {
	var n int
	if v == nil || json.Unmarshal(canonicalJSON(v), &n) != nil {
		return 0
	}
	return n
}

// previousResults reads a list of {node_id, result_ref, preview}. It skips entries that have neither node_id nor result_ref.
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

// workflowState returns the members of an object, or nil if v is not an object.
func workflowState(v any) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if v == nil || json.Unmarshal(canonicalJSON(v), &members) != nil {
		return nil
	}
	return members
}

// boundedText returns the value of a JSON string, or "" if raw is not a string or is too long.
func boundedText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil || len(s) > maxContextText {
		return ""
	}
	return s
}

// canonicalJSON returns a value as JSON in the form in which the store returns it: with sorted names, and numbers as float64.
func canonicalJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var decoded any
	if json.Unmarshal(raw, &decoded) != nil {
		return nil
	}
	if raw, err = json.Marshal(decoded); err != nil {
		return nil
	}
	return raw
}
