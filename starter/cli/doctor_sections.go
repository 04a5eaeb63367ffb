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
	maxClockSkew        = 10 * time.Second
	minCertificateValid = 14 * 24 * time.Hour // a certificate that ends earlier is a warning
)

// checkMachine checks whether this machine reaches the server, and as whom. reached reports whether a Turnstone server answered, and authenticated
// whether it accepts the credential or needs none.
func (d *doctorRun) checkMachine(ctx context.Context) (health client.Health, reached, authenticated bool) {
	began := time.Now()
	health, err := d.health(ctx, d.client)
	if agent.CodeOf(err) == agent.CodeUnauthenticated { // an invalid credential is refused, but none is needed for /health
		anonymous := *d.app
		anonymous.key, anonymous.keyFile = "", ""
		if c, clientErr := anonymous.client(); clientErr == nil {
			health, err = d.health(ctx, c)
		}
	}
	took := time.Since(began)
	if err != nil {
		d.fail("server", err, took)
		return health, false, false
	}
	d.pass("server", d.app.server+" answers", took)
	d.checkCertificate(health.CertUntil)
	d.checkVersion(health.Version)
	d.checkClock(health.ServerTime)
	return health, true, d.checkCredential(ctx)
}

func (*doctorRun) health(ctx context.Context, c *client.Client) (client.Health, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return c.Health(ctx)
}

func (d *doctorRun) checkCertificate(until time.Time) {
	if until.IsZero() {
		return
	}
	remaining := time.Until(until)
	detail := fmt.Sprintf("ends on %s, in %d days", until.UTC().Format(time.DateOnly), int(remaining/(24*time.Hour)))
	if remaining < minCertificateValid {
		d.warn("certificate", detail, remedyCertificate)
		return
	}
	d.pass("certificate", detail, 0)
}

func (d *doctorRun) checkVersion(server string) {
	local, program := d.app.version.Version, d.app.version.Program
	switch {
	case server == "":
		d.pass("version", program+" "+local+"; the server tells its own to those who may do health.read", 0)
	case isCompatible(local, server):
		d.pass("version", program+" "+local+", server "+server, 0)
	case semver.Compare(local, server) < 0:
		d.warn("version", program+" "+local+" is older than the server's "+server, remedyOldStarter)
	default:
		d.warn("version", program+" "+local+" is newer than the server's "+server, remedyOldServer)
	}
}

// isCompatible reports whether two releases have the same major version, or before v1 the same minor version. A build without a release number is
// compatible with every release.
func isCompatible(local, server string) bool {
	if !semver.IsValid(local) || !semver.IsValid(server) || semver.MajorMinor(local) == "v0.0" {
		return true
	}
	if semver.Major(local) == "v0" {
		return semver.MajorMinor(local) == semver.MajorMinor(server)
	}
	return semver.Major(local) == semver.Major(server)
}

func (d *doctorRun) checkClock(server time.Time) {
	if server.IsZero() {
		return
	}
	skew := time.Until(server).Abs().Truncate(time.Second) // the server sends whole seconds
	if skew > maxClockSkew {
		d.warn("clock", fmt.Sprintf("this machine's and the server's are %s apart", skew), remedyClock)
		return
	}
	d.pass("clock", "agrees with the server's", 0)
}

// checkCredential reports whether the server accepts the credential, and adds a finding that says whose it is.
func (d *doctorRun) checkCredential(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	p, err := d.client.WhoAmI(ctx)
	switch {
	case err != nil:
		d.fail("credential", err, 0)
		return false
	case p.Method == agent.MethodNone:
		d.pass("credential", "none is wanted: whoever reaches the server may do everything", 0)
	default:
		owner := "tenant " + p.Tenant
		if p.Subject != "" {
			owner = p.Subject + " of " + owner
		}
		d.pass("credential", fmt.Sprintf("%s, by %s, may do %s", owner, p.Credential, strings.Join(p.Scopes, " ")), 0)
	}
	return true
}

// checkServer adds findings for the dependencies in a server's health.
func (d *doctorRun) checkServer(h *client.Health) {
	if h.Status == "draining" {
		d.warn("status", "the server is stopping", remedyDraining)
	}
	if len(h.Dependencies) == 0 {
		d.warn("dependencies", "the server says no more than "+h.Status, remedySilentServer)
	}
	for i := range h.Dependencies {
		dependency := &h.Dependencies[i]
		f := finding{Name: dependency.Name, State: stateOK, Detail: dependency.Detail, Hint: dependency.Hint, TookMS: dependency.TookMS}
		switch {
		case dependency.OK:
		case dependency.State == "degraded" || (dependency.State == "" && h.Status == "ok"):
			f.State = stateWarning
		default:
			f.State = stateFailed
		}
		if f.State != stateOK && dependency.Since != nil {
			f.Detail = strings.TrimPrefix(f.Detail+" (since "+dependency.Since.Local().Format(time.DateTime)+")", " ")
		}
		if f.State != stateOK && f.Hint == "" {
			f.Hint = remedyNoHint
		}
		d.add(f)
	}
}

// maxShownFaults is the largest number of faults of a catalog source that are findings of their own.
const maxShownFaults = 50

// checkCatalog checks the documents of the catalog and its agents.
func (d *doctorRun) checkCatalog(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	status, err := d.client.CatalogStatus(ctx)
	if d.succeeded("documents", err) {
		d.checkSources(status.Sources)
	}
	agents, _, err := fetchAll(maxAgents, func(p agent.Page) ([]agent.AgentInfo, string, error) {
		return fetchAgents(&agent.AgentQuery{})(ctx, d.client, nil, p)
	})
	if d.succeeded("agents", err) {
		d.checkAgents(agents)
	}
}

// succeeded reports whether err is nil. Else it adds a finding: a warning if the credential lacks a permission.
func (d *doctorRun) succeeded(name string, err error) bool {
	switch {
	case err == nil:
		return true
	case agent.CodeOf(err) == agent.CodeDenied:
		d.warn(name, err.Error(), remedyRights)
	default:
		d.fail(name, err, 0)
	}
	return false
}

func (d *doctorRun) checkSources(sources []agent.SourceStatus) {
	for i := range sources {
		s := &sources[i]
		if s.OK {
			d.pass(s.Name, s.Detail, 0)
			continue
		}
		for j := range s.Faults[:min(len(s.Faults), maxShownFaults)] {
			d.add(finding{Name: s.Name, State: stateFailed, Detail: s.Faults[j].String(), Hint: remedyDocument})
		}
		if more := len(s.Faults) - maxShownFaults; more > 0 || len(s.Faults) == 0 {
			d.add(finding{Name: s.Name, State: stateFailed, Detail: s.Detail, Hint: remedySource})
		}
	}
}

// maxAgents is the largest number of agents that the doctor checks.
const maxAgents = 500

func (d *doctorRun) checkAgents(agents []agent.AgentInfo) {
	broken, hasDefault := 0, false
	for i := range agents {
		hasDefault = hasDefault || agents[i].Default
		if agents[i].Fault != "" {
			broken++
			d.add(finding{Name: "agent " + agents[i].Name, State: stateFailed, Detail: agents[i].Fault, Hint: remedyAgent})
		}
	}
	switch {
	case len(agents) == 0:
		d.warn("agents", "there are none that this credential may use", remedyNoAgents)
	case !hasDefault:
		d.warn("agents", quantity(len(agents), "agent")+", none of them the default", remedyNoDefault)
	case broken == 0:
		d.pass("agents", quantity(len(agents), "agent")+", all of them can run", 0)
	}
}
