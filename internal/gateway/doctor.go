package gateway

import (
	"context"
	"iter"
)

// Doctor is the port that tries out live models.
type Doctor interface {
	// Doctor runs the verification checklist against the models of an agent, or against one profile. It reports each check as it is done, one
	// at a time and before it returns. A check that fails is no error. Empty names mean the default agent and its default model.
	// [agent.CodeNotFound] with Field "agent" or "model" before the first check.
	Doctor(ctx context.Context, tenant, agentName, profile string, report func(DoctorCheck)) error
}

// DoctorCheck is one line of the checklist.
type DoctorCheck struct {
	Name   string  `json:"name"`           // what was tried, in a few words
	Rule   string  `json:"rule,omitempty"` // the wiring rule that it stands for (docs/design/wiring.md)
	OK     bool    `json:"ok"`
	Detail string  `json:"detail,omitempty"` // for a person; no secrets
	TookMS float64 `json:"took_ms"`
}

// The events of a run of the doctor: one for each check, then the end.
const (
	EventCheck = "check"
	EventEnd   = "end"
)

// doctorBody is the body of POST /v1/doctor; it may be left out.
type doctorBody struct {
	Agent string `json:"agent,omitempty"` // empty: the default agent
	Model string `json:"model,omitempty"` // a profile; empty: the agent's models
}

// DoctorEnd is the last event of a run of the doctor.
type DoctorEnd struct {
	OK     bool `json:"ok"` // nothing failed
	Checks int  `json:"checks"`
	Failed int  `json:"failed"`
}

// postDoctor is POST /v1/doctor: the checks as an event stream, each as it is done. An error before the first check is an HTTP status. A
// client that leaves ends the run.
func (s *httpServer) postDoctor(c *Call) error {
	if err := c.query.end(); err != nil {
		return err
	}
	var body doctorBody
	if err := c.decodeIfAny(&body); err != nil {
		return err
	}
	if err := checkName("agent", body.Agent); err != nil {
		return err
	}
	if err := checkName("model", body.Model); err != nil {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := s.whileOpen(c.r.Context())
	defer cancel()
	next, stop := iter.Pull2(s.doctorFrames(ctx, c.Tenant(), body))
	defer stop()
	first, err, _ := next()
	if err != nil {
		return err
	}
	out := newEventWriter(c.w, s.cfg.Limits.WriteTimeout)
	if err := out.begin(); err != nil {
		return Quietly(err)
	}
	frames := func(yield func(frame, error) bool) {
		for f, err, ok := first, error(nil), true; ok && yield(f, err); {
			f, err, ok = next()
		}
	}
	return Quietly(out.follow(ctx, s.cfg.Limits.Heartbeat, func(ctx context.Context) iter.Seq2[frame, error] { return oneByOne(ctx, frames) }))
}

// doctorFrames yields a frame for each check, and one for the end or an error. It stops soon after ctx ends.
func (s *httpServer) doctorFrames(ctx context.Context, tenant string, body doctorBody) iter.Seq2[frame, error] {
	return func(yield func(frame, error) bool) {
		run, cancel := context.WithTimeout(ctx, s.cfg.Limits.LongTimeout)
		defer cancel()
		var end DoctorEnd
		wanted := true
		err := s.cfg.Doctor.Doctor(run, tenant, body.Agent, body.Model, func(check DoctorCheck) {
			end.Checks++
			if !check.OK {
				end.Failed++
			}
			wanted = wanted && yield(frame{name: EventCheck, data: check}, nil)
		})
		switch {
		case !wanted:
		case err != nil:
			yield(frame{}, err)
		default:
			end.OK = end.Failed == 0
			yield(frame{name: EventEnd, data: end, last: true}, nil)
		}
	}
}
