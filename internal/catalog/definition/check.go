package definition

import (
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/turnstone-run/turnstone/agent"
)

// check adds what no schema can say. Fields that have a fault already are empty in value; faults about them are dropped.
func (d *document) check(value any) {
	switch v := value.(type) {
	case *agent.NodeDefinition:
		d.node(v)
	case *agent.AgentInstance:
		d.agent(v)
	case *agent.ToolBinding:
		d.binding(v)
	case *agent.ModelProfile:
		d.address("base_url", v.BaseURL)
		d.bare("base_url", v.BaseURL)
	case *agent.RouteTable:
		d.routes(v)
	case *agent.AuthProfile:
		d.auth(v)
	case *agent.KnowledgeCollection:
		d.knowledge(v)
	}
}

func (d *document) binding(b *agent.ToolBinding) {
	d.unique("tools", b.Tools)
	d.unique("auth", b.Auth)
	if len(b.ClientSide) == 0 {
		if !d.root.member("client_side").isBad() {
			d.need("node_id", b.NodeID, "is required unless the tools are client_side")
			d.need("node_version", b.NodeVersion, "is required unless the tools are client_side")
		}
		return
	}
	if b.NodeID != "" || b.NodeVersion != "" || len(b.Parameters) > 0 || len(b.Auth) > 0 {
		d.fault("client_side", "tools that run at the caller have no node, parameters or auth: give either")
	}
	names := make([]string, len(b.ClientSide))
	for i := range b.ClientSide {
		names[i] = b.ClientSide[i].Name
		if parameters := b.ClientSide[i].Parameters; len(parameters) > 0 {
			d.within(item("client_side", i)+".parameters", CheckSchema(parameters))
		}
	}
	d.unique("client_side", names)
}

// unique refuses the second of two equal entries.
func (d *document) unique(path string, list []string) {
	first := make(map[string]int, len(list))
	for i, s := range list {
		if s == "" {
			continue
		}
		if j, twice := first[s]; twice {
			d.fault(item(path, i), "is the same as %s", item(path, j))
			continue
		}
		first[s] = i
	}
}

func (d *document) agent(a *agent.AgentInstance) {
	if !a.Disabled && !d.root.member("disabled").isBad() {
		d.need("node_id", a.NodeID, "is required unless the agent is disabled")
		d.need("node_version", a.NodeVersion, "is required unless the agent is disabled")
	}
	d.unique("models", a.Models)
	d.unique("knowledge", a.Knowledge)
	d.unique("delegates", a.Delegates)
	toolkits := make([]string, len(a.Tools))
	for i := range a.Tools {
		toolkits[i] = a.Tools[i].Toolkit
		d.unique(item("tools", i)+".tools", a.Tools[i].Tools)
	}
	d.unique("tools", toolkits)
	for i, name := range a.Delegates {
		if name == a.Name && name != "" {
			d.fault(item("delegates", i), "an agent cannot hand work to itself")
		}
	}
	if len(a.OutputSchema) > 0 {
		d.within("output_schema", CheckSchema(a.OutputSchema))
	}
}

func (d *document) need(path, value, message string) {
	if value == "" {
		d.fault(path, "%s", message)
	}
}

// within adds faults about a part.
func (d *document) within(at string, faults agent.Faults) {
	for _, f := range faults {
		d.fault(join(at, f.Path), "%s", f.Message)
	}
}

func (d *document) routes(t *agent.RouteTable) {
	first := make(map[string]int, len(t.Rules))
	for i := range t.Rules {
		name := t.Rules[i].Name
		if j, taken := first[name]; taken && name != "" {
			d.fault(item("rules", i)+".name", "is the name of %s as well", item("rules", j))
			continue
		}
		first[name] = i
	}
}

// The chunk size when none is given.
const defaultChunkSize = 1000

func (d *document) knowledge(k *agent.KnowledgeCollection) {
	size := k.ChunkSize
	if size == 0 {
		size = defaultChunkSize
	}
	if k.Overlap >= size && !d.root.member("chunk_size").isBad() {
		d.fault("chunk_overlap", "want less than chunk_size (%d), got %d", size, k.Overlap)
	}
	for i := range k.Sources {
		d.address(item("sources", i)+".url", k.Sources[i].URL)
	}
}

func (n *node) isBad() bool { return n != nil && n.bad }

// address wants an http or https URL without credentials, or nothing. What was given is not repeated.
func (d *document) address(path, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		d.fault(path, "want an http or https URL")
	case u.User != nil:
		d.fault(path, "must not hold credentials: an AuthProfile says where these are")
	}
}

// bare refuses what may carry a secret behind an address's path.
func (d *document) bare(path, text string) {
	if strings.ContainsAny(text, "?#") {
		d.fault(path, "want no query and no fragment: an AuthProfile says where keys are")
	}
}

// hostLabels is a name in DNS: labels of letters, digits and dashes.
var hostLabels = regexp.MustCompile(`^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.?$`)

// maxHost is the longest name that DNS has.
const maxHost = 253

// hostRule reports whether s is a host, an address, or *.host, each with or without :port: the rules of internal/egress.
func hostRule(s string) bool {
	s, wild := strings.CutPrefix(s, "*.")
	host, port, hasPort := s, "", false
	if rest, ok := strings.CutPrefix(s, "["); ok {
		inside, tail, closed := strings.Cut(rest, "]")
		port, hasPort = strings.CutPrefix(tail, ":")
		if !closed || tail != "" && !hasPort {
			return false
		}
		host = inside
		if a, err := netip.ParseAddr(host); err != nil || !a.Is6() {
			return false
		}
	} else if strings.Count(s, ":") == 1 {
		host, port, hasPort = strings.Cut(s, ":")
	}
	if n, err := strconv.ParseUint(port, 10, 16); hasPort && (err != nil || n == 0) {
		return false
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return !wild && a.Zone() == ""
	}
	ascii, err := idna.Lookup.ToASCII(host)
	return err == nil && len(ascii) <= maxHost && hostLabels.MatchString(strings.ToLower(ascii))
}
