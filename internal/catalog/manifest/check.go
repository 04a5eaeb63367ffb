package manifest

import (
	"cmp"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/turnstone-run/turnstone/agent"
)

// checkRules adds the faults that a schema cannot find. Fields that already have a fault are empty in value.
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
		if !c.root.member("client_side").isFaulty() {
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
			c.addFaultsWithin(item("client_side", i)+".parameters", CheckSchema(parameters))
		}
	}
	c.checkUnique("client_side", names)
}

// checkUnique adds a fault for each entry that equals an earlier one.
func (c *checker) checkUnique(path string, list []string) {
	for i, s := range list {
		if j := slices.Index(list, s); s != "" && j < i {
			c.addFault(item(path, i), "is the same as %s", item(path, j))
		}
	}
}

func (c *checker) checkAgent(a *agent.AgentInstance) {
	if !a.Disabled && !c.root.member("disabled").isFaulty() {
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
		c.addFaultsWithin("output_schema", CheckSchema(a.OutputSchema))
	}
}

// require adds a fault if a value is empty.
func (c *checker) require(path, value, message string) {
	if value == "" {
		c.addFault(path, "%s", message)
	}
}

// addFaultsWithin adds faults of the value at path, whose paths are relative to it.
func (c *checker) addFaultsWithin(path string, faults agent.Faults) {
	for _, f := range faults {
		c.addFault(JoinPath(path, f.Path), "%s", f.Message)
	}
}

func (c *checker) checkRoutes(t *agent.RouteTable) {
	for i := range t.Rules {
		name := t.Rules[i].Name
		first := slices.IndexFunc(t.Rules, func(r agent.RouteRule) bool { return r.Name == name })
		if name != "" && first < i {
			c.addFault(item("rules", i)+".name", "is the name of %s as well", item("rules", first))
		}
	}
}

// defaultChunkSize is the chunk size of collections that do not set one.
const defaultChunkSize = 1000

func (c *checker) checkKnowledge(k *agent.KnowledgeCollection) {
	size := cmp.Or(k.ChunkSize, defaultChunkSize)
	if k.Overlap >= size && !c.root.member("chunk_size").isFaulty() {
		c.addFault("chunk_overlap", "want less than chunk_size (%d), got %d", size, k.Overlap)
	}
	for i := range k.Sources {
		c.checkURL(item("sources", i)+".url", k.Sources[i].URL)
	}
}

// isFaulty reports whether a value exists and has a fault.
func (n *node) isFaulty() bool { return n != nil && n.hasFault }

// checkURL checks that a text is empty or an http or https URL without credentials. Its faults do not quote the text.
func (c *checker) checkURL(path, text string) {
	if text == "" {
		return
	}
	u := parseHTTPURL(text)
	switch {
	case u == nil:
		c.addFault(path, "want an http or https URL")
	case u.User != nil:
		c.addFault(path, "must not hold credentials: an AuthProfile says where these are")
	}
}

// parseHTTPURL returns an http or https URL with a host, nil if the text is none.
func parseHTTPURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil
	}
	return u
}

// refuseQuery adds a fault for a query or a fragment, which may hold a secret.
func (c *checker) refuseQuery(path, text string) {
	if strings.ContainsAny(text, "?#") {
		c.addFault(path, "want no query and no fragment: an AuthProfile says where keys are")
	}
}

// hostLabels matches a DNS name: labels of letters, digits, dashes and underscores.
var hostLabels = regexp.MustCompile(`^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.?$`)

// maxHost is the maximum length of a DNS name.
const maxHost = 253

// isHostRule reports whether s is a rule of internal/egress: a host, an address, or *.host, each with or without :port.
func isHostRule(s string) bool {
	s, isWildcard := strings.CutPrefix(s, "*.")
	host, port, hasPort := s, "", false
	if bracketed, ok := strings.CutPrefix(s, "["); ok {
		address, tail, isClosed := strings.Cut(bracketed, "]")
		port, hasPort = strings.CutPrefix(tail, ":")
		if !isClosed || (tail != "" && !hasPort) {
			return false
		}
		host = address
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
		return !isWildcard && a.Zone() == ""
	}
	ascii, err := idna.Lookup.ToASCII(host)
	return err == nil && len(ascii) <= maxHost && hostLabels.MatchString(strings.ToLower(ascii))
}
