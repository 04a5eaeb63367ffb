package gateway

import (
	"cmp"
	"context"
	"iter"
)

// Doctor is the port that checks live models.
type Doctor interface {
	// Doctor runs the verification checklist against the models of an agent, or against one profile. Empty names mean the default agent and its
	// default model. It calls report after each check, one at a time. A failed check is not an error. An unknown agent or model is
	// [agent.CodeNotFound] with Field "agent" or "model", before the first check.
	Doctor(ctx context.Context, tenant, agentName, profile string, report func(DoctorCheck)) error
}

// DoctorCheck is the result of one check.
type DoctorCheck struct {
	Name   string  `json:"name"`
	Rule   string  `json:"rule,omitempty"` // the wiring rule that it checks (docs/design/wiring.md)
	OK     bool    `json:"ok"`
	Detail string  `json:"detail,omitempty"` // for a person; no secrets
	TookMS float64 `json:"took_ms"`
}

// The events of the stream of POST /v1/doctor: one for each check, then the end.
const (
	EventCheck = "check"
	EventEnd   = "end"
)

// doctorBody is the optional body of POST /v1/doctor.
type doctorBody struct {
	Agent string `json:"agent,omitempty"` // empty: the default agent
	Model string `json:"model,omitempty"` // a profile; empty: the agent's models
}

// DoctorEnd is the data of the last event.
type DoctorEnd struct {
	OK     bool `json:"ok"` // no check failed
	Checks int  `json:"checks"`
	Failed int  `json:"failed"`
}

// postDoctor is POST /v1/doctor. It streams an event after each check. An error before the first check is an error response. The checks end when
// the client leaves.
func (s *httpServer) postDoctor(c *Call) error {
	if err := c.query.validate(); err != nil {
		return err
	}
	var body doctorBody
	if err := c.decodeIfAny(&body); err != nil {
		return err
	}
	if err := cmp.Or(checkName("agent", body.Agent), checkName("model", body.Model)); err != nil {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := s.streamContext(c.r.Context())
	defer cancel()
	next, stop := iter.Pull2(s.doctorFrames(ctx, c.Tenant(), body))
	defer stop()
	first, err, _ := next()
	if err != nil {
		return err
	}
	frames := func(yield func(frame, error) bool) {
		f, err, ok := first, error(nil), true
		for ok && yield(f, err) {
			f, err, ok = next()
		}
	}
	return s.streamFrames(ctx, c, func(ctx context.Context) iter.Seq2[frame, error] { return oneByOne(ctx, frames) })
}

// doctorFrames yields a frame for each check, and one for the end or an error. It stops soon after ctx ends.
func (s *httpServer) doctorFrames(ctx context.Context, tenant string, body doctorBody) iter.Seq2[frame, error] {
	return func(yield func(frame, error) bool) {
		run, cancel := context.WithTimeout(ctx, s.cfg.Limits.LongTimeout)
		defer cancel()
		var end DoctorEnd
		isReading := true
		err := s.cfg.Doctor.Doctor(run, tenant, body.Agent, body.Model, func(check DoctorCheck) {
			end.Checks++
			if !check.OK {
				end.Failed++
			}
			isReading = isReading && yield(frame{name: EventCheck, data: check}, nil)
		})
		switch {
		case !isReading:
		case err != nil:
			yield(frame{}, err)
		default:
			end.OK = end.Failed == 0
			yield(frame{name: EventEnd, data: end, isLast: true}, nil)
		}
	}
}
