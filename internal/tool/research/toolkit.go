package research

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// ToolkitName is the name of the toolkit in the catalog.
const ToolkitName = "research"

// The default addresses of the services.
const (
	DefaultPubMedURL     = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
	DefaultTrialsURL     = "https://clinicaltrials.gov/api/v2"
	DefaultPreprintsURL  = "https://www.ebi.ac.uk/europepmc/webservices/rest"
	DefaultOpenAlexURL   = "https://api.openalex.org"
	DefaultDuckDuckGoURL = "https://html.duckduckgo.com"
	DefaultBraveURL      = "https://api.search.brave.com"
)

// callerName is the name of the caller in requests: in the User-Agent, and in NCBI's parameter tool.
const callerName = "turnstone"

// The defaults of a [Config].
const (
	DefaultMaxWait       = 10 * time.Second
	DefaultSourceTimeout = 20 * time.Second
)

// Config holds what the toolkit needs.
type Config struct {
	HTTP       tool.HTTP       // sends all requests
	Auth       tool.Auth       // nil: requests carry no credentials
	References tool.References // stores the bibliographies

	// The addresses of the services. Empty: the defaults.
	PubMedURL    string
	TrialsURL    string
	PreprintsURL string
	OpenAlexURL  string

	WebProvider string // of search_web: "duckduckgo", "searxng" or "brave"; empty: there is no search_web
	WebURL      string // the provider's address; empty: the default. SearXNG has no default

	Contact string // the operator's email address, for the services; empty: requests have none

	// Rates are requests per second by source (pubmed, clinical_trials, preprints, openalex, web). The defaults are what the services allow:
	// 3 for PubMed, or 10 with a key; 50 a minute for trials; 10 for preprints and OpenAlex.
	Rates map[string]float64

	MaxWait       time.Duration // until a request may be sent by its rate or by Retry-After; 0: 10 s
	SourceTimeout time.Duration // of one source in search_research; 0: 20 s
}

// Factory returns the factory of the toolkit. The runtime's dependencies replace those in cfg.
func Factory(cfg Config) tool.Factory {
	return tool.Factory{
		Name:  ToolkitName,
		Needs: []tool.Need{tool.NeedHTTP, tool.NeedAuth, tool.NeedReferences},
		New: func(d tool.Dependencies) (agent.Toolkit, error) {
			c := cfg
			c.HTTP, c.Auth, c.References = d.HTTP, d.Auth, d.References
			return New(c)
		},
	}
}

// toolkit is the toolkit "research". Its tools share the sources and the limits of requests.
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

// New returns the toolkit. The error is [agent.CodeInvalid] and names the field of the configuration.
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
	t.sources = literatureSources()
	for _, s := range t.sources {
		var err error
		if s.base, err = parseAddress(s.setting, configured[s.setting], s.defaultURL); err != nil {
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

// parseAddress returns the configured address of a source, or the default. field names it in the error.
func parseAddress(field, configured, defaultURL string) (*url.URL, error) {
	u, err := url.Parse(cmp.Or(configured, defaultURL))
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return nil, agent.Invalid(field, "want an address as https://example.org/path")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, agent.Invalid(field, "must have no user information, query or fragment")
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

func (t *toolkit) Tools() []agent.Tool { return slices.Clone(t.tools) }

//go:embed schemas/*.json
var schemas embed.FS

func schemaOf(name string) (json.RawMessage, error) {
	raw, err := schemas.ReadFile("schemas/" + name + ".json")
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "make toolkit research", "%w", err)
	}
	return raw, nil
}

func (t *toolkit) makeTools() ([]agent.Tool, error) {
	var searches []*searchTool
	for _, s := range t.sources {
		searches = append(searches, &searchTool{name: s.tool, description: s.description, parse: s.parse})
	}
	searches = append(searches, &searchTool{name: searchAllTool, description: searchAllDescription, parse: t.parseSearchAll})
	var tools []agent.Tool
	for _, s := range searches {
		var err error
		if s.schema, err = schemaOf(s.name); err != nil {
			return nil, err
		}
		if s.name == searchAllTool && t.byName[webName] == nil { // a model must not choose the source web
			s.schema = bytes.Replace(s.schema, []byte(`, "web"]`), []byte("]"), 1)
		}
		s.kit = t
		tools = append(tools, s)
	}
	schema, err := schemaOf(bibliographyTool)
	return append(tools, &bibliography{kit: t, schema: schema}), err
}
