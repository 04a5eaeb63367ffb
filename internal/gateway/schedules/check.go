package schedules

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// Bounds of requests.
const (
	headerKey = "Idempotency-Key"
	maxKey    = 256
	maxNote   = 1000
	maxPage   = 1000
	usualPage = 100
	fullPage  = 200 // whatever is asked for: the rest is on the next one
)

// sign puts the caller into a schedule: its tenant, and its user where the credential is somebody's own. What is read-only is
// dropped, so that an answer can be edited and sent back.
func sign(r *http.Request, v *gateway.Visit, s *agent.Schedule) (err error) {
	if s.Tenant, err = v.TenantNamed(r, s.Tenant); err != nil {
		return err
	}
	s.Revision, s.CreatedBy, s.UpdatedBy, s.CreatedAt, s.UpdatedAt, s.Next = 0, "", "", nil, nil, nil
	p := v.Principal()
	if p.Trusted() || p.Subject == "" {
		return nil
	}
	if s.UserID != "" && s.UserID != p.Subject {
		return agent.FieldErrorf(agent.CodeDenied, "user_id", "the credential is the user's own: it runs on nobody else's behalf")
	}
	s.UserID = p.Subject
	for i, n := range s.Notify {
		if n.Telegram != nil && n.Telegram.User != p.Subject {
			return agent.FieldErrorf(agent.CodeDenied, fmt.Sprintf("notify[%d].telegram.user", i), "the credential is the user's own: it writes to nobody else")
		}
	}
	return nil
}

// checkAgent makes sure that the runs may run what they name, as far as that is known beforehand.
func (d *Door) checkAgent(ctx context.Context, v *gateway.Visit, s *agent.Schedule) error {
	for i, n := range s.Notify {
		if n.Webhook == nil {
			continue
		}
		if u, err := url.Parse(n.Webhook.URL); err != nil || u.Host == "" || u.Fragment != "" {
			return agent.Invalid(fmt.Sprintf("notify[%d].webhook.url", i), "is no URL that can be asked")
		}
	}
	if s.Agent == "" { // routing decides, each time
		if p := v.Principal(); !p.MayAny(agent.ActionTurnsRun) {
			return agent.FieldErrorf(agent.CodeDenied, "agent", "the credential does not allow %s", agent.ActionTurnsRun)
		}
		return nil
	}
	if err := v.May(agent.ActionTurnsRun, s.Agent); err != nil {
		return agent.FieldErrorf(agent.CodeOf(err), "agent", "%w", err)
	}
	plan, _, err := d.agents.Resolve(ctx, s.Tenant, s.Agent)
	if err != nil {
		if agent.CodeOf(err) == agent.CodeNotFound {
			return agent.FieldErrorf(agent.CodeNotFound, "agent", "there is no agent %q", s.Agent)
		}
		return err
	}
	if s.Model == "" || slices.ContainsFunc(plan.Models, func(m agent.PlanModel) bool { return m.Profile == s.Model }) {
		return nil
	}
	var known []string
	for i := range plan.Models {
		known = append(known, plan.Models[i].Profile)
	}
	return agent.Invalid("model", "agent %q has no model %.140q: want one of %v", s.Agent, s.Model, known)
}

// nameOf is the schedule that a request without parameters is about.
func nameOf(r *http.Request) (string, error) {
	if err := noQuery(r); err != nil {
		return "", err
	}
	return named(r)
}

func named(r *http.Request) (string, error) {
	name := r.PathValue("name")
	if !agent.ValidName(name) || len(name) > agent.MaxScheduleName {
		return "", agent.FieldErrorf(agent.CodeNotFound, "name", "there is no schedule %.140q", name)
	}
	return name, nil
}

// noQuery refuses parameters; the tenant is the gateway's to read.
func noQuery(r *http.Request) error {
	_, err := gateway.Parameters(r)
	return err
}

func pageOf(r *http.Request) (agent.Page, error) {
	values, err := gateway.Parameters(r, "page_size", "page_token")
	if err != nil {
		return agent.Page{}, err
	}
	p, err := gateway.PageOf(values, usualPage, maxPage)
	p.Size = min(p.Size, fullPage)
	return p, err
}

// optional reads a body that may be left out.
func optional(w http.ResponseWriter, r *http.Request, v *gateway.Visit, into any) error {
	data, err := v.ReadBody(w, r)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return err
	}
	if err := gateway.CheckContentType(r); err != nil {
		return err
	}
	return strictjson.Decode(data, into)
}

// noteOf says who paused a schedule when he does not say why.
func noteOf(v *gateway.Visit, paused bool) string {
	p := v.Principal()
	did := "resumed"
	if paused {
		did = "paused"
	}
	if caller := cmp.Or(p.Subject, p.Credential); caller != "" {
		return did + " by " + caller
	}
	return did
}
