package job

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/agent"
)

// Channel is the name of the channel of jobs.
const Channel = "jobs"

// retrySuffix matches job ids that would make the turn id of another job's retry.
var retrySuffix = regexp.MustCompile(`-r[0-9]+$`)

// maxPlainID is the length of a job id that a turn id may contain, together with job- and -r100.
const maxPlainID = 128 - len("job-") - len("-r100")

// tenantNamespace is the UUID namespace for jobs of tenants other than the default one.
var tenantNamespace = uuid.MustParse("b1f4f4c5-0a57-5f0c-9b0e-3d1f7f6f2c64") //nolint:gochecknoglobals // a constant in all but syntax

// TurnID returns the id of the turn for an attempt of a tenant's job: job-<job id>, and job-<job id>-r<n> for retry n. A UUID v5 replaces a job id
// that is too long or not valid in a turn id. For tenants other than the default one it is made of tenant and job id, so that two tenants may
// use the same job id.
func TurnID(tenant, jobID string, retry int) agent.TurnID {
	switch {
	case tenant != "" && tenant != agent.DefaultTenant:
		jobID = uuid.NewSHA1(tenantNamespace, []byte(tenant+"\x00"+jobID)).String()
	case len(jobID) > maxPlainID || !agent.ValidName(jobID) || retrySuffix.MatchString(jobID):
		jobID = uuid.NewSHA1(uuid.NameSpaceOID, []byte("turnstone job "+jobID)).String()
	}
	id := "job-" + jobID
	if retry > 0 {
		id += "-r" + strconv.Itoa(retry)
	}
	return agent.TurnID(id)
}

// Envelope returns the job as it is submitted. The same job has the same envelope, and so joins the turn that it became before. A job of a busy
// session waits.
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
	if v := metadataValue(j.Context.PreviousResults); v != nil {
		meta[agent.MetaPreviousResults] = v
	}
	if v := metadataValue(j.Context.WorkflowState); v != nil {
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

// metadataValue returns v in the types of metadata, for the conditions of routes; nil for nothing.
func metadataValue(v any) any {
	raw, err := encode(v)
	if err != nil {
		return nil // Parse and Encode accept only values that can be encoded
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil
	}
	return out
}
