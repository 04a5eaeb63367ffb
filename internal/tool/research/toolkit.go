package research

import (
	"cmp"
	"embed"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// ToolkitName is the name under which the catalog finds us.
const ToolkitName = "research"

// The real services.
const (
	DefaultPubMedURL     = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
	DefaultTrialsURL     = "https://clinicaltrials.gov/api/v2"
	DefaultPreprintsURL  = "https://www.ebi.ac.uk/europepmc/webservices/rest"
	DefaultOpenAlexURL   = "https://api.openalex.org"
	DefaultDuckDuckGoURL = "https://html.duckduckgo.com"
	DefaultBraveURL      = "https://api.search.brave.com"
)

// callerName is the name that the services are given: in the User-Agent, and as NCBI's parameter tool.
const callerName = "turnstone"

// The defaults of a [Config].
const (
	DefaultMaxWait       = 10 * time.Second
	DefaultSourceTimeout = 20 * time.Second
)

// Config says whom the toolkit asks, and how.
type Config struct {
	HTTP       tool.HTTP       // sends all requests
	Auth       tool.Auth       // nil: requests carry no credentials
	References tool.References // keeps what was found

	// Where the services are. Empty: the real ones.
	PubMedURL    string
	TrialsURL    string
	PreprintsURL string
	OpenAlexURL  string

	WebProvider string // of search_web: "duckduckgo", "searxng" or "brave"; empty: there is no search_web
	WebURL      string // the provider's address; empty: the real one. SearXNG has none

	Contact string // an email address at which the services reach whoever operates this; empty: none is given

	// Rates are requests per second by source (pubmed, clinical_trials, preprints, openalex, web), in place of what the services allow:
	// 3 for PubMed, 10 with a key of one's own; 50 a minute for trials; 10 for preprints and OpenAlex.
	Rates map[string]float64

	MaxWait       time.Duration // for a place in a rate, and for what a service asks with Retry-After; 0: 10 s
	SourceTimeout time.Duration // of one source in search_research; 0: 20 s
}

// Factory makes the toolkit out of the runtime's dependencies, which take the place of those in cfg.
func Factory(cfg Config) tool.Factory {
	return tool.Factory{
		Name:  ToolkitName,
		Needs: []tool.Need{tool.NeedHTTP, tool.NeedAuth, tool.NeedReferences},
		New: func(d tool.Dependencies) (agent.Toolkit, error) {
			given := cfg
			given.HTTP, given.Auth, given.References = d.HTTP, d.Auth, d.References
			return New(given)
		},
	}
}

// toolkit holds what all tools share: above all the rates.
type toolkit struct {
	cfg       Config
	userAgent string

	sources []*source // in the order of their tools
	byName  map[string]*source

	limits *limits
	rates  map[string]pace
	now    func() time.Time
	tools  []agent.Tool
}

var emailPattern = regexp.MustCompile(`^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}$`)

// New makes the toolkit. The error is [agent.CodeInvalid] and names the field of the configuration.
func New(cfg Config) (agent.Toolkit, error) {
	switch {
	case cfg.HTTP == nil:
		return nil, agent.Invalid("http", "is required")
	case cfg.References == nil:
		return nil, agent.Invalid("references", "is required")
	case cfg.MaxWait < 0:
		return nil, agent.Invalid("max_wait", "is negative")
	case cfg.SourceTimeout < 0:
		return nil, agent.Invalid("source_timeout", "is negative")
	}
	cfg.MaxWait = cmp.Or(cfg.MaxWait, DefaultMaxWait)
	cfg.SourceTimeout = cmp.Or(cfg.SourceTimeout, DefaultSourceTimeout)
	t := &toolkit{cfg: cfg, now: time.Now, userAgent: callerName + "/1"}
	if cfg.Contact != "" {
		if !emailPattern.MatchString(cfg.Contact) {
			return nil, agent.Invalid("contact", "%.100q is no email address", cfg.Contact)
		}
		t.userAgent += " (mailto:" + cfg.Contact + ")"
	}
	var err error
	if t.limits, err = newLimits(); err != nil {
		return nil, err
	}
	if err := t.addSources(); err != nil {
		return nil, err
	}
	if err := t.setRates(); err != nil {
		return nil, err
	}
	t.tools, err = t.makeTools()
	return t, err
}

func (t *toolkit) addSources() error {
	configured := map[string]string{
		"pubmed_url": t.cfg.PubMedURL, "trials_url": t.cfg.TrialsURL, "preprints_url": t.cfg.PreprintsURL, "openalex_url": t.cfg.OpenAlexURL,
	}
	t.sources = literature()
	for _, s := range t.sources {
		var err error
		if s.base, err = address(s.setting, configured[s.setting], s.defaultURL); err != nil {
			return err
		}
	}
	web, err := webSource(&t.cfg)
	if err != nil {
		return err
	}
	if web != nil {
		t.sources = append(t.sources, web)
	}
	t.byName = map[string]*source{}
	for _, s := range t.sources {
		t.byName[s.name] = s
	}
	return nil
}

// address returns the configured address of a source, or the fallback.
func address(name, given, fallback string) (*url.URL, error) {
	if given == "" {
		given = fallback
	}
	u, err := url.Parse(given)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return nil, agent.Invalid(name, "want an address as https://example.org/path")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, agent.Invalid(name, "must have no user information, query or fragment")
	}
	return u, nil
}

func (t *toolkit) setRates() error {
	t.rates = map[string]pace{}
	for name, rate := range t.cfg.Rates {
		if rate < 0.001 || rate > 1000 {
			return agent.Invalid("rates."+name, "want 0.001 to 1,000 requests per second")
		}
		if t.byName[name] == nil && name != webName {
			return agent.Invalid("rates."+name, "there is no such source")
		}
		t.rates[name] = perSecond(rate)
	}
	return nil
}

func (*toolkit) Name() string { return ToolkitName }

// OnRequest keeps the toolkit out of "every toolkit": agents that need it are granted it.
func (*toolkit) OnRequest() bool { return true }

func (t *toolkit) Tools() []agent.Tool { return append([]agent.Tool(nil), t.tools...) }

//go:embed schemas/*.json
var schemas embed.FS

func schemaOf(name string) (json.RawMessage, error) {
	raw, err := schemas.ReadFile("schemas/" + name + ".json")
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "make toolkit research", "%w", err)
	}
	return raw, nil
}

// withoutWeb removes the web from the sources that a model may name.
func withoutWeb(schema json.RawMessage) json.RawMessage {
	return json.RawMessage(strings.Replace(string(schema), `, "web"]`, "]", 1))
}

func (t *toolkit) makeTools() ([]agent.Tool, error) {
	var searches []*searchTool
	for _, s := range t.sources {
		searches = append(searches, &searchTool{name: s.tool, description: s.description, parse: s.parse})
	}
	searches = append(searches, &searchTool{name: togetherTool, description: togetherDescription, parse: t.parseTogether})
	var tools []agent.Tool
	for _, s := range searches {
		var err error
		if s.schema, err = schemaOf(s.name); err != nil {
			return nil, err
		}
		if s.name == togetherTool && t.byName[webName] == nil {
			s.schema = withoutWeb(s.schema)
		}
		s.kit = t
		tools = append(tools, s)
	}
	schema, err := schemaOf(bibliographyTool)
	return append(tools, &bibliography{kit: t, schema: schema}), err
}
