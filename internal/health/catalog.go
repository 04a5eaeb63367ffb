package health

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Documents is the catalog for its probe.
type Documents struct {
	Status func(ctx context.Context) agent.CatalogStatus
	// Head returns the newest stored revision; nil: not checked.
	Head func(ctx context.Context) (int64, error)
	// Agents returns the agents that a request without a tenant may name.
	Agents func(ctx context.Context) ([]agent.AgentInfo, error)

	behind time.Time // since when older documents are served than are stored; zero: they are not
}

const (
	// shownFaults is how many faults and agents a detail names.
	shownFaults = 3
	// catchUpTime is how long it may take to read new documents.
	catchUpTime = 15 * time.Second
)

// Probe checks whether the newest documents are served and all agents can run. Turns run in any case, on the last good state.
func (d *Documents) Probe() Probe { return Probe{Name: Catalog, Late: Degraded, Ask: d.ask} }

func (d *Documents) ask(ctx context.Context) (Finding, error) {
	status := d.Status(ctx)
	f := Finding{State: OK}
	var details []string
	for i := range status.Sources {
		s := &status.Sources[i]
		details = append(details, s.Name+": "+sourceDetail(s))
		if !s.OK {
			f.degrade(hintCatalog)
		}
	}
	if d.Head != nil {
		head, err := d.Head(ctx)
		if err != nil {
			return Finding{}, err
		}
		switch revisions := head - status.Revision; {
		case revisions <= 0:
			d.behind = time.Time{}
		case d.behind.IsZero():
			d.behind = time.Now()
		case time.Since(d.behind) > catchUpTime:
			details = append(details, fmt.Sprintf("%d revisions behind the stored %d", revisions, head))
			f.degrade(hintBehind)
		}
	}
	agents, err := d.Agents(ctx)
	if err != nil {
		return Finding{}, err
	}
	hasDefault := false
	var broken []string
	for i := range agents {
		hasDefault = hasDefault || agents[i].Default
		if agents[i].Fault != "" {
			broken = append(broken, fmt.Sprintf("agent %s: %s", agents[i].Name, agents[i].Fault))
		}
	}
	if len(broken) > 0 {
		details = append(details, firstFew(broken))
		f.degrade(hintAgents)
	}
	if !hasDefault {
		details = append(details, "no default agent")
		f.degrade(hintNoDefault)
	}
	f.Detail = strings.Join(details, "; ")
	return f, nil
}

// degrade sets the state to Degraded. The first hint stays.
func (f *Finding) degrade(hint string) {
	f.State = Degraded
	if f.Hint == "" {
		f.Hint = hint
	}
}

func sourceDetail(s *agent.SourceStatus) string {
	detail := s.Detail
	texts := make([]string, len(s.Faults))
	for i := range s.Faults {
		texts[i] = s.Faults[i].String()
	}
	if len(texts) > 0 {
		detail += ": " + firstFew(texts)
	}
	return detail
}

// firstFew joins the first texts and counts the others.
func firstFew(all []string) string {
	shown := strings.Join(all[:min(len(all), shownFaults)], "; ")
	if more := len(all) - shownFaults; more > 0 {
		shown += fmt.Sprintf(" (and %d more)", more)
	}
	return shown
}
