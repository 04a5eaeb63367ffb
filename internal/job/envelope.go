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

// tenantNamespace makes turn ids of the jobs of tenants other than the default one.
var tenantNamespace = uuid.MustParse("b1f4f4c5-0a57-5f0c-9b0e-3d1f7f6f2c64") //nolint:gochecknoglobals // a constant in all but syntax

// TurnID is the id of the turn that is an attempt of a tenant's job: job-<job id>, and job-<job id>-r<n> for retry n. Of a job id that no turn
// may be called by, or that is too long, the UUID v5 stands for it; and of every job of a tenant other than the default one that of tenant and
// job id: two tenants may use one job id, and neither learns of the other.
func TurnID(tenant, jobID string, retry int) agent.TurnID {
	switch {
	case tenant != "" && tenant != agent.DefaultTenant:
		jobID = uuid.NewSHA1(tenantNamespace, []byte(tenant+"\x00"+jobID)).String()
	case len(jobID) > maxPlainID || !agent.ValidName(jobID) || likeRetry.MatchString(jobID):
		jobID = uuid.NewSHA1(uuid.NameSpaceOID, []byte("turnstone job "+jobID)).String()
	}
	id := "job-" + jobID
	if retry > 0 {
		id += "-r" + strconv.Itoa(retry)
	}
	return agent.TurnID(id)
}

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
			TurnID: TurnID(tenant, j.JobID, j.RetryCount), Agent: j.Context.Agent, SessionID: agent.SessionID(j.Context.SessionID), Message: j.Prompt,
			Context: agent.InvocationContext{Tenant: tenant, UserID: j.UserID, Metadata: meta},
			Limits:  &agent.Limits{WallTimeSec: int64(j.TimeoutSec)},
			Channel: Channel, OnBusy: agent.OnBusyQueue, Approvals: agent.ApprovalsRefuse,
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
