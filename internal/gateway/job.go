package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/job"
)

const pathTestChat = "/test/chat"

// endingGrace is how much longer than its timeout a job is awaited. Its turn ends by itself at the timeout.
const endingGrace = 10 * time.Second

// jobState is the body of a response with status 202 about a job whose turn goes on.
type jobState struct {
	JobID string `json:"job_id"`
	turnState
}

// postTestChat is POST /test/chat. It runs a job as if it came from the queue, and responds with the result message. The job is ?prompt=, or a
// body {prompt, session_id?, agent?, timeout_sec?, context?}, or a body with a complete job message.
func (s *httpServer) postTestChat(c *Call) error {
	prompt := c.query.text("prompt", job.MaxPromptBytes)
	if err := c.query.validate(); err != nil {
		return err
	}
	body, err := c.ReadBody()
	if err != nil {
		return err
	}
	j, err := jobOf(c, prompt, body)
	if err != nil {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	e := j.Envelope(c.Tenant())
	receipt, err := s.accept(c.callContext(), c.caller, &e)
	if err != nil {
		return err
	}
	c.caller.tenant = e.Request.Context.Tenant
	c.setTurnHeaders(receipt.TurnID)
	return s.awaitJob(c, &j, receipt)
}

func (s *httpServer) awaitJob(c *Call, j *job.Job, receipt agent.Receipt) error {
	ctx, cancel := s.streamContext(c.r.Context())
	defer cancel()
	timeout := time.Duration(j.TimeoutSec)*time.Second + endingGrace
	ctx, cancelWait := context.WithTimeout(ctx, min(timeout, s.cfg.Limits.WaitTimeout))
	defer cancelWait()

	end, err := s.await(ctx, c.caller, receipt)
	switch {
	case err != nil && TurnGoesOn(err):
		s.write(c.w, http.StatusAccepted, jobState{j.JobID, stateOf(receipt, agent.StateRunning)})
		return nil
	case err != nil:
		return err
	case end.Output == nil:
		body := jobState{j.JobID, stateOf(receipt, agent.StateWaiting)}
		body.Pending = end.Pending
		s.write(c.w, http.StatusAccepted, body)
		return nil
	}
	callCtx, cancelCall := s.callContext(c.r.Context()) // not c.callContext, which may have ended during the wait
	defer cancelCall()
	meta, err := s.cfg.Results.ResultMetadata(callCtx, c.caller.lookupTenant(), receipt.TurnID)
	if err != nil && agent.CodeOf(err) != agent.CodeNotFound { // a refused or terminated turn may have no metadata
		return err
	}
	s.write(c.w, http.StatusOK, job.ResultOf(j, end.Output, meta, end.At))
	return nil
}

// jobOf returns the job of a request, from the prompt of its query or from its body, but not both.
func jobOf(c *Call, prompt string, body []byte) (job.Job, error) {
	fields := map[string]json.RawMessage{}
	hasPrompt, hasBody := c.query.values.Has("prompt"), len(bytes.TrimSpace(body)) > 0
	switch {
	case hasPrompt && hasBody:
		return job.Job{}, agent.Invalid("prompt", "is in the query: give it there or in a body, not both")
	case hasBody:
		if err := CheckContentType(c.r); err != nil {
			return job.Job{}, err
		}
		if err := decodeJSON(body, &fields); err != nil {
			return job.Job{}, err
		}
		if fields == nil {
			return job.Job{}, agent.Invalid("", "want an object, got null")
		}
		if err := checkForeignFields(c.caller, fields); err != nil {
			return job.Job{}, err
		}
	case !hasPrompt:
		return job.Job{}, agent.Invalid("prompt", "is missing: give it in the query or in a JSON body")
	default:
		fields["prompt"] = jsonString(prompt)
	}
	return completeJob(fields)
}

// checkForeignFields refuses stream_to and foreign tenants, which a job does not have. It ignores other unknown fields.
func checkForeignFields(caller identity, fields map[string]json.RawMessage) error {
	jobContext := map[string]json.RawMessage{}
	if !isAbsent(fields["context"]) {
		_ = json.Unmarshal(fields["context"], &jobContext) // job.Parse returns the error
	}
	if !isAbsent(fields["stream_to"]) || !isAbsent(jobContext["stream_to"]) {
		return errStreamTo()
	}
	for field, raw := range map[string]json.RawMessage{"tenant": fields["tenant"], "context.tenant": jobContext["tenant"]} {
		var named string
		if isAbsent(raw) || json.Unmarshal(raw, &named) != nil {
			continue
		}
		if err := caller.checkTenant(named, field); err != nil {
			return err
		}
	}
	return nil
}

// completeJob returns the job of a message that may lack version and job_id, and may have session_id and agent outside of context.
func completeJob(fields map[string]json.RawMessage) (job.Job, error) {
	for name, fallback := range map[string]string{"version": job.Version, "job_id": uuid.NewString()} {
		if isAbsent(fields[name]) {
			fields[name] = jsonString(fallback)
		}
	}
	moved := map[string]string{} // the original names of fields, by their path in the job
	for _, name := range []string{"session_id", "agent"} {
		if isAbsent(fields[name]) {
			continue
		}
		jobContext := map[string]json.RawMessage{}
		if !isAbsent(fields["context"]) && json.Unmarshal(fields["context"], &jobContext) != nil {
			break // job.Parse returns the error
		}
		if !isAbsent(jobContext[name]) {
			return job.Job{}, agent.Invalid(name, "is given in context too")
		}
		jobContext[name] = fields[name]
		raw, err := json.Marshal(jobContext)
		if err != nil {
			return job.Job{}, agent.Invalid("context", "%w", err)
		}
		fields["context"] = raw
		moved["context."+name] = name
		delete(fields, name)
	}
	message, err := json.Marshal(fields)
	if err != nil {
		return job.Job{}, agent.Invalid("", "%w", err)
	}
	j, err := job.Parse(message)
	if e, ok := errors.AsType[*agent.Error](err); ok && moved[e.Field] != "" {
		return j, &agent.Error{Code: e.Code, Field: moved[e.Field], Err: e.Err}
	}
	return j, err
}

// isAbsent reports whether a JSON member is missing or null.
func isAbsent(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// jsonString returns text as JSON.
func jsonString(text string) json.RawMessage {
	raw, err := json.Marshal(text)
	if err != nil {
		return nil // cannot happen for a string
	}
	return raw
}
