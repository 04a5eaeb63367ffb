package manifest

import (
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/turnstone-run/turnstone/agent"
)

// checkRules adds the faults that no schema finds. Fields with a fault are empty in value, and further faults about them are dropped.
func (c *checker) checkRules(value any) {
	switch v := value.(type) {
	case *agent.NodeDefinition:
		c.checkNode(v)
	case *agent.AgentInstance:
		c.checkAgent(v)
	case *agent.ToolBinding:
		c.checkBinding(v)
	case *agent.ModelProfile:
		c.checkURL("base_url", v.BaseURL)
		c.refuseQuery("base_url", v.BaseURL)
	case *agent.RouteTable:
		c.checkRoutes(v)
	case *agent.AuthProfile:
		c.checkAuth(v)
	case *agent.KnowledgeCollection:
		c.checkKnowledge(v)
	}
}

func (c *checker) checkBinding(b *agent.ToolBinding) {
	c.checkUnique("tools", b.Tools)
	c.checkUnique("auth", b.Auth)
	if len(b.ClientSide) == 0 {
		if !c.root.member("client_side").isBad() {
			c.require("node_id", b.NodeID, "is required unless the tools are client_side")
			c.require("node_version", b.NodeVersion, "is required unless the tools are client_side")
		}
		return
	}
	if b.NodeID != "" || b.NodeVersion != "" || len(b.Parameters) > 0 || len(b.Auth) > 0 {
		c.addFault("client_side", "tools that run at the caller have no node, parameters or auth: give either")
	}
	names := make([]string, len(b.ClientSide))
	for i := range b.ClientSide {
		names[i] = b.ClientSide[i].Name
		if parameters := b.ClientSide[i].Parameters; len(parameters) > 0 {
			c.addFaultsOf(item("client_side", i)+".parameters", CheckSchema(parameters))
		}
	}
	c.checkUnique("client_side", names)
}

// checkUnique adds a fault for the second of two equal entries.
func (c *checker) checkUnique(path string, list []string) {
	first := make(map[string]int, len(list))
	for i, s := range list {
		if s == "" {
			continue
		}
		if j, twice := first[s]; twice {
			c.addFault(item(path, i), "is the same as %s", item(path, j))
			continue
		}
		first[s] = i
	}
}

func (c *checker) checkAgent(a *agent.AgentInstance) {
	if !a.Disabled && !c.root.member("disabled").isBad() {
		c.require("node_id", a.NodeID, "is required unless the agent is disabled")
		c.require("node_version", a.NodeVersion, "is required unless the agent is disabled")
	}
	c.checkUnique("models", a.Models)
	c.checkUnique("knowledge", a.Knowledge)
	c.checkUnique("delegates", a.Delegates)
	toolkits := make([]string, len(a.Tools))
	for i := range a.Tools {
		toolkits[i] = a.Tools[i].Toolkit
		c.checkUnique(item("tools", i)+".tools", a.Tools[i].Tools)
	}
	c.checkUnique("tools", toolkits)
	for i, name := range a.Delegates {
		if name == a.Name && name != "" {
			c.addFault(item("delegates", i), "an agent cannot hand work to itself")
		}
	}
	if len(a.OutputSchema) > 0 {
		c.addFaultsOf("output_schema", CheckSchema(a.OutputSchema))
	}
}

// require adds a fault if a value is empty.
func (c *checker) require(path, value, message string) {
	if value == "" {
		c.addFault(path, "%s", message)
	}
}

// addFaultsOf adds faults of the part at a path.
func (c *checker) addFaultsOf(at string, faults agent.Faults) {
	for _, f := range faults {
		c.addFault(join(at, f.Path), "%s", f.Message)
	}
}

func (c *checker) checkRoutes(t *agent.RouteTable) {
	first := make(map[string]int, len(t.Rules))
	for i := range t.Rules {
		name := t.Rules[i].Name
		if j, taken := first[name]; taken && name != "" {
			c.addFault(item("rules", i)+".name", "is the name of %s as well", item("rules", j))
			continue
		}
		first[name] = i
	}
}

// defaultChunkSize is the chunk size of a collection that sets none.
const defaultChunkSize = 1000

func (c *checker) checkKnowledge(k *agent.KnowledgeCollection) {
	size := k.ChunkSize
	if size == 0 {
		size = defaultChunkSize
	}
	if k.Overlap >= size && !c.root.member("chunk_size").isBad() {
		c.addFault("chunk_overlap", "want less than chunk_size (%d), got %d", size, k.Overlap)
	}
	for i := range k.Sources {
		c.checkURL(item("sources", i)+".url", k.Sources[i].URL)
	}
}

func (n *node) isBad() bool { return n != nil && n.bad }

// checkURL accepts an http or https URL without credentials, or nothing. The fault does not repeat it.
func (c *checker) checkURL(path, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		c.addFault(path, "want an http or https URL")
	case u.User != nil:
		c.addFault(path, "must not hold credentials: an AuthProfile says where these are")
	}
}

// refuseQuery adds a fault for a query or a fragment, which may hold a secret.
func (c *checker) refuseQuery(path, text string) {
	if strings.ContainsAny(text, "?#") {
		c.addFault(path, "want no query and no fragment: an AuthProfile says where keys are")
	}
}

// hostLabels matches a name in DNS: labels of letters, digits and dashes.
var hostLabels = regexp.MustCompile(`^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.?$`)

// maxHost is the maximum length of a name in DNS.
const maxHost = 253

// isHostRule reports whether s is a host, an address, or *.host, each with or without :port, as internal/egress takes it.
func isHostRule(s string) bool {
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
