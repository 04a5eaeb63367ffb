package job

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/agent"
)

// Channel is the name of the channel that jobs come in by.
const Channel = "jobs"

// likeRetry are job ids that would make the turn id of another job's retry.
var likeRetry = regexp.MustCompile(`-r[0-9]+$`)

// maxPlainID is how long a job id may be that stands in a turn id as it is: there is room for job- and -r100 then.
const maxPlainID = 128 - len("job-") - len("-r100")

// TurnID is the id of the turn that is an attempt of a job: job-<job id>, and job-<job id>-r<n> for retry n. Of a job id that no turn may be
// called by, or that is too long, the UUID v5 stands for it.
func TurnID(jobID string, retry int) agent.TurnID {
	if len(jobID) > maxPlainID || !agent.ValidName(jobID) || likeRetry.MatchString(jobID) {
		jobID = uuid.NewSHA1(uuid.NameSpaceOID, []byte("turnstone job "+jobID)).String()
	}
	id := "job-" + jobID
	if retry > 0 {
		id += "-r" + strconv.Itoa(retry)
	}
	return agent.TurnID(id)
}

// TurnID is the id of the job's turn.
func (j *Job) TurnID() agent.TurnID { return TurnID(j.JobID, j.RetryCount) }

// Envelope is the job as every door submits it. The same job makes the same envelope, and so joins the turn that it became before. A job of
// a session that is busy, or waits for a person, waits its turn.
func (j *Job) Envelope(tenant string) agent.Envelope {
	meta := map[string]any{agent.MetaJobID: j.JobID}
	for name, value := range map[string]string{
		agent.MetaRunID: j.RunID, agent.MetaNodeID: j.NodeID, agent.MetaWorkflowTag: j.WorkflowTag, agent.MetaWorkflowOwner: j.WorkflowOwner,
	} {
		if value != "" {
			meta[name] = value
		}
	}
	if j.RetryCount > 0 {
		meta[agent.MetaRetryCount] = j.RetryCount
	}
	if v := plain(j.Context.PreviousResults); v != nil {
		meta[agent.MetaPreviousResults] = v
	}
	if v := plain(j.Context.WorkflowState); v != nil {
		meta[agent.MetaWorkflowState] = v
	}
	return agent.Envelope{
		Channel: Channel,
		Sender:  cmp.Or(j.UserID, j.WorkflowOwner),
		Request: agent.TurnRequest{
			TurnID: j.TurnID(), Agent: j.Context.Agent, SessionID: agent.SessionID(j.Context.SessionID), Message: j.Prompt,
			Context: agent.InvocationContext{Tenant: tenant, UserID: j.UserID, Metadata: meta},
			Limits:  &agent.Limits{WallTimeSec: int64(j.TimeoutSec)},
			Channel: Channel, OnBusy: agent.OnBusyQueue,
		},
	}
}

// plain is v in the types that metadata has, for the conditions of routes; nil for nothing.
func plain(v any) any {
	raw, err := encode(v)
	if err != nil {
		return nil // Parse and Encode took only what can be written
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil
	}
	return out
}
