package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

const (
	maxSkew = 10 * time.Second    // of the clocks; the server's is told to the second
	renewal = 14 * 24 * time.Hour // how long before its end a certificate is called for
)

// machine asks whether this machine reaches the server, and as whom. reached: something of Turnstone's answered; known: and it knows the
// credential, or wants none.
func (v *doctorRun) machine(ctx context.Context) (h client.Health, reached, known bool) {
	began := time.Now()
	h, err := v.health(ctx, v.client)
	refused := agent.CodeOf(err) == agent.CodeUnauthenticated
	if refused { // by a credential that does not hold: without one it says how it is
		a := *v.app
		a.key, a.keyFile = "", ""
		if c, failed := a.client(); failed == nil {
			h, err = v.health(ctx, c)
		}
	}
	took := time.Since(began)
	if err != nil {
		v.fail("server", err, took)
		return h, false, false
	}
	v.well("server", v.app.server+" answers", took)
	v.certificate(h.CertUntil)
	v.versions(h.Version)
	v.clock(h.ServerTime)
	known = v.credential(ctx)
	return h, true, known
}

func (*doctorRun) health(ctx context.Context, c *client.Client) (client.Health, error) {
	ctx, cancel := context.WithTimeout(ctx, visitTimeout)
	defer cancel()
	return c.Health(ctx)
}

func (v *doctorRun) certificate(until time.Time) {
	if until.IsZero() {
		return
	}
	left := time.Until(until)
	detail := fmt.Sprintf("ends on %s, in %s", until.UTC().Format(time.DateOnly), days(left))
	if left < renewal {
		v.warn("certificate", detail, remedyCertificate)
		return
	}
	v.well("certificate", detail, 0)
}

// versions compares the releases of both sides: the same major one, or before the first the same minor one, is meant to fit.
func (v *doctorRun) versions(server string) {
	own, program := v.app.version.Version, v.app.version.Program
	switch {
	case server == "":
		v.well("version", program+" "+own+"; the server tells its own to those who may do health.read", 0)
	case isCompatible(own, server):
		v.well("version", program+" "+own+", server "+server, 0)
	case semver.Compare(own, server) < 0:
		v.warn("version", program+" "+own+" is older than the server's "+server, remedyOldStarter)
	default:
		v.warn("version", program+" "+own+" is newer than the server's "+server, remedyOldServer)
	}
}

// isCompatible reports whether two releases fit. A build that has no number fits everything.
func isCompatible(own, server string) bool {
	if !semver.IsValid(own) || !semver.IsValid(server) || semver.Major(own) == "v0" && semver.MajorMinor(own) == "v0.0" {
		return true
	}
	if semver.Major(own) == "v0" {
		return semver.MajorMinor(own) == semver.MajorMinor(server)
	}
	return semver.Major(own) == semver.Major(server)
}

func (v *doctorRun) clock(server time.Time) {
	if server.IsZero() {
		return
	}
	apart := time.Until(server).Abs().Truncate(time.Second)
	if apart > maxSkew {
		v.warn("clock", fmt.Sprintf("this machine's and the server's are %s apart", apart), remedyClock)
		return
	}
	v.well("clock", "agrees with the server's", 0)
}

// credential says who the server takes the caller for.
func (v *doctorRun) credential(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, visitTimeout)
	defer cancel()
	p, err := v.client.WhoAmI(ctx)
	switch {
	case err != nil:
		v.fail("credential", err, 0)
		return false
	case p.Method == agent.MethodNone:
		v.well("credential", "none is wanted: whoever reaches the server may do everything", 0)
	default:
		who := "tenant " + p.Tenant
		if p.Subject != "" {
			who = p.Subject + " of " + who
		}
		v.well("credential", fmt.Sprintf("%s, by %s, may do %s", who, p.Credential, strings.Join(p.Scopes, " ")), 0)
	}
	return true
}

// server tells of what the server depends on.
func (v *doctorRun) server(h *client.Health) {
	if h.Status == "draining" {
		v.warn("status", "the server is stopping", remedyDraining)
	}
	if len(h.Dependencies) == 0 {
		v.warn("dependencies", "the server says no more than "+h.Status, remedySilentServer)
	}
	for i := range h.Dependencies {
		d := &h.Dependencies[i]
		f := finding{Name: d.Name, State: lineOK, Detail: d.Detail, Hint: d.Hint, TookMS: d.TookMS}
		switch {
		case d.OK:
		case d.State == "degraded" || (d.State == "" && h.Status == "ok"):
			f.State = lineWarning
		default:
			f.State = lineFailed
		}
		if f.State != lineOK && d.Since != nil {
			f.Detail = strings.TrimPrefix(f.Detail+" (since "+d.Since.Local().Format(time.DateTime)+")", " ")
		}
		if f.State != lineOK && f.Hint == "" {
			f.Hint = remedyNoHint
		}
		v.add(f)
	}
}

// maxShown bounds the faults of the catalog that are shown.
const maxShown = 50

// catalog tells of documents that are not served, and agents that cannot run.
func (v *doctorRun) catalog(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, visitTimeout)
	defer cancel()
	status, err := v.client.CatalogStatus(ctx)
	switch {
	case agent.CodeOf(err) == agent.CodeDenied:
		v.warn("documents", err.Error(), remedyRights)
	case err != nil:
		v.fail("documents", err, 0)
	default:
		v.documents(&status)
	}
	v.agents(ctx)
}

func (v *doctorRun) documents(status *agent.CatalogStatus) {
	for i := range status.Sources {
		s := &status.Sources[i]
		if s.OK {
			v.well(s.Name, s.Detail, 0)
			continue
		}
		for j := range s.Faults[:min(len(s.Faults), maxShown)] {
			v.add(finding{Name: s.Name, State: lineFailed, Detail: s.Faults[j].String(), Hint: remedyDocument})
		}
		if more := len(s.Faults) - maxShown; more > 0 || len(s.Faults) == 0 {
			v.add(finding{Name: s.Name, State: lineFailed, Detail: s.Detail, Hint: remedySource})
		}
	}
}

// maxAgents bounds the agents that are looked at.
const maxAgents = 500

func (v *doctorRun) agents(ctx context.Context) {
	agents, _, err := fetchAll(maxAgents, func(p agent.Page) ([]agent.AgentInfo, string, error) {
		page, err := v.client.ListAgents(ctx, agent.AgentQuery{Page: p})
		return page.Agents, page.Next, err
	})
	switch {
	case agent.CodeOf(err) == agent.CodeDenied:
		v.warn("agents", err.Error(), remedyRights)
		return
	case err != nil:
		v.fail("agents", err, 0)
		return
	}
	seen, broken, chosen := len(agents), 0, false
	for i := range agents {
		chosen = chosen || agents[i].Default
		if agents[i].Fault != "" {
			broken++
			v.add(finding{Name: "agent " + agents[i].Name, State: lineFailed, Detail: agents[i].Fault, Hint: remedyAgent})
		}
	}
	switch {
	case seen == 0:
		v.warn("agents", "there are none that this credential may use", remedyNoAgents)
	case !chosen:
		v.warn("agents", count(seen, "agent")+", none of them the default", remedyNoDefault)
	case broken == 0:
		v.well("agents", count(seen, "agent")+", all of them can run", 0)
	}
}
