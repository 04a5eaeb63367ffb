package gateway

import (
	"context"
	"net/http"
)

// The events of a doctor's visit: one for each check, then the end.
const (
	EventCheck = "check"
	EventEnd   = "end"
)

// doctorBody is the body of POST /v1/doctor; it may be left out.
type doctorBody struct {
	Agent string `json:"agent,omitempty"` // empty: the default agent
	Model string `json:"model,omitempty"` // a profile; empty: the agent's models
}

// DoctorEnd is the last event of a doctor's visit.
type DoctorEnd struct {
	OK     bool `json:"ok"` // nothing failed
	Checks int  `json:"checks"`
	Failed int  `json:"failed"`
}

// postDoctor is POST /v1/doctor: the checks as an event stream, each as it is done. What is refused before the first check is an HTTP
// status. A client that leaves ends the visit.
func (s *httpServer) postDoctor(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	var body doctorBody
	if r.ContentLength != 0 {
		if err := s.decodeBody(w, r, &body); err != nil {
			return err
		}
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
	ctx, cancel := s.whileOpen(r.Context())
	defer cancel()
	reads := s.examine(ctx, caller, body)
	defer func() {
		cancel()
		for range reads {
		}
	}()
	first := <-reads
	if first.Err != nil {
		return first.Err
	}
	out := eventWriter{w: w, control: http.NewResponseController(w), timeout: s.cfg.Limits.WriteTimeout}
	if err := out.begin(); err != nil {
		return quietly(err)
	}
	frames := func(yield func(frame, error) bool) {
		for next, ok := first, true; ok && yield(next.Event, next.Err); {
			next, ok = <-reads
		}
	}
	return quietly(out.follow(ctx, frames, s.cfg.Limits.StreamBuffer, s.cfg.Limits.Heartbeat))
}

// examine hands over a frame for each check, and one for the end or an error. The channel is closed once the doctor has left, which is
// soon after ctx ends.
func (s *httpServer) examine(ctx context.Context, caller identity, body doctorBody) <-chan Read[frame] {
	reads := make(chan Read[frame])
	hand := func(next Read[frame]) {
		select {
		case reads <- next:
		case <-ctx.Done():
		}
	}
	go func() {
		defer close(reads)
		visit, cancel := context.WithTimeout(ctx, s.cfg.Limits.LongTimeout)
		defer cancel()
		var end DoctorEnd
		err := s.cfg.Runtime.Doctor(visit, caller.ownTenant(), body.Agent, body.Model, func(c DoctorCheck) {
			end.Checks++
			if !c.OK {
				end.Failed++
			}
			hand(Read[frame]{Event: frame{name: EventCheck, data: c}})
		})
		if err != nil {
			hand(Read[frame]{Err: err})
			return
		}
		end.OK = end.Failed == 0
		hand(Read[frame]{Event: frame{name: EventEnd, data: end, last: true}})
	}()
	return reads
}
